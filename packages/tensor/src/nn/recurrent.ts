/** @file RNN, LSTM and GRU over sequences: layers, both directions, dropout between layers, packed sequences. */
import { calledAs } from '../called-as.ts';
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { zeros } from '../creation.ts';
import type { DType } from '../dtype.ts';
import { rpcName } from '../named.ts';
import { dropout } from '../ops/composite.ts';
import { concat } from '../ops/join.ts';
import { stack } from '../ops/stack.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { checkShape, sameShape } from '../shape.ts';
import { Tensor, type Parameter } from '../tensor.ts';
import { CellParameters, CELLS, type Cell, type CellKind } from './cells.ts';
import { atOnce, fits, layerOf, walk } from './layer-walk.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';
import { PackedSequence } from './packed.ts';

/** What `RNN`, `LSTM` and `GRU` are made with. */
export interface RecurrentOptions {
  /** How many layers, one over the other; `layers` for short. @default 1 */
  numLayers?: number;
  layers?: number;
  /** @default true */
  bias?: boolean;
  /** [batch, steps, channels] instead of [steps, batch, channels]. @default false */
  batchFirst?: boolean;
  /** Of what goes from layer to layer, while training. @default 0 */
  dropout?: number;
  /** Runs a second set of weights from the end to the start, and joins the outputs. @default false */
  bidirectional?: boolean;
}

/** What `LSTM` is made with. */
export interface LSTMOptions extends RecurrentOptions {
  /** What h is projected to, fewer than the hidden size; 0 for as it is. @default 0 */
  projSize?: number;
}

const OPTIONS = optionNames<RecurrentOptions>()('numLayers layers bias batchFirst dropout bidirectional');
const LSTM_OPTIONS: ReadonlySet<string> = new Set([...OPTIONS, 'projSize']);
const RNN_OPTIONS: ReadonlySet<string> = new Set([...OPTIONS, 'nonlinearity']);

type Sequence = Tensor | PackedSequence;

/** What all three have in common. */
abstract class Recurrent extends Module {
  protected readonly inputSize: number;
  protected readonly hiddenSize: number;
  protected readonly layerCount: number;
  /** What h is projected to; 0 for as it is. */
  private readonly projSize: number;
  private readonly batchFirst: boolean;
  private readonly dropout: number;
  private readonly directions: 1 | 2;
  private readonly stacked: readonly CellParameters[];
  private readonly cell: Cell;

  constructor(kind: CellKind, inputSize: number, hiddenSize: number, options: LSTMOptions) {
    super();
    checkMade(new.target, [inputSize, hiddenSize, options]);
    const { bias = true, batchFirst = false, bidirectional = false, projSize = 0 } = options;
    const layers = options.numLayers ?? options.layers ?? 1;
    if (!Number.isInteger(layers) || layers < 1) throw new RangeError('numLayers must be greater than zero');
    checkShape([layers, hiddenSize, inputSize]);
    for (const [name, size] of Object.entries({ inputSize, hiddenSize }))
      if (size === 0) throw new RangeError(`${name} must be greater than zero`);
    const rate = options.dropout ?? 0;
    if (!(rate >= 0 && rate <= 1))
      throw new RangeError(
        'dropout should be a number in range [0, 1] representing the probability of an element being zeroed',
      );
    if (!Number.isInteger(projSize) || projSize < 0 || projSize >= Math.max(1, hiddenSize))
      throw new RangeError(
        `projSize has to be a whole number from 0 (no projection) to less than hiddenSize ${hiddenSize}, but got ${projSize}`,
      );
    this.cell = CELLS[kind];
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
    this.projSize = projSize;
    this.layerCount = layers;
    this.batchFirst = batchFirst;
    this.dropout = rate;
    this.directions = bidirectional ? 2 : 1;
    this.stacked = Array.from({ length: layers * this.directions }, (_, i) => {
      const below = i < this.directions ? inputSize : this.outputSize * this.directions;
      return new CellParameters(this.cell, below, hiddenSize, bias, projSize);
    });
  }

  override [SETTINGS](): Settings {
    const { batchFirst, dropout, layerCount: numLayers, directions, projSize } = this;
    const projection = projSize > 0 ? { projSize } : {};
    return [['', { numLayers, batchFirst, dropout, bidirectional: directions === 2, ...projection }]];
  }

