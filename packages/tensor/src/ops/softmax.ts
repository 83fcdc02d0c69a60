/** @file softmax, logSoftmax and logSumExp along one dimension. */
import { encode, toFloatDType, type NumberArray } from '../dtype.ts';
import { fromArray, readNumbers } from '../host.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { normalizeDim, normalizeDims, reducedShape, sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { real } from './complex-parts.ts';
import { defineOp, type Along, type Op } from './define.ts';
import { apply } from './op.ts';
import { backendFor, runKernel } from './kernels.ts';
import type { Dims } from './reduce.ts';
import { where } from './where.ts';
import { each, FLOAT, REAL } from './takes.ts';

/** Calls `row(first, stride, n)` for each line along `dim` of a contiguous tensor. */
function forEachLine(
  t: Tensor,
  dim: number,
  row: (first: number, stride: number, n: number, line: number) => void,
): void {
  const n = t.rank === 0 ? 1 : (t.shape[dim] as number);
  const stride = sizeOf(t.shape.slice(dim + 1));
  const outer = sizeOf(t.shape.slice(0, dim));
  for (let o = 0; o < outer; o++) for (let k = 0; k < stride; k++) row(o * n * stride + k, stride, n, o * stride + k);
}

/** The largest of a line, and the sum of exp(x - shift), the shift being the largest unless another is given for infinite ones. */
function lineSum(x: NumberArray, first: number, stride: number, n: number, infinite?: 0): [max: number, sum: number] {
  let max = -Infinity;
  for (let i = 0; i < n; i++) max = Math.max(max, x[first + i * stride] as number);
  const shift = Number.isFinite(max) ? max : (infinite ?? max);
  let sum = 0;
  for (let i = 0; i < n; i++) sum += Math.exp((x[first + i * stride] as number) - shift);
  return [max, sum];
}

/** The lines along the last dimension by a kernel of the device, where it has one that pays. */
function linesOnDevice(kernel: string, inputs: Readonly<Record<string, Tensor>>, dim: number): Tensor | undefined {
  const all = Object.values(inputs);
  const { dtype, rank, shape, size } = all[0] as Tensor;
  if (dtype !== 'float32' || size === 0 || dim !== rank - 1 || all.some((t) => t.dtype !== dtype)) return undefined;
  const backend = backendFor(kernel, 'reduce', size);
  const n = shape[dim] as number;
  return backend && runKernel(backend, kernel, inputs, { rows: size / n, n }, 'float32', shape);
}

const lineOp = (name: string, kernel: string, log: boolean): Op<Along> =>
  defineOp(name, each(FLOAT), ([input], { dim }) => {
    const computed = linesOnDevice(kernel, { x: input }, dim);
    if (computed !== undefined) return computed;
    const x = readNumbers(input);
    const out = new Float64Array(x.length);
    forEachLine(input, dim, (first, stride, n) => {
      const [max, sum] = lineSum(x, first, stride, n);
      const rest = Math.log(sum);
      for (let i = 0; i < n; i++) {
        const shifted = (x[first + i * stride] as number) - max;
        // The largest first: beside it, the rest may be nothing.
        out[first + i * stride] = log ? shifted - rest : Math.exp(shifted) / sum;
      }
    });
    return fromArray(encode(out, input.dtype), input.dtype, input.shape);
  });
const softmaxOp = lineOp('softmax', 'SoftmaxRows', false);
const logSoftmaxOp = lineOp('logSoftmax', 'LogSoftmaxRows', true);

/** exp(x) / sum of exp(x) along `dim`. */
export const softmax = named('aten::softmax', (t: Tensor, dim: number): Tensor => {
  return apply(softmaxOp, [t], { dim: normalizeDim(dim, t.rank) });
});

/** log(softmax(x)), without overflow. */
export const logSoftmax = named('aten::log_softmax', (t: Tensor, dim: number): Tensor => {
  return apply(logSoftmaxOp, [t], { dim: normalizeDim(dim, t.rank) });
});

