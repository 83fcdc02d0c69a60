import { setImmediate } from 'node:timers/promises';
import { createRRef, manualSeed, nn, rpcClass, rpcName, type Parameter, type RRef, type Tensor } from 'backwire';

/** Some layers of the network, on a worker of their own. */
export class Stage extends nn.Module {
  static readonly [rpcName] = 'pipeline/Stage';
  readonly layers: nn.Sequential<[nn.Linear, nn.ReLU, nn.Linear]>;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(inputs: number, hidden: number, outputs: number) {
    super();
    manualSeed(inputs);
    this.layers = new nn.Sequential(new nn.Linear(inputs, hidden), new nn.ReLU(), new nn.Linear(hidden, outputs));
  }

  /** Takes its input from the worker that has it, and computes after what it was asked for before. */
  async forward(input: RRef<Tensor>): Promise<Tensor> {
    const x = await input.toHere();
    const output = this.#turn.then(() => this.layers.forward(x));
    this.#turn = output.then(answerOthers, answerOthers);
    return output;
  }

  parameterRRefs(): RRef<Parameter>[] {
    return this.parameters().map((parameter) => createRRef(parameter));
  }
}
rpcClass(Stage, { methods: ['forward', 'parameterRRefs'] });

/** Turns of the event loop in which this output goes out, and who asks for it is answered: while this worker computes it sends nothing. */
async function answerOthers(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await setImmediate();
}