  private get outputSize(): number {
    return this.projSize || this.hiddenSize;
  }

  /** The path of each parameter is PyTorch's: 'weight_ih_l0', 'weight_ih_l0_reverse'. */
  protected override parameterEntries(): [string, Parameter][] {
    return this.stacked.flatMap((one, i) => {
      const suffix = `_l${Math.floor(i / this.directions)}${i % this.directions === 1 ? '_reverse' : ''}`;
      return one.namedParameters().map(([name, parameter]): [string, Parameter] => [`${name}${suffix}`, parameter]);
    });
  }

  protected override moduleEntries(): [string, Module][] {
    return [];
  }

  /** Outputs, and the state that each sequence ends with: a list of [layers * directions, batch, hidden]. */
  protected run(x: Sequence, given: readonly Tensor[] | undefined): [Sequence, Tensor[]] {
    if (x instanceof PackedSequence) return this.runPacked(x, given);
    const name = this.constructor.name;
    checkTensors(`${name}.forward`, [x]);
    const wanted = `${name} takes x [steps, batch, inputSize] or [steps, inputSize]`;
    if (x.rank !== 2 && x.rank !== 3) throw new RangeError(`${wanted}, got [${x.shape.join(', ')}]`);
    if (x.shape.at(-1) !== this.inputSize)
      throw new RangeError(`${name} takes x [steps, batch, ${this.inputSize}], got [${x.shape.join(', ')}]`);
    const single = x.rank === 2;
    const steps = single ? x.unsqueeze(1) : this.batchFirst ? x.transpose(0, 1) : x;
    const [count, batch] = steps.shape as [number, number];
    if (count === 0) throw new RangeError(`${name}: expected sequence length to be larger than 0`);
    const state = this.startOf(given, batch, single, x.dtype);
    const [out, last] = this.layers(
      steps.reshape([count * batch, this.inputSize]),
      Array<number>(count).fill(batch),
      state,
      false,
    );
    const wide = out.reshape([count, batch, this.outputSize * this.directions]);
    if (single) return [wide.squeeze(1), last.map((s) => s.squeeze(1))];
    return [this.batchFirst ? wide.transpose(0, 1) : wide, last];
  }

  private runPacked(x: PackedSequence, given: readonly Tensor[] | undefined): [PackedSequence, Tensor[]] {
    if (x.data.shape.at(-1) !== this.inputSize)
      throw new RangeError(
        `${this.constructor.name} takes packed elements [${this.inputSize}], got [${x.data.shape.join(', ')}]`,
      );
    const sizes = x.batchSizes;
    const state = this.startOf(given, sizes[0] ?? 0, false, x.data.dtype);
    const sorted = x.sortedIndices === null ? state : state.map((s) => s.indexSelect(1, x.sortedIndices as Tensor));
    const [out, last] = this.layers(x.data, sizes, sorted, true);
    const back = x.unsortedIndices;
    const packed = new PackedSequence(out, sizes, x.sortedIndices, back);
    return [packed, back === null ? last : last.map((s) => s.indexSelect(1, back))];
  }

  /** The state to begin with: each [layers * directions, batch, hidden], of h what it is projected to. */
  private startOf(given: readonly Tensor[] | undefined, batch: number, single: boolean, dtype: DType): Tensor[] {
    const { states } = this.cell;
    const count = this.layerCount * this.directions;
    const expected = Array.from({ length: states }, (_, k) => [
      count,
      batch,
      k === 0 ? this.outputSize : this.hiddenSize,
    ]);
    if (given === undefined) return expected.map((shape) => zeros(shape, { dtype }));
    const list: unknown = given;
    if (!Array.isArray(list) || given.length !== states || given.some((part) => !(part instanceof Tensor)))
      throw new TypeError(
        `${this.constructor.name} takes ${states === 1 ? 'a tensor h' : 'tensors [h, c]'} as its state`,
      );
    return given.map((part, k) => {
      const [, , size] = expected[k] as number[];
      const plain = single ? [count, size as number] : (expected[k] as number[]);
      if (!sameShape(part.shape, plain)) {
        throw new RangeError(
          `${this.constructor.name}: expected states of shape [${plain.join(', ')}], got [${part.shape.join(', ')}]`,
        );
      }
      return single ? part.unsqueeze(1) : part;
    });
  }

