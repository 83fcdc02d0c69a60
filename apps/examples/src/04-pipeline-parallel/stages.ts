/** @file The three parts of the network, each for a worker of its own, and what they did when. */
import {
  conv2d,
  customFunction,
  manualSeed,
  maxPool2d,
  nn,
  rpcName,
  type Parameter,
  type Tensor,
} from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import { createRRef, type RRef } from '@backwire/rref';
import { CLASSES } from '../shared/mnist.ts';
import type { Span } from '../shared/timeline.ts';

/** One part of the network, on its worker. Its input may still be on the worker of the part before: it is fetched from there. */
abstract class Stage extends nn.Module {
  private spans: Span[] = [];
  private readonly began = new Map<number, number>();

  /** The layers. `first` marks the weight whose gradient is the last thing that the backward pass of this part computes. */
  protected abstract layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor;

  /** Runs micro-batch `micro` of the current batch. */
  async forward(micro: number, input: RRef<Tensor> | Tensor): Promise<Tensor> {
    const x = 'toHere' in input ? await input.toHere() : input;
    const start = now();
    const output = this.layers(x, (weight) => onBackward(weight, () => this.backwardEnds(micro)));
    // Small results are computed when they are asked for, and this is the time to count.
    this.spans.push({ label: `F${micro}`, kind: 'forward', group: micro, start, end: now() });
    return onBackward(output, () => this.began.set(micro, now()));
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

/** Images [n, 1, 28, 28] to [n, 8, 14, 14]. */
export class Stage1 extends Stage {
  static readonly [rpcName] = 'examples/Stage1';
  readonly conv1: nn.Conv2d;
  readonly conv2: nn.Conv2d;

  constructor(seed: number) {
    super();
    manualSeed(seed);
    this.conv1 = new nn.Conv2d(1, 8, 3, { padding: 1 });
    this.conv2 = new nn.Conv2d(8, 8, 3, { padding: 1 });
  }

  protected layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor {
    const { weight, bias } = this.conv1;
    return maxPool2d(this.conv2.forward(conv2d(x, first(weight), { padding: 1, bias }).relu()).relu(), 2);
  }
}
rpcClass(Stage1, { methods: ['forward', 'parameterRRefs', 'takeSpans'] });

/** [n, 8, 14, 14] to [n, 16, 7, 7]. */
export class Stage2 extends Stage {
  static readonly [rpcName] = 'examples/Stage2';
  readonly conv: nn.Conv2d;

  constructor(seed: number) {
    super();
    manualSeed(seed + 1);
    this.conv = new nn.Conv2d(8, 16, 5, { padding: 2 });
  }

  protected layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor {
    const { weight, bias } = this.conv;
    return maxPool2d(conv2d(x, first(weight), { padding: 2, bias }).relu(), 2);
  }
}
rpcClass(Stage2, { methods: ['forward', 'parameterRRefs', 'takeSpans'] });

/** [n, 16, 7, 7] to logits [n, 10]. */
export class Stage3 extends Stage {
  static readonly [rpcName] = 'examples/Stage3';
  readonly conv: nn.Conv2d;
  readonly hidden: nn.Linear;
  readonly output: nn.Linear;

  constructor(seed: number) {
    super();
    manualSeed(seed + 2);
    this.conv = new nn.Conv2d(16, 32, 3, { padding: 1 });
    this.hidden = new nn.Linear(32 * 7 * 7, 128);
    this.output = new nn.Linear(128, CLASSES);
  }

  protected layers(x: Tensor, first: (weight: Tensor) => Tensor): Tensor {
    const { weight, bias } = this.conv;
    const features = conv2d(x, first(weight), { padding: 1, bias }).relu().flatten(1);
    return this.output.forward(this.hidden.forward(features).relu());
  }
}
rpcClass(Stage3, { methods: ['forward', 'parameterRRefs', 'takeSpans'] });

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

/** Milliseconds since 1970, with fractions: processes of one machine agree on it. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
