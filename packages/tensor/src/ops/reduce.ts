/** @file Reductions: sum, mean, prod, max, min and their relatives. */
import { backendFor, runKernel } from './kernels.ts';
import {
  cast,
  decode,
  dtypes,
  encode,
  encodeLanes,
  isDifferentiable,
  type DType,
  type NumberArray,
  type TypedArrays,
} from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { fromArray, readArray, readPermuted } from '../host.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { normalizeDim, normalizeDims, reducedShape, sizeOf, type Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction, defineOp, type Op } from './define.ts';
import { extremeInt64, prodInt64, scanInt64, sumInt64, takeInt64, type Int64Blocks } from './int64-reduce.ts';
import { apply } from './op.ts';
import { ALL, each, FLOATING, REAL, REAL_NUMBER } from './takes.ts';

/** Dimensions to reduce: one, several, or all (also for an empty list). */
export type Dims = number | readonly number[];

export interface ReduceAttrs {
  readonly dims: readonly number[];
  readonly keepDim: boolean;
}

/** A tensor read as [before, reduced, after]. */
interface Blocks<A = NumberArray> {
  /** Of complex64, `post` counts both parts of each element. */
  readonly array: A;
  readonly pre: number;
  readonly red: number;
  readonly post: number;
}

/** The sizes of [before, reduced, after] where the reduced dimensions are neighbours, else undefined. */
function blockSizes(shape: Shape, dims: readonly number[]): Omit<Blocks, 'array'> | undefined {
  const first = dims[0] ?? 0;
  if (!dims.every((d, i) => d === first + i)) return undefined;
  const after = first + dims.length;
  return {
    pre: sizeOf(shape.slice(0, first)),
    red: sizeOf(shape.slice(first, after)),
    post: sizeOf(shape.slice(after)),
  };
}

/** The sizes of [before, kept, after] where all but neighbours in the middle are reduced, as all but the channels of images; else undefined. */
function aroundSizes(shape: Shape, dims: readonly number[]): Readonly<Record<string, number>> | undefined {
  const gap = dims.findIndex((d, i) => d !== i);
  const after = dims[gap];
  if (gap < 1 || after === undefined || shape.length - after !== dims.length - gap) return undefined;
  return {
    before: sizeOf(shape.slice(0, gap)),
    kept: sizeOf(shape.slice(gap, after)),
    after: sizeOf(shape.slice(after)),
  };
}

/** Brings the reduced dimensions together without copying where they are neighbours already. */
function rawBlocks(t: Tensor, dims: readonly number[]): Blocks<TypedArrays[DType]> {
  const sizes = blockSizes(t.shape, dims);
  if (sizes !== undefined) return { array: readArray(t), ...sizes };
  const kept = t.shape.map((_, i) => i).filter((i) => !dims.includes(i));
  const red = sizeOf(dims.map((d) => t.shape[d] as number));
  const array = readPermuted(t, [...kept, ...dims]);
  return { array, pre: sizeOf(kept.map((d) => t.shape[d] as number)), red, post: 1 };
}

/** The sums divided by `divisor`, on a device that adds up in double precision; undefined where the host should. */
function sumsOnDevice(t: Tensor, dims: readonly number[], shape: Shape, mean: boolean): Tensor | undefined {
  if (t.dtype !== 'float32' || t.size === 0) return undefined;
  const backend = backendFor('SumBlocks', 'reduce', t.size);
  if (backend === undefined) return undefined;
  const divisor = mean ? sizeOf(dims.map((d) => t.shape[d] as number)) : 1;
  const sizes = blockSizes(t.shape, dims);
  if (sizes !== undefined) return runKernel(backend, 'SumBlocks', { x: t }, { divisor, ...sizes }, 'float32', shape);
  const around = aroundSizes(t.shape, dims);
  return around && runKernel(backend, 'SumAround', { x: t }, { divisor, ...around }, 'float32', shape);
}

function blocks(t: Tensor, dims: readonly number[]): Blocks {
  const { array, pre, red, post } = rawBlocks(t, dims);
  return { array: decode(array, t.dtype), pre, red, post: post * dtypes[t.dtype].lanes };
}

/** Integers and bool as int64. */
function int64Blocks(t: Tensor, dims: readonly number[]): Int64Blocks {
  const { array, pre, red, post } = rawBlocks(t, dims);
  return { array: cast(array, t.dtype, 'int64') as BigInt64Array, pre, red, post };
}

