/** @file RNN, LSTM and GRU over sequences: layers, both directions, dropout between layers, packed sequences. */
import { ambient } from '../ambient.ts';
import { underAutocast } from '../autocast.ts';
import { zeros } from '../creation.ts';
import type { DType } from '../dtype.ts';
import { rpcName } from '../named.ts';
import { observed } from '../observed.ts';
import { dropout } from '../ops/composite.ts';
import { concat } from '../ops/join.ts';
import { stack } from '../ops/stack.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { sameShape } from '../shape.ts';
import type { LayerSize } from '../recurrent-layout.ts';
import { Tensor, type Parameter } from '../tensor.ts';
import { CellParameters, CELLS, prepare, type Cell, type CellKind, type CellWeights } from './cells.ts';
import { layerBackend, layerEvent, recurrentLayer, type Plain, type Results } from './recurrent-layer.ts';
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

const OPTIONS = optionNames<RecurrentOptions>()('numLayers layers bias batchFirst dropout bidirectional');
const RNN_OPTIONS: ReadonlySet<string> = new Set([...OPTIONS, 'nonlinearity']);

/** The sequences of a layer, and which way they are gone through. */
interface Walk {
  /** Step t has sizes[t] of them. */
  readonly sizes: readonly number[];
  readonly backwards: boolean;
}

/** The sequences in `x`, [elements, in]: outputs [elements, hidden], and the state each ends with. */
function walk(x: Tensor, start: readonly Tensor[], given: CellWeights, cell: Cell, way: Walk): [Tensor, Tensor[]] {
  const weights = cell.addsBiases ? withOneBias(given) : given;
  return stepByStep(prepare(x, weights), start, weights, cell, way);
}

/** @param prepared what the inputs give the gates */
function stepByStep(
  prepared: Tensor,
  start: readonly Tensor[],
  weights: CellWeights,
  cell: Cell,
  { sizes, backwards }: Walk,
): [Tensor, Tensor[]] {
  const starts = sizes.map((_, t) => sizes.slice(0, t).reduce((a, b) => a + b, 0));
  const outputs = new Array<Tensor>(sizes.length);
  const ended: Tensor[][] = start.map(() => []);
  let state = start.map((s) => s.narrow(0, 0, backwards ? 0 : (sizes[0] ?? 0)));
  let rows = backwards ? 0 : (sizes[0] ?? 0);
  for (let i = 0; i < sizes.length; i++) {
    const t = backwards ? sizes.length - 1 - i : i;
    const size = sizes[t] as number;
    // Sequences are sorted by length: the last rows end first, or going back begin last.
    if (size > rows) state = state.map((s, k) => concat([s, (start[k] as Tensor).narrow(0, rows, size - rows)]));
    else if (size < rows) {
      state.forEach((s, k) => (ended[k] as Tensor[]).unshift(s.narrow(0, size, rows - size)));
      state = state.map((s) => s.narrow(0, 0, size));
    }
    rows = size;
    state = cell.step(prepared.narrow(0, starts[t] as number, size), state, weights);
    outputs[t] = state[0] as Tensor;
  }
  const last = state.map((s, k) => (ended[k]?.length === 0 ? s : concat([s, ...(ended[k] as Tensor[])])));
  return [concat(outputs), last];
}

function withOneBias(weights: CellWeights): CellWeights {
  const { bias_ih, bias_hh } = weights;
  return bias_ih === null || bias_hh === null ? weights : { ...weights, bias_ih: bias_ih.add(bias_hh), bias_hh: null };
}

/**
 * As PyTorch's LSTM on CPUs, which is one operation for each layer and direction and is lowered under autocast: of half precision it gets the
 * sequences, states and weights, and gives h, step by step, and the last c; all else it computes in single precision. Packed sequences are
 * none of its inputs, nor are those that `fits` is false of: their LSTM is made of products, as the other layers are to autocast.
 */
const layerOf = underAutocast<typeof walk>('aten::mkldnn_rnn_layer', (x, start, weights, cell, way) => {
  const { dtype } = x;
  const half = dtype === 'bfloat16' || dtype === 'float16';
  if (!half || weights.weight_ih.dtype !== dtype) return atOnce(x, start, weights, cell, way);
  const { weight_ih, weight_hh, bias_ih, bias_hh } = weights;
  const single = {
    weight_ih: weight_ih.float(),
    weight_hh: weight_hh.float(),
    bias_ih: bias_ih?.float() ?? null,
    bias_hh: bias_hh?.float() ?? null,
  };
  const rounding: Cell = {
    ...cell,
    step: (...given) => {
      const [h, c] = cell.step(...given) as [Tensor, Tensor];
      return [h.to(dtype).float(), c];
    },
  };
  const states = start.map((s) => s.float());
  const [outputs, last] = walk(x.float(), states, single, rounding, way);
  return [outputs.to(dtype), last.map((s) => s.to(dtype))];
});

