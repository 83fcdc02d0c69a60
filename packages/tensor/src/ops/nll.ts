/** @file The negative log-likelihood as one operation, as in PyTorch: every classifier ends in it. */
import { decode, encode } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { fromArray, readArray, readNumbers } from '../host.ts';
import { sizeOf, type Shape } from '../shape.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import type { Backend } from '../backends/backend.ts';
import { defineOp } from './define.ts';
import { backendFor, runKernel } from './kernels.ts';
import { apply } from './op.ts';
import { each, FLOAT, same, REAL_NUMBER, type Takes } from './takes.ts';

export interface NllAttrs {
  readonly reduction: 'mean' | 'sum' | 'none';
  /** Targets of this class count for nothing. */
  readonly ignoreIndex: number;
  /** Of the log-probabilities: [N, C, ...] or [C]. */
  readonly shape: Shape;
}

/** Where each target's log-probability lies, or -1 where it is ignored, and its factor. */
interface Picks {
  readonly at: Int32Array;
  readonly factor: Float64Array;
  /** The sum of the factors. */
  readonly total: number;
}

function picksOf(target: Tensor, weight: Tensor | undefined, { shape, ignoreIndex }: NllAttrs): Picks {
  const classDim = shape.length === 1 ? 0 : 1;
  const classes = shape[classDim] as number;
  const inner = sizeOf(shape.slice(classDim + 1));
  const ids = readNumbers(target);
  const factors = weight === undefined ? undefined : readNumbers(weight);
  const at = new Int32Array(ids.length);
  const factor = new Float64Array(ids.length);
  let total = 0;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id === ignoreIndex) {
      at[i] = -1;
      continue;
    }
    if (!Number.isInteger(id)) throw new DTypeError(`targets must be whole numbers, but got ${id}`);
    if (id < 0 || id >= classes) throw new ShapeError(`Target ${id} is out of bounds: there are ${classes} classes`);
    const outer = Math.floor(i / inner);
    at[i] = (outer * classes + id) * inner + (i - outer * inner);
    total += factor[i] = factors === undefined ? 1 : factors[id]!;
  }
  return { at, factor, total };
}

/** Log-probabilities and factors of one dtype, and between them the classes. */
const classed: Takes = (operands) => {
  const target = (operands[1] as Tensor).dtype;
  if (each(REAL_NUMBER)(operands.slice(1, 2)) !== undefined)
    return `does not take targets of ${target}: classes are of integers, int64 as a rule`;
  return same(FLOAT)(operands.filter((_, i) => i !== 1));
};

/** Factors of the classes may be left out. */
type Classed = readonly [input: Tensor, labels: Tensor, weight: Tensor | undefined, ...Tensor[]];

const nllOp = defineOp<NllAttrs>(
  ['nllLoss', 'nll_loss_forward'],
  classed,
  ([input, labels, weight]: Classed, attrs) => {
    const { at, factor, total } = picksOf(labels, weight, attrs);
    const values = decode(readArray(input), input.dtype);
    const losses = new Float64Array(at.length);
    let sum = 0;
    for (let i = 0; i < at.length; i++) if (at[i]! >= 0) sum += losses[i] = -values[at[i]!]! * factor[i]!;
    if (attrs.reduction === 'none') return fromArray(encode(losses, input.dtype), input.dtype, labels.shape);
    const one = Float64Array.of(attrs.reduction === 'sum' ? sum : sum / total);
    return fromArray(encode(one, input.dtype), input.dtype, []);
  },
);

const nllGradOp = defineOp<NllAttrs>(
  ['nllLossGrad', 'nll_loss_backward'],
  classed,
  ([grad, labels, weight]: Classed, attrs) => {
    const { at, factor, total } = picksOf(labels, weight, attrs);
    const g = decode(readArray(grad), grad.dtype);
    const each = attrs.reduction === 'none';
    const divisor = attrs.reduction === 'mean' ? total : 1;
    const slopes = factor.map((own, i) => (-own * (each ? g[i]! : g[0]!)) / divisor);
    const size = sizeOf(attrs.shape);
    // Where the gradient of the log-probabilities is computed from it.
    const backend = grad.dtype === 'float32' ? backendFor('Put', 'reduce', size) : undefined;
    if (backend !== undefined && at.length > 0) return placed(backend, slopes, at, attrs.shape);
    const out = new (grad.dtype === 'float32' ? Float32Array : Float64Array)(size);
    for (let i = 0; i < at.length; i++) if (at[i]! >= 0) out[at[i]!] = slopes[i]!;
    return fromArray(encode(out, grad.dtype), grad.dtype, attrs.shape);
  },
);

/** Zeros but for a value at each position that is not negative, in the memory of the device: what is computed of them stays there. */
function placed(backend: Backend, values: Float64Array, positions: Int32Array, shape: Shape): Tensor {
  return sweep(() => {
    const x = fromArray(Float32Array.from(values), 'float32', [values.length]);
    const at = fromArray(positions, 'int32', [positions.length]);
    return runKernel(backend, 'Put', { x, positions: at }, { size: sizeOf(shape) }, 'float32', shape);
  });
}

/** The losses of log-probabilities, reduced. */
export function nll(logp: Tensor, target: Tensor, weight: Tensor | undefined, attrs: NllAttrs): Tensor {
  return apply(nllOp, weight === undefined ? [logp, target] : [logp, target, weight], attrs);
}

/** The gradient with respect to the log-probabilities: linear in `grad`, and `nll`'s own adjoint. */
export function nllGrad(grad: Tensor, target: Tensor, weight: Tensor | undefined, attrs: NllAttrs): Tensor {
  return apply(nllGradOp, weight === undefined ? [grad, target] : [grad, target, weight], attrs);
}