  private layers(x: Tensor, sizes: readonly number[], start: readonly Tensor[], packed: boolean): [Tensor, Tensor[]] {
    const name = `${this.constructor.name}()`;
    const ends: Tensor[][] = start.map(() => []);
    const run = packed || this.projSize > 0 ? walk : this.cell !== CELLS.lstm ? atOnce : fits(x) ? layerOf : walk;
    let output = x;
    for (let layer = 0; layer < this.layerCount; layer++) {
      const sides: Tensor[] = [];
      for (let d = 0; d < this.directions; d++) {
        const i = layer * this.directions + d;
        const own = start.map((s) => s.select(0, i));
        const { weight_ih, weight_hh, bias_ih, bias_hh, weight_hr } = this.stacked[i] as CellParameters;
        const weights = { weight_ih, weight_hh, bias_ih, bias_hh, weight_hr };
        const [out, last] = calledAs(name, () => run(output, own, weights, this.cell, { sizes, backwards: d === 1 }));
        sides.push(out);
        last.forEach((s, k) => (ends[k] as Tensor[]).push(s));
      }
      output = sides.length === 1 ? (sides[0] as Tensor) : concat(sides, -1);
      if (this.dropout > 0 && layer < this.layerCount - 1) output = dropout(output, this.dropout, this.training);
    }
    return [output, ends.map((parts) => stack(parts))];
  }
}

/**
 * x [steps, batch, inputSize] → [output [steps, batch, hiddenSize], [h, c] each [layers, batch, hiddenSize]]. The state starts at
 * zero when it is not given. (Hochreiter & Schmidhuber 1997, with forget gates.) With `projSize`, output and h have that size (Sak et al. 2014).
 */
export class LSTM extends Recurrent {
  static readonly [rpcName] = 'nn.LSTM';
  constructor(inputSize: number, hiddenSize: number, options: LSTMOptions = {}) {
    checkOptionNames(options, LSTM_OPTIONS, 'nn.LSTM');
    super('lstm', inputSize, hiddenSize, options);
  }
  forward(x: Tensor, state?: [Tensor, Tensor]): [Tensor, [Tensor, Tensor]];
  forward(x: PackedSequence, state?: [Tensor, Tensor]): [PackedSequence, [Tensor, Tensor]];
  forward(x: Sequence, state?: [Tensor, Tensor]): [Sequence, [Tensor, Tensor]] {
    return this.run(x, state) as [Sequence, [Tensor, Tensor]];
  }
}

/** As LSTM, with one state: [output, h]. (Cho et al. 2014, in PyTorch's form.) */
export class GRU extends Recurrent {
  static readonly [rpcName] = 'nn.GRU';
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    checkOptionNames(options, OPTIONS, 'nn.GRU');
    super('gru', inputSize, hiddenSize, options);
  }
  forward(x: Tensor, state?: Tensor): [Tensor, Tensor];
  forward(x: PackedSequence, state?: Tensor): [PackedSequence, Tensor];
  forward(x: Sequence, state?: Tensor): [Sequence, Tensor] {
    const [out, [h]] = this.run(x, state === undefined ? undefined : [state]);
    return [out, h as Tensor];
  }
}

/** h ← tanh(W x + U h + b), or relu of it (Elman 1990). */
export class RNN extends Recurrent {
  static readonly [rpcName] = 'nn.RNN';
  constructor(
    inputSize: number,
    hiddenSize: number,
    options: RecurrentOptions & { nonlinearity?: 'tanh' | 'relu' } = {},
  ) {
    checkOptionNames(options, RNN_OPTIONS, 'nn.RNN');
    checkMade(new.target, [inputSize, hiddenSize, options]);
    const { nonlinearity = 'tanh', ...rest } = options;
    if (nonlinearity !== 'tanh' && nonlinearity !== 'relu')
      throw new RangeError(`Unknown nonlinearity '${String(nonlinearity)}'. Select from 'tanh' or 'relu'.`);
    super(nonlinearity, inputSize, hiddenSize, rest);
  }
  forward(x: Tensor, state?: Tensor): [Tensor, Tensor];
  forward(x: PackedSequence, state?: Tensor): [PackedSequence, Tensor];
  forward(x: Sequence, state?: Tensor): [Sequence, Tensor] {
    const [out, [h]] = this.run(x, state === undefined ? undefined : [state]);
    return [out, h as Tensor];
  }
}