/** The sum of `n` elements, in four interleaved parts: one alone would wait for each addition to end before the next. */
function sumRun(array: NumberArray, at: number, n: number): number {
  let s0 = 0;
  let s1 = 0;
  let s2 = 0;
  let s3 = 0;
  const end = at + n;
  for (const whole = end - 3; at < whole; at += 4) {
    s0 += array[at]!;
    s1 += array[at + 1]!;
    s2 += array[at + 2]!;
    s3 += array[at + 3]!;
  }
  for (; at < end; at++) s0 += array[at]!;
  return s0 + s1 + (s2 + s3);
}

/** Sums in double precision, in one order: the same bits wherever the host adds up. */
function sumBlocks({ array, pre, red, post }: Blocks): Float64Array {
  const out = new Float64Array(pre * post);
  if (post === 1) {
    for (let p = 0; p < pre; p++) out[p] = sumRun(array, p * red, red);
    return out;
  }
  for (let p = 0, at = 0; p < pre; p++) {
    const base = p * post;
    for (let r = 0; r < red; r++)
      for (let q = 0; q < post; q++) out[base + q] = (out[base + q] as number) + (array[at++] as number);
  }
  return out;
}

const sumOp = defineOp<ReduceAttrs>('sum', each(ALL), ([input], { dims, keepDim }) => {
  const shape = reducedShape(input.shape, dims, keepDim);
  // Integers add up in int64, as in PyTorch.
  if (input.dtype === 'int64') return fromArray(sumInt64(int64Blocks(input, dims)), 'int64', shape);
  const dtype: DType = isDifferentiable(input.dtype) ? input.dtype : 'int64';
  const computed = sumsOnDevice(input, dims, shape, false);
  if (computed !== undefined) return computed;
  if (input.dtype === 'float32' && dims.length > 0) {
    const backend = backendFor('Sum', 'reduce', input.size);
    if (backend !== undefined)
      return runKernel(backend, 'Sum', { x: input }, { axis: dims, keepDims: keepDim }, dtype, shape);
  }
  return fromArray(encodeLanes(sumBlocks(blocks(input, dims)), dtype), dtype, shape);
});

/** The sum over `dim`; bool and integers give int64. */
export const sum = named('aten::sum', (t: Tensor, dim?: Dims, keepDim = false): Tensor => {
  return apply(sumOp, [t.sparse === undefined ? t : t.toDense()], { dims: normalizeDims(dim, t.rank), keepDim });
});

const meanOp = defineOp<ReduceAttrs>('mean', each(FLOATING), ([input], { dims, keepDim }) => {
  const shape = reducedShape(input.shape, dims, keepDim);
  const computed = sumsOnDevice(input, dims, shape, true);
  if (computed !== undefined) return computed;
  const read = blocks(input, dims);
  const total = sumBlocks(read);
  for (let i = 0; i < total.length; i++) total[i] = (total[i] as number) / read.red;
  return fromArray(encodeLanes(total, input.dtype), input.dtype, shape);
});

/** The mean over `dim`; of floating dtype only. */
export const mean = named('aten::mean', (t: Tensor, dim?: Dims, keepDim = false): Tensor => {
  return apply(meanOp, [t], { dims: normalizeDims(dim, t.rank), keepDim });
});

function isWhole(t: Tensor): boolean {
  const { kind } = dtypes[t.dtype];
  return kind === 'int' || kind === 'bool';
}

const prodOp = defineOp<ReduceAttrs>('prod', each(ALL), ([input], { dims, keepDim }) => {
  const shape = reducedShape(input.shape, dims, keepDim);
  if (isWhole(input)) return fromArray(prodInt64(int64Blocks(input, dims)), 'int64', shape);
  if (input.dtype === 'complex64') return fromArray(complexProducts(blocks(input, dims)), 'complex64', shape);
  const { array, pre, red, post } = blocks(input, dims);
  const out = new Float64Array(pre * post).fill(1);
  for (let p = 0, at = 0; p < pre; p++) {
    for (let r = 0; r < red; r++)
      for (let q = 0; q < post; q++) out[p * post + q] = (out[p * post + q] as number) * (array[at++] as number);
  }
  return fromArray(encode(out, input.dtype), input.dtype, shape);
});

