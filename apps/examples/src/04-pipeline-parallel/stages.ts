/** @file The three parts of the network, each for a worker of its own, and what they did when. */
import { setImmediate } from 'node:timers/promises';
import { conv2d, customFunction, manualSeed, nn, rpcName, type Parameter, type Tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import { createRRef, type RRef } from '@backwire/rref';
import { CLASSES } from '../shared/mnist.ts';
import type { Span } from '../shared/timeline.ts';

/** One part of the network, on its worker. Its input may still be on the worker of the part before: it is fetched from there. */
abstract class Stage extends nn.Module {
  private spans: Span[] = [];
  private readonly began = new Map<number, number>();
  private turn: Promise<void> = Promise.resolve();

  /** The layers. `first` marks the weight whose gradient is the last thing that the backward pass of this part computes. */
  protected abstract layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor;

  /** Runs micro-batch `micro` of the current batch. */
  async forward(micro: number, input: RRef<Tensor> | Tensor): Promise<Tensor> {
    const x = 'toHere' in input ? await input.toHere() : input;
    return this.inTurn(() => {
      const start = now();
      const output = this.layers(x, (weight) => onBackward(weight, () => this.backwardEnds(micro)));
      this.spans.push({ label: `F${micro}`, kind: 'forward', group: micro, start, end: now() });
      if (output.requiresGrad)
        output.registerHook((gradient) => {
          this.began.set(micro, now());
          gradient.dispose();
        });
      return output;
    });
  }

  /**
   * Computes after what was asked for before. In between the worker answers whoever waits for an output: computing all micro-batches
   * in one go, it would let the next worker begin only after the last.
   */
  private inTurn<T>(compute: () => T): Promise<T> {
    const result = this.turn.then(compute);
    this.turn = result.then(answerOthers, answerOthers);
    return result;
  }

  /** References to the parameters, for the optimizer. */
  parameterRRefs(): RRef<Parameter>[] {
    return this.parameters().map((parameter) => createRRef(parameter));
  }

  /** What was done when since the last call, in milliseconds of this machine's clock. */
  takeSpans(): Span[] {
    return this.spans.splice(0);
  }

  private backwardEnds(micro: number): void {
    const start = this.began.get(micro);
    if (start !== undefined) this.spans.push({ label: `B${micro}`, kind: 'backward', group: micro, start, end: now() });
    this.began.delete(micro);
  }
}

// The layers are chosen so that the three parts take about as long as each other: the slowest sets the pace. Strides make the images
// smaller instead of pooling: time goes into arithmetic, which cores do beside each other, not into memory, which they share. What goes from part to part is small: a worker that computes
// cannot refill the buffers of a socket meanwhile.

/** Images [n, 1, 28, 28] to [n, 16, 7, 7]. */
export class Stage1 extends Stage {
  static readonly [rpcName] = 'examples/Stage1';
  readonly conv1: nn.Conv2d;
  readonly conv2: nn.Conv2d;

  constructor(seed: number) {
    super();
    manualSeed(seed);
    this.conv1 = new nn.Conv2d(1, 16, 5, { padding: 2, stride: 2 });
    this.conv2 = new nn.Conv2d(16, 16, 5, { padding: 2, stride: 2 });
  }

  protected layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor {
    const { weight, bias } = this.conv1;
    return this.conv2.forward(conv2d(x, first(weight), { padding: 2, stride: 2, bias }).relu()).relu();
  }
}
rpcClass(Stage1, { methods: ['forward', 'parameterRRefs', 'takeSpans'], scope: true });

/** [n, 16, 7, 7] to [n, 32, 4, 4]. */
export class Stage2 extends Stage {
  static readonly [rpcName] = 'examples/Stage2';
  readonly conv1: nn.Conv2d;
  readonly conv2: nn.Conv2d;

  constructor(seed: number) {
    super();
    manualSeed(seed + 1);
    this.conv1 = new nn.Conv2d(16, 24, 5, { padding: 2 });
    this.conv2 = new nn.Conv2d(24, 32, 3, { padding: 1, stride: 2 });
  }

  protected layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor {
    const { weight, bias } = this.conv1;
    return this.conv2.forward(conv2d(x, first(weight), { padding: 2, bias }).relu()).relu();
  }
}
rpcClass(Stage2, { methods: ['forward', 'parameterRRefs', 'takeSpans'], scope: true });

/** [n, 32, 4, 4] to logits [n, 10]. */
export class Stage3 extends Stage {
  static readonly [rpcName] = 'examples/Stage3';
  readonly conv1: nn.Conv2d;
  readonly conv2: nn.Conv2d;
  readonly output: nn.Linear;

  constructor(seed: number) {
    super();
    manualSeed(seed + 2);
    this.conv1 = new nn.Conv2d(32, 64, 3, { padding: 1 });
    this.conv2 = new nn.Conv2d(64, 64, 3, { padding: 1 });
    this.output = new nn.Linear(64 * 4 * 4, CLASSES);
  }

  protected layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor {
    const { weight, bias } = this.conv1;
    const features = this.conv2.forward(conv2d(x, first(weight), { padding: 1, bias }).relu()).relu();
    return this.output.forward(features.flatten(1));
  }
}
rpcClass(Stage3, { methods: ['forward', 'parameterRRefs', 'takeSpans'], scope: true });

/** The same tensor; `then` is called when its gradient has been computed. */
function onBackward(x: Tensor, then: () => void): Tensor {
  if (!x.requiresGrad) return x;
  return customFunction({
    forward: (_, input) => input.alias(),
    backward: (_, gradient) => {
      then();
      return [gradient];
    },
  })(x);
}

/** Turns of the event loop in which what came meanwhile is read, what is ready goes out, and who asks for it then is answered. */
async function answerOthers(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await setImmediate();
}

/** Milliseconds since 1970, with fractions: processes of one machine agree on it. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
