/** @file LSTM: long short-term memory over a sequence, layer by layer. */
import { zeros } from '../creation.ts';
import { stack } from '../ops/join.ts';
import { rpcName } from '../named.ts';
import { sameShape } from '../shape.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { uniformParameter } from './init.ts';
import { Module } from './module.ts';
import { checkOptionNames } from '../option-names.ts';

const OPTIONS: ReadonlySet<string> = new Set(['layers']);

/** The weights of one layer, named as PyTorch names them; gates in the order input, forget, cell, output. */
class LSTMLayer extends Module {
  readonly weight_ih: Parameter;
  readonly weight_hh: Parameter;
  readonly bias_ih: Parameter;
  readonly bias_hh: Parameter;

  constructor(inputSize: number, hiddenSize: number) {
    super();
    const bound = 1 / Math.sqrt(hiddenSize);
    this.weight_ih = uniformParameter([4 * hiddenSize, inputSize], bound);
    this.weight_hh = uniformParameter([4 * hiddenSize, hiddenSize], bound);
    this.bias_ih = uniformParameter([4 * hiddenSize], bound);
    this.bias_hh = uniformParameter([4 * hiddenSize], bound);
  }

  /** x [steps, batch, in], state [batch, hidden] twice → outputs [steps, batch, hidden] and the last state. */
  run(x: Tensor, hidden: Tensor, cell: Tensor): [Tensor, Tensor, Tensor] {
    const size = hidden.shape[1] as number;
    const recurrent = this.weight_hh.transpose(0, 1);
    // The inputs of all steps go through one product; only the recurrence is step by step.
    const inputs = x.matmul(this.weight_ih.transpose(0, 1)).add(this.bias_ih).add(this.bias_hh);
    const outputs: Tensor[] = [];
    let h = hidden;
    let c = cell;
    for (let t = 0; t < (x.shape[0] as number); t++) {
      const gates = inputs.select(0, t).add(h.matmul(recurrent));
      const gate = (k: number): Tensor => gates.narrow(1, k * size, size);
      c = gate(1)
        .sigmoid()
        .mul(c)
        .add(gate(0).sigmoid().mul(gate(2).tanh()));
      h = gate(3).sigmoid().mul(c.tanh());
      outputs.push(h);
    }
    return [stack(outputs, 0), h, c];
  }
}

/**
 * x [steps, batch, inputSize] → [output [steps, batch, hiddenSize], [h, c] each [layers, batch, hiddenSize]]. The state starts at
 * zero when it is not given. (Hochreiter & Schmidhuber 1997, with forget gates.)
 */
export class LSTM extends Module {
  static readonly [rpcName] = 'nn.LSTM';
  private readonly inputSize: number;
  private readonly hiddenSize: number;
  private readonly stacked: readonly LSTMLayer[];

  constructor(inputSize: number, hiddenSize: number, options: { layers?: number } = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.LSTM');
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
    this.stacked = Array.from(
      { length: options.layers ?? 1 },
      (_, i) => new LSTMLayer(i === 0 ? inputSize : hiddenSize, hiddenSize),
    );
  }

  /** The path of each parameter is PyTorch's: 'weight_ih_l0'. */
  override namedParameters(): [string, Parameter][] {
    return this.stacked.flatMap((layer, i) =>
      layer.namedParameters().map(([name, parameter]): [string, Parameter] => [`${name}_l${i}`, parameter]),
    );
  }

  override namedChildren(): [string, Module][] {
    return [];
  }

  forward(x: Tensor, state?: [Tensor, Tensor]): [Tensor, [Tensor, Tensor]] {
    if (x.rank !== 3) throw new RangeError(`LSTM takes x [steps, batch, inputSize], got [${x.shape.join(', ')}]`);
    if (x.shape[2] !== this.inputSize) {
      throw new RangeError(`LSTM takes x [steps, batch, ${this.inputSize}], got [${x.shape.join(', ')}]`);
    }
    if (x.shape[0] === 0) throw new RangeError('LSTM: expected sequence length to be larger than 0');
    const batch = x.shape[1] as number;
    const expected = [this.stacked.length, batch, this.hiddenSize];
    for (const part of state ?? []) {
      if (!sameShape(part.shape, expected))
        throw new RangeError(`LSTM: expected states of shape [${expected.join(', ')}], got [${part.shape.join(', ')}]`);
    }
    const start = (): Tensor => zeros([batch, this.hiddenSize]);
    const hiddens: Tensor[] = [];
    const cells: Tensor[] = [];
    let output = x;
    for (const [i, layer] of this.stacked.entries()) {
      const [h, c] = state === undefined ? [start(), start()] : [state[0].select(0, i), state[1].select(0, i)];
      const [out, last, cell] = layer.run(output, h, c);
      output = out;
      hiddens.push(last);
      cells.push(cell);
    }
    return [output, [stack(hiddens, 0), stack(cells, 0)]];
  }
}