/** The product of each block of complex numbers; `running` keeps those of all beginnings. */
function complexProducts({ array, pre, red, post }: Blocks, running = false): Float32Array {
  const out = new Float32Array(pre * (running ? red : 1) * post);
  for (let p = 0; p < pre; p++) {
    for (let q = 0; q < post; q += 2) {
      let [re, im] = [1, 0];
      for (let r = 0; r < red; r++) {
        const at = (p * red + r) * post + q;
        const [a, b] = [array[at]!, array[at + 1]!];
        [re, im] = [re * a - im * b, re * b + im * a];
        if (running) [out[at], out[at + 1]] = [re, im];
      }
      if (!running) [out[p * post + q], out[p * post + q + 1]] = [re, im];
    }
  }
  return out;
}

/** The product over one dimension, or over all. */
export const prod = named('aten::prod', (t: Tensor, dim?: number, keepDim = false): Tensor => {
  return apply(prodOp, [t], { dims: normalizeDims(dim, t.rank), keepDim });
});

/** Largest (or smallest) of each block; NaN wins. */
function extreme(t: Tensor, dims: readonly number[], sign: 1 | -1): NumberArray {
  const { array, pre, red, post } = blocks(t, dims);
  requireElements(red);
  const out = new Float64Array(pre * post);
  for (let p = 0; p < pre; p++) {
    for (let q = 0; q < post; q++) {
      let best = array[p * red * post + q] as number;
      for (let r = 1; r < red; r++) {
        const v = array[(p * red + r) * post + q] as number;
        if ((v - best) * sign > 0 || v !== v) best = v;
      }
      out[p * post + q] = best;
    }
  }
  return out;
}

/** The largest of each run of neighbours, on a device. */
function largestOnDevice(t: Tensor, dims: readonly number[], keepDim: boolean): Tensor | undefined {
  if (t.dtype !== 'float32' || t.size === 0 || dims.length !== 1 || dims[0] !== t.rank - 1) return undefined;
  const backend = backendFor('LargestRows', 'reduce', t.size);
  const n = t.shape[t.rank - 1] as number;
  const shape = reducedShape(t.shape, dims, keepDim);
  return backend && runKernel(backend, 'LargestRows', { x: t }, { rows: t.size / n, n }, 'float32', shape);
}

function extremeOfInt64(t: Tensor, dims: readonly number[], sign: 1 | -1): BigInt64Array {
  const read = int64Blocks(t, dims);
  requireElements(read.red);
  return takeInt64(read, extremeInt64(read, sign));
}

function requireElements(red: number): void {
  if (red === 0) throw new ShapeError('Expected reduction dim to have non-zero size.');
}

const extremeOp = (name: string, torch: string, sign: 1 | -1): Op<ReduceAttrs> =>
  defineOp([name, torch], each(REAL), ([input], { dims, keepDim }) => {
    const { dtype } = input;
    const computed = sign === 1 ? largestOnDevice(input, dims, keepDim) : undefined;
    if (computed !== undefined) return computed;
    const found = dtype === 'int64' ? extremeOfInt64(input, dims, sign) : encode(extreme(input, dims, sign), dtype);
    return fromArray(found, dtype, reducedShape(input.shape, dims, keepDim));
  });
const amaxOp = extremeOp('amax', 'amax', 1);
const aminOp = extremeOp('amin', 'amin', -1);

/** The largest element over `dim`; ties share the gradient. */
export const amax = named('aten::amax', (t: Tensor, dim?: Dims, keepDim = false): Tensor => {
  return apply(amaxOp, [t], { dims: normalizeDims(dim, t.rank), keepDim });
});
/** The smallest element over `dim`; ties share the gradient. */
export const amin = named('aten::amin', (t: Tensor, dim?: Dims, keepDim = false): Tensor => {
  return apply(aminOp, [t], { dims: normalizeDims(dim, t.rank), keepDim });
});

/** Position of the first largest (or smallest) element, or of the first NaN. */
function argExtreme(t: Tensor, dim: number | undefined, keepDim: boolean, sign: 1 | -1): Tensor {
  const dims = normalizeDims(dim, t.rank);
  if (t.dtype === 'int64') {
    const read = int64Blocks(t, dims);
    requireElements(read.red);
    return fromArray(extremeInt64(read, sign), 'int64', reducedShape(t.shape, dims, keepDim));
  }
  const { array, pre, red, post } = blocks(t, dims);
  requireElements(red);
  const out = new BigInt64Array(pre * post);
  for (let p = 0; p < pre; p++) {
    for (let q = 0; q < post; q++) {
      let at = 0;
      let best = array[p * red * post + q] as number;
      for (let r = 1; r < red && best === best; r++) {
        const v = array[(p * red + r) * post + q] as number;
        if ((v - best) * sign > 0 || v !== v) {
          best = v;
          at = r;
        }
      }
      out[p * post + q] = BigInt(at);
    }
  }
  return fromArray(out, 'int64', reducedShape(t.shape, dims, keepDim));
}

