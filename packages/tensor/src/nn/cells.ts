/** @file One step of recurrent layers: what RNN, LSTM and GRU compute, and RNNCell, LSTMCell, GRUCell. */
import { calledAs } from '../called-as.ts';
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { zeros } from '../creation.ts';
import { rpcName } from '../named.ts';
import { linear } from '../ops/composite.ts';
import { checkOptionNames } from '../option-names.ts';
import { PARTS } from '../recurrent-layout.ts';
import { checkList, sameShape } from '../shape.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { uniformParameter } from './init.ts';
import { Module } from './module.ts';

export type CellKind = 'lstm' | 'gru' | 'tanh' | 'relu';

/** Named as PyTorch names them; lower than the parameters under autocast. */
export interface CellWeights {
  readonly weight_ih: Tensor;
  readonly weight_hh: Tensor;
  readonly bias_ih: Tensor | null;
  readonly bias_hh: Tensor | null;
  /** What makes h of what an LSTM's gates let out, where that is projected. */
  readonly weight_hr: Tensor | null;
}

/** One kind of step. */
export interface Cell {
  readonly kind: CellKind;
  /** How many parts the weights have. */
  readonly gates: number;
  /** How many tensors the state has; the first is the output. */
  readonly states: number;
  /** Whether both biases are only ever added: a layer may then add them up once for all steps. */
  readonly addsBiases: boolean;
  /** @param prepared the inputs' part of this step, of `prepare` */
  step(prepared: Tensor, state: readonly Tensor[], weights: CellWeights): Tensor[];
}

/** What follows from the inputs alone: of all steps in one product. */
export function prepare(x: Tensor, { weight_ih, bias_ih }: CellWeights): Tensor {
  return linear(x, weight_ih, bias_ih);
}

function gateOf(gates: Tensor, size: number): (k: number) => Tensor {
  return (k) => gates.narrow(1, k * size, size);
}

const lstm: Cell = {
  kind: 'lstm',
  gates: PARTS.lstm.gates,
  states: PARTS.lstm.states,
  addsBiases: true,
  step: (x, [h, c], { weight_hh, bias_hh, weight_hr }) => {
    const gate = gateOf(x.add(linear(h as Tensor, weight_hh, bias_hh)), (c as Tensor).shape[1] as number);
    const cell = gate(1)
      .sigmoid()
      .mul(c as Tensor)
      .add(gate(0).sigmoid().mul(gate(2).tanh()));
    const out = gate(3).sigmoid().mul(cell.tanh());
    return [weight_hr === null ? out : linear(out, weight_hr), cell];
  },
};

const gru: Cell = {
  kind: 'gru',
  gates: PARTS.gru.gates,
  states: PARTS.gru.states,
  addsBiases: false,
  step: (x, state, { weight_hh, bias_hh }) => {
    const h = state[0] as Tensor;
    const size = h.shape[1] as number;
    const [from, own] = [gateOf(x, size), gateOf(linear(h, weight_hh, bias_hh), size)];
    const reset = from(0).add(own(0)).sigmoid();
    const update = from(1).add(own(1)).sigmoid();
    const next = from(2)
      .add(reset.mul(own(2)))
      .tanh();
    return [next.add(update.mul(h.sub(next)))];
  },
};

const simple = (kind: 'tanh' | 'relu', activation: (t: Tensor) => Tensor): Cell => ({
  kind,
  gates: PARTS.rnn.gates,
  states: PARTS.rnn.states,
  addsBiases: true,
  step: (x, [h], { weight_hh, bias_hh }) => [activation(x.add(linear(h as Tensor, weight_hh, bias_hh)))],
});

export const CELLS: Readonly<Record<CellKind, Cell>> = {
  lstm,
  gru,
  tanh: simple('tanh', (t) => t.tanh()),
  relu: simple('relu', (t) => t.relu()),
};

/** What `RNNCell`, `LSTMCell` and `GRUCell` have in common. */
export interface CellOptions {
  /** @default true */
  bias?: boolean;
}

const OPTIONS: ReadonlySet<string> = new Set(['bias']);
const RNN_OPTIONS: ReadonlySet<string> = new Set(['bias', 'nonlinearity']);

/** The weights of one kind of step, with PyTorch's names and its start. */
export class CellParameters extends Module implements CellWeights {
  readonly weight_ih: Parameter;
  readonly weight_hh: Parameter;
  readonly bias_ih: Parameter | null;
  readonly bias_hh: Parameter | null;
  readonly weight_hr: Parameter | null;

