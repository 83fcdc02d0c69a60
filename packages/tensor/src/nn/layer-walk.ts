/** @file One layer of an RNN, LSTM or GRU over its sequences: step by step, or as one operation. */
import { ambient } from '../ambient.ts';
import { underAutocast } from '../autocast.ts';
import { observed } from '../observed.ts';
import { concat } from '../ops/join.ts';
import type { LayerSize } from '../recurrent-layout.ts';
import type { Tensor } from '../tensor.ts';
import { prepare, type Cell, type CellWeights } from './cells.ts';
import { layerBackend, layerEvent, recurrentLayer, type Plain, type Results } from './recurrent-layer.ts';

/** The sequences of a layer, and which way they are gone through. */
export interface Walk {
  /** Step t has sizes[t] of them. */
  readonly sizes: readonly number[];
  readonly backwards: boolean;
}

/** The sequences in `x`, [elements, in]: outputs [elements, hidden], and the state each ends with. */
export function walk(
  x: Tensor,
  start: readonly Tensor[],
  given: CellWeights,
  cell: Cell,
  way: Walk,
): [Tensor, Tensor[]] {
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
 * none of its inputs, nor are those that `fits` is false of, nor does it project: their LSTM is made of products, as the other layers are to
 * autocast.
 */
export const layerOf = underAutocast<typeof walk>('aten::mkldnn_rnn_layer', (x, start, weights, cell, way) => {
  const { dtype } = x;
  const half = dtype === 'bfloat16' || dtype === 'float16';
  if (!half || weights.weight_ih.dtype !== dtype) return atOnce(x, start, weights, cell, way);
  const { weight_ih, weight_hh, bias_ih, bias_hh } = weights;
  const single = {
    weight_ih: weight_ih.float(),
    weight_hh: weight_hh.float(),
    bias_ih: bias_ih?.float() ?? null,
    bias_hh: bias_hh?.float() ?? null,
    weight_hr: null,
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
export function atOnce(
  x: Tensor,
  start: readonly Tensor[],
  given: CellWeights,
  cell: Cell,
  way: Walk,
): [Tensor, Tensor[]] {
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
export function fits(x: Tensor): boolean {
  return x.size > 0 && !(x.dtype === 'float16' && ambient().gradMode);
}