const argExtremeOp = (name: string, torch: string, sign: 1 | -1): Op<{ dim: number | undefined; keepDim: boolean }> =>
  defineOp([name, torch], each(REAL_NUMBER), ([t], { dim, keepDim }) => argExtreme(t, dim, keepDim, sign));
const argMaxOp = argExtremeOp('argMax', 'argmax', 1);
const argMinOp = argExtremeOp('argMin', 'argmin', -1);

/** int64 positions of the largest elements along `dim`, or in the flattened tensor. */
export const argMax = named('aten::argmax', (t: Tensor, dim?: number, keepDim = false): Tensor => {
  return apply(argMaxOp, [t], { dim, keepDim });
});
/** int64 positions of the smallest elements along `dim`, or in the flattened tensor. */
export const argMin = named('aten::argmin', (t: Tensor, dim?: number, keepDim = false): Tensor => {
  return apply(argMinOp, [t], { dim, keepDim });
});

function truth(t: Tensor, dim: Dims | undefined, keepDim: boolean, every: boolean): Tensor {
  if (t.dtype === 'complex64') return sweep(() => truth(t.detach().ne(0), dim, keepDim, every));
  // An empty list means no dimension here, unlike in the other reductions: so it does in PyTorch.
  const none = typeof dim === 'object' && dim.length === 0;
  const dims = none ? [] : normalizeDims(dim, t.rank);
  const { array, pre, red, post } = blocks(t, dims);
  const out = new Uint8Array(pre * post).fill(every ? 1 : 0);
  for (let p = 0, at = 0; p < pre; p++) {
    for (let r = 0; r < red; r++)
      for (let q = 0; q < post; q++) if ((array[at++] !== 0) !== every) out[p * post + q] = every ? 0 : 1;
  }
  // Bytes answer in bytes, as in PyTorch.
  return fromArray(out, t.dtype === 'uint8' ? 'uint8' : 'bool', reducedShape(t.shape, dims, keepDim));
}

/** Whether any element is nonzero; over an empty list of dimensions, whether each is. */
export const any = defineFunction('any', each(ALL), (t: Tensor, dim?: Dims, keepDim = false): Tensor =>
  truth(t, dim, keepDim, false),
);
/** Whether all elements are nonzero; over an empty list of dimensions, whether each is. */
export const all = defineFunction('all', each(ALL), (t: Tensor, dim?: Dims, keepDim = false): Tensor =>
  truth(t, dim, keepDim, true),
);

const cumsumOp = defineOp<{ dim: number }>('cumsum', each(ALL), ([t], { dim }) => scan(t, dim, false));
const cumprodOp = defineOp<{ dim: number }>('cumprod', each(ALL), ([t], { dim }) => scan(t, dim, true));

function scan(t: Tensor, dim: number, product: boolean): Tensor {
  const dims = t.rank === 0 ? [] : [dim];
  if (isWhole(t)) return fromArray(scanInt64(int64Blocks(t, dims), product), 'int64', t.shape);
  const { array, pre, red, post } = blocks(t, dims);
  if (product && t.dtype === 'complex64')
    return fromArray(complexProducts({ array, pre, red, post }, true), 'complex64', t.shape);
  const out = new Float64Array(array.length);
  for (let p = 0; p < pre; p++) {
    for (let q = 0; q < post; q++) {
      let value = product ? 1 : 0;
      for (let r = 0; r < red; r++) {
        const at = (p * red + r) * post + q;
        const v = array[at] as number;
        out[at] = value = product ? value * v : value + v;
      }
    }
  }
  return fromArray(encodeLanes(out, t.dtype), t.dtype, t.shape);
}

/** Running sums along `dim`. */
export const cumsum = named('aten::cumsum', (t: Tensor, dim: number): Tensor =>
  apply(cumsumOp, [t], { dim: normalizeDim(dim, t.rank) }),
);
/** Running products along `dim`. */
export const cumprod = named('aten::cumprod', (t: Tensor, dim: number): Tensor =>
  apply(cumprodOp, [t], { dim: normalizeDim(dim, t.rank) }),
);