/** As one operation where the backend has it, for sequences of one length. */
function atOnce(x: Tensor, start: readonly Tensor[], given: CellWeights, cell: Cell, way: Walk): [Tensor, Tensor[]] {
  const [rows, hidden] = (start[0] as Tensor).shape as readonly [number, number];
  const size: LayerSize = { steps: way.sizes.length, rows, hidden, backwards: way.backwards };
  const { weight_ih, weight_hh, bias_ih, bias_hh } = given;
  const inputs = [x, weight_ih, weight_hh, ...start, ...[bias_ih, bias_hh].filter((bias) => bias !== null)];
  const backend = layerBackend(cell.kind, inputs, size);
  if (backend === undefined) return walk(x, start, given, cell, way);
  const weights = cell.addsBiases ? withOneBias(given) : given;
  const plain: Plain = (own) => {
    const parts = { ...weights, weight_hh: own.weights, bias_hh: own.bias };
    const [outputs, [, ...others]] = stepByStep(own.prepared, own.start, parts, cell, way);
    return [outputs, ...others];
  };
  const compute = (): Results => {
    const operands = { prepared: prepare(x, weights), weights: weights.weight_hh, start, bias: weights.bias_hh };
    return recurrentLayer(cell.kind, backend, operands, size, plain);
  };
  const { profile } = ambient();
  let results: Results | undefined;
  if (profile !== undefined) observed(profile, layerEvent(cell.kind), inputs, () => (results = compute())[0] as Tensor);
  const [outputs, ...others] = (results ?? compute()) as [Tensor, ...Tensor[]];
  return [outputs, [outputs.narrow(0, way.backwards ? 0 : (size.steps - 1) * rows, rows), ...others]];
}

/** Whether sequences are such as PyTorch has that operation for: of float16 it has no backward pass. */
function fits(x: Tensor): boolean {
  return x.size > 0 && !(x.dtype === 'float16' && ambient().gradMode);
}

type Sequence = Tensor | PackedSequence;

/** What all three have in common. */
abstract class Recurrent extends Module {
  protected readonly inputSize: number;
  protected readonly hiddenSize: number;
  protected readonly layerCount: number;
  private readonly batchFirst: boolean;
  private readonly dropout: number;
  private readonly directions: 1 | 2;
  private readonly stacked: readonly CellParameters[];
  private readonly cell: Cell;

  constructor(kind: CellKind, inputSize: number, hiddenSize: number, options: RecurrentOptions) {
    super();
    const { bias = true, batchFirst = false, bidirectional = false } = options;
    const layers = options.numLayers ?? options.layers ?? 1;
    if (!Number.isInteger(layers) || layers < 1) throw new RangeError('numLayers must be greater than zero');
    const rate = options.dropout ?? 0;
    if (!(rate >= 0 && rate <= 1))
      throw new RangeError(
        'dropout should be a number in range [0, 1] representing the probability of an element being zeroed',
      );
    this.cell = CELLS[kind];
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
    this.layerCount = layers;
    this.batchFirst = batchFirst;
    this.dropout = rate;
    this.directions = bidirectional ? 2 : 1;
    this.stacked = Array.from({ length: layers * this.directions }, (_, i) => {
      const below = i < this.directions ? inputSize : hiddenSize * this.directions;
      return new CellParameters(this.cell, below, hiddenSize, bias);
    });
  }

  override [SETTINGS](): Settings {
    const { batchFirst, dropout, layerCount: numLayers, directions } = this;
    return [['', { numLayers, batchFirst, dropout, bidirectional: directions === 2 }]];
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
    const wide = out.reshape([count, batch, this.hiddenSize * this.directions]);
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

  /** The state to begin with: each [layers * directions, batch, hidden]. */
  private startOf(given: readonly Tensor[] | undefined, batch: number, single: boolean, dtype: DType): Tensor[] {
    const expected = [this.layerCount * this.directions, batch, this.hiddenSize];
    const plain = single ? [expected[0] as number, this.hiddenSize] : expected;
    if (given === undefined) return Array.from({ length: this.cell.states }, () => zeros(expected, { dtype }));
    const { states } = this.cell;
    if (given.length !== states || given.some((part) => !(part instanceof Tensor)))
      throw new TypeError(
        `${this.constructor.name} takes ${states === 1 ? 'a tensor h' : 'tensors [h, c]'} as its state`,
      );
    return given.map((part) => {
      if (!sameShape(part.shape, plain)) {
        throw new RangeError(
          `${this.constructor.name}: expected states of shape [${plain.join(', ')}], got [${part.shape.join(', ')}]`,
        );
      }
      return single ? part.unsqueeze(1) : part;
    });
  }

  private layers(x: Tensor, sizes: readonly number[], start: readonly Tensor[], packed: boolean): [Tensor, Tensor[]] {
    const ends: Tensor[][] = start.map(() => []);
    const run = packed ? walk : this.cell !== CELLS.lstm ? atOnce : fits(x) ? layerOf : walk;
    let output = x;
    for (let layer = 0; layer < this.layerCount; layer++) {
      const sides: Tensor[] = [];
      for (let d = 0; d < this.directions; d++) {
        const i = layer * this.directions + d;
        const own = start.map((s) => s.select(0, i));
        const { weight_ih, weight_hh, bias_ih, bias_hh } = this.stacked[i] as CellParameters;
        const weights = { weight_ih, weight_hh, bias_ih, bias_hh };
        const [out, last] = run(output, own, weights, this.cell, { sizes, backwards: d === 1 });
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
 * zero when it is not given. (Hochreiter & Schmidhuber 1997, with forget gates.)
 */
export class LSTM extends Recurrent {
  static readonly [rpcName] = 'nn.LSTM';
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    checkOptionNames(options, OPTIONS, 'nn.LSTM');
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