  /** @param projSize what h is projected to; 0 for none */
  constructor({ gates }: Cell, inputSize: number, hiddenSize: number, bias: boolean, projSize = 0) {
    super();
    const bound = hiddenSize > 0 ? 1 / Math.sqrt(hiddenSize) : 0;
    const rows = gates * hiddenSize;
    this.weight_ih = uniformParameter([rows, inputSize], bound);
    this.weight_hh = uniformParameter([rows, projSize || hiddenSize], bound);
    this.bias_ih = bias ? uniformParameter([rows], bound) : null;
    this.bias_hh = bias ? uniformParameter([rows], bound) : null;
    this.weight_hr = projSize > 0 ? uniformParameter([projSize, hiddenSize], bound) : null;
  }
}

/** A single step as a module. */
abstract class CellModule extends CellParameters {
  private readonly cell: Cell;
  private readonly inputSize: number;
  private readonly hiddenSize: number;

  constructor(kind: CellKind, inputSize: number, hiddenSize: number, bias: boolean) {
    super(CELLS[kind], inputSize, hiddenSize, bias);
    this.cell = CELLS[kind];
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
  }

  protected run(x: Tensor, given: readonly Tensor[] | undefined): Tensor[] {
    const name = this.constructor.name;
    if (given !== undefined) checkList(given, `${name} takes a state of tensors in a list`);
    checkTensors(`${name}.forward`, [x, ...(given ?? [])]);
    if ((x.rank !== 1 && x.rank !== 2) || x.shape.at(-1) !== this.inputSize)
      throw new RangeError(
        `${name} takes x [batch, ${this.inputSize}] or [${this.inputSize}], got [${x.shape.join(', ')}]`,
      );
    const single = x.rank === 1;
    const rows = single ? x.unsqueeze(0) : x;
    const expected = [rows.shape[0] as number, this.hiddenSize];
    const state =
      given?.map((s) => {
        const own = single && s.rank === 1 ? s.unsqueeze(0) : s;
        if (!sameShape(own.shape, expected))
          throw new RangeError(
            `${name}: expected a state of shape [${expected.join(', ')}], got [${s.shape.join(', ')}]`,
          );
        return own;
      }) ?? Array.from({ length: this.cell.states }, () => zeros(expected, { dtype: x.dtype }));
    const next = calledAs(`${name}()`, () => this.cell.step(prepare(rows, this), state, this));
    return single ? next.map((s) => s.squeeze(0)) : next;
  }
}

/** x [batch, in] and [h, c] → [h, c]. */
export class LSTMCell extends CellModule {
  static readonly [rpcName] = 'nn.LSTMCell';
  constructor(inputSize: number, hiddenSize: number, options: CellOptions = {}) {
    checkOptionNames(options, OPTIONS, 'nn.LSTMCell');
    checkMade(new.target, [inputSize, hiddenSize, options]);
    super('lstm', inputSize, hiddenSize, options.bias ?? true);
  }
  forward(x: Tensor, state?: readonly [Tensor, Tensor]): [Tensor, Tensor] {
    return this.run(x, state) as [Tensor, Tensor];
  }
}

/** x [batch, in] and h → h. */
export class GRUCell extends CellModule {
  static readonly [rpcName] = 'nn.GRUCell';
  constructor(inputSize: number, hiddenSize: number, options: CellOptions = {}) {
    checkOptionNames(options, OPTIONS, 'nn.GRUCell');
    checkMade(new.target, [inputSize, hiddenSize, options]);
    super('gru', inputSize, hiddenSize, options.bias ?? true);
  }
  forward(x: Tensor, state?: Tensor): Tensor {
    return this.run(x, state === undefined ? undefined : [state])[0] as Tensor;
  }
}

/** x [batch, in] and h → h. */
export class RNNCell extends CellModule {
  static readonly [rpcName] = 'nn.RNNCell';
  constructor(inputSize: number, hiddenSize: number, options: CellOptions & { nonlinearity?: 'tanh' | 'relu' } = {}) {
    checkOptionNames(options, RNN_OPTIONS, 'nn.RNNCell');
    checkMade(new.target, [inputSize, hiddenSize, options]);
    const { nonlinearity = 'tanh', bias = true } = options;
    if (nonlinearity !== 'tanh' && nonlinearity !== 'relu')
      throw new RangeError(`Unknown nonlinearity '${String(nonlinearity)}'. Select from 'tanh' or 'relu'.`);
    super(nonlinearity, inputSize, hiddenSize, bias);
  }
  forward(x: Tensor, state?: Tensor): Tensor {
    return this.run(x, state === undefined ? undefined : [state])[0] as Tensor;
  }
}