const logSumExpOp = defineOp<Along & { keepDim: boolean }>(
  ['logSumExp', 'logsumexp'],
  each(REAL),
  ([input], { dim, keepDim }) => {
    const x = readNumbers(input);
    const shape = reducedShape(input.shape, [dim], keepDim);
    const out = new Float64Array(sizeOf(shape));
    forEachLine(input, dim, (first, stride, n, line) => {
      const [max, sum] = lineSum(x, first, stride, n, 0);
      out[line] = Number.isFinite(max) ? max + Math.log(sum) : max;
    });
    const dtype = toFloatDType(input.dtype);
    return fromArray(encode(out, dtype), dtype, shape);
  },
);

/** log of the sum of exp(x) along `dim`, several of them, or all for an empty list; without overflow; integers give float32. */
export const logSumExp = named('aten::logsumexp', (t: Tensor, dim: Dims, keepDim = false): Tensor => {
  if (t.dtype === 'complex64') return complexLogSumExp(t, dim, keepDim);
  const dims = normalizeDims(dim, t.rank);
  if (dims.length < 2) return apply(logSumExpOp, [t], { dim: dims[0] ?? 0, keepDim });
  // As one dimension, the last.
  return sweep(() => {
    const kept = t.shape.map((_, i) => i).filter((i) => !dims.includes(i));
    const size = sizeOf(dims.map((d) => t.shape[d] as number));
    const turned = t.permute([...kept, ...dims]).reshape([...kept.map((d) => t.shape[d] as number), size]);
    const out = apply(logSumExpOp, [turned], { dim: kept.length, keepDim: false });
    return keepDim ? out.reshape(reducedShape(t.shape, dims, true)) : out;
  });
});

/** Shifted by the largest real part, whose exponential is the largest. */
function complexLogSumExp(t: Tensor, dim: Dims, keepDim: boolean): Tensor {
  return sweep(() => {
    // There is no largest of nothing; what is left is the logarithm of 0.
    if (t.size === 0) return t.exp().sum(dim, keepDim).log();
    const largest = real(t.detach()).amax(dim, true);
    const shift = where(largest.isFinite(), largest, 0);
    const total = t.sub(shift).exp().sum(dim, true).log().add(shift);
    return keepDim ? total : total.reshape(reducedShape(t.shape, normalizeDims(dim, t.rank), false));
  });
}

interface Pulled extends Along {
  /** Whether y is the logarithm of the probabilities. */
  readonly log: boolean;
}

/** The gradient of (log)softmax from its result y, summed in double precision: what cancels would lose digits otherwise. */
const softmaxGradOp = defineOp<Pulled>(
  ['softmaxGrad', '_softmax_backward_data'],
  each(FLOAT),
  ([grad, output], { dim, log }) => {
    const computed = linesOnDevice(log ? 'LogSoftmaxGradRows' : 'SoftmaxGradRows', { y: output, dy: grad }, dim);
    if (computed !== undefined) return computed;
    const dy = readNumbers(grad);
    const values = readNumbers(output);
    const out = new Float64Array(values.length);
    forEachLine(output, dim, (first, stride, n) => {
      let total = 0;
      for (let i = 0; i < n; i++) {
        const at = first + i * stride;
        total += log ? (dy[at] as number) : (dy[at] as number) * (values[at] as number);
      }
      for (let i = 0; i < n; i++) {
        const at = first + i * stride;
        const v = values[at] as number;
        out[at] = log ? (dy[at] as number) - Math.exp(v) * total : v * ((dy[at] as number) - total);
      }
    });
    return fromArray(encode(out, output.dtype), output.dtype, output.shape);
  },
);

/** dL/dx of softmax (or logSoftmax) from dL/dy and y. */
export function softmaxGrad(grad: Tensor, y: Tensor, dim: number, log: boolean): Tensor {
  return apply(softmaxGradOp, [grad, y], { dim, log });
}
