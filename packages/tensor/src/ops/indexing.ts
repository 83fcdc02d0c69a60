/** @file Choosing and adding by index: indexSelect, gather, their adjoints, and one-hot. */
import type { Backend } from '../backends/backend.ts';
import { zeros } from '../creation.ts';
import { decode, dtypes, encode, encodeLanes, type NumberArray } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { fromArray, over, readArray, readBytes } from '../host.ts';
import { named } from '../named.ts';
import { checkFill } from '../range.ts';
import { sweep } from '../scope.ts';
import { broadcastShapes, checkCount, checkShape, normalizeDim, sameShape, sizeOf, type Shape } from '../shape.ts';
import { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction, defineOp, type Along, type Op } from './define.ts';
import { backendFor, runKernel } from './kernels.ts';
import { apply } from './op.ts';
import { scalar } from './promotion.ts';
import { ALL, each, FLOAT, indexed, same, REAL_NUMBER } from './takes.ts';

/** Whole numbers of an index tensor, each checked to lie in [0, n). */
function readIndices(index: Tensor, n: number): Int32Array | Float64Array {
  const values = decode(readArray(index), index.dtype);
  // int64 was decoded into an array of its own.
  const out = values instanceof Float64Array && index.dtype === 'int64' ? values : new Float64Array(values.length);
  for (let i = 0; i < out.length; i++) {
    const v = values[i]!;
    // Lists of plain numbers are float32: whole ones will do.
    if (!Number.isInteger(v)) throw new DTypeError(`indices must be whole numbers, but got ${v}`);
    if (v < 0 || v >= n) throw new ShapeError(`index ${v} is out of bounds for dimension with size ${n}`);
    out[i] = v;
  }
  return out;
}

/** A tensor without dimensions is indexed as one of a single element. */
function asVector(shape: readonly number[]): readonly number[] {
  return shape.length === 0 ? [1] : shape;
}

/** Bytes of a row up to which a loop copies it in less time than making two views of it takes. */
const SHORT_ROW = 1024;

function copyShortRows(
  source: Uint8Array,
  out: Uint8Array,
  ids: Int32Array | Float64Array,
  words: number,
  outer: number,
  n: number,
): void {
  const from = new Int32Array(source.buffer, source.byteOffset, source.byteLength >> 2);
  const to = new Int32Array(out.buffer, 0, out.byteLength >> 2);
  for (let o = 0, at = 0; o < outer; o++) {
    for (let i = 0; i < ids.length; i++) {
      let start = (o * n + ids[i]!) * words;
      for (const end = at + words; at < end; at++) to[at] = from[start++]!;
    }
  }
}

const indexSelectOp = defineOp<Along>('indexSelect', indexed(each(ALL)), ([input, index], { dim }) => {
  const n = asVector(input.shape)[dim] as number;
  const ids = readIndices(index, n);
  const width = sizeOf(input.shape.slice(dim + 1));
  const row = width * dtypes[input.dtype].bytes;
  const outer = sizeOf(input.shape.slice(0, dim));
  const shape = input.shape.map((m, d) => (d === dim ? ids.length : m));
  const backend = outer === 1 ? rowsBackend('TakeRows', input, ids.length * width) : undefined;
  if (backend !== undefined) {
    const inputs = { x: input, ids: asInt32(ids) };
    return sweep(() => runKernel(backend, 'TakeRows', inputs, { n: ids.length, width }, 'float32', shape));
  }
  const source = readBytes(input);
  const out = new Uint8Array(outer * ids.length * row);
  if (row % 4 === 0 && row <= SHORT_ROW && source.byteOffset % 4 === 0)
    copyShortRows(source, out, ids, row >> 2, outer, n);
  else {
    for (let o = 0, at = 0; o < outer; o++) {
      for (let i = 0; i < ids.length; i++, at += row) {
        const from = (o * n + (ids[i] as number)) * row;
        out.set(source.subarray(from, from + row), at);
      }
    }
  }
  return over(new Storage(out), input.dtype, shape);
});

/** The slices at `index` (a vector of integers, or a single one) along `dim`. */
export const indexSelect = named('aten::index_select', (t: Tensor, dim: number, index: Tensor): Tensor => {
  if (index.rank > 1)
    throw new ShapeError(`indexSelect(): Index is supposed to be a vector, but got shape [${index.shape.join(', ')}]`);
  if (t.rank === 0 && index.size !== 1)
    throw new ShapeError(`indexSelect(): Index to scalar can have only 1 value, got ${index.size} values`);
  return apply(indexSelectOp, [t, index.rank === 0 ? index.reshape([1]) : index], { dim: normalizeDim(dim, t.rank) });
});

/** `t` with rows of `row` elements of `source` added at `positions`, in order. */
function addRows(t: Tensor, positions: Float64Array, row: number, source: Tensor): Tensor {
  const { dtype } = t;
  const given = readArray(source);
  if (dtype === 'int64') {
    const out = (readArray(t) as BigInt64Array).slice();
    const values = given as BigInt64Array;
    for (let i = 0, at = 0; i < positions.length; i++)
      for (let k = 0; k < row; k++) out[positions[i]! + k]! += values[at++]!;
    return fromArray(out, dtype, t.shape);
  }
  const out = decode(readArray(t), dtype).slice();
  const values = decode(given, dtype);
  const { lanes } = dtypes[dtype];
  for (let i = 0, at = 0; i < positions.length; i++)
    for (let k = 0; k < row * lanes; k++) out[positions[i]! * lanes + k]! += values[at++]!;
  return fromArray(encodeLanes(out, dtype), dtype, t.shape);
}

/** `positions` (int32, of any shape) read from the flattened `t`. */
const takeAtOp = defineOp(['takeAt', 'max_pool2d_with_indices'], indexed(each(REAL_NUMBER)), ([input, at]) => {
  const { dtype } = input;
  if (dtype === 'float32' && at.size > 0) {
    const backend = backendFor('Take', 'gather', at.size);
    const inputs = { x: input, positions: at };
    if (backend !== undefined) return runKernel(backend, 'Take', inputs, { size: at.size }, dtype, at.shape);
  }
  const source = readArray(input);
  const where = readArray(at) as Int32Array;
  const out = new (source.constructor as new (n: number) => typeof source)(where.length);
  for (let i = 0; i < out.length; i++) out[i] = source[where[i]!] as never;
  return fromArray(out, dtype, at.shape);
});

/** The elements of the flattened `t` at `positions`, which are known to lie in it: int32, contiguous. */
export function takeAt(t: Tensor, positions: Tensor): Tensor {
  return apply(takeAtOp, [t, positions], undefined);
}

const putAtOp = defineOp<{ shape: Shape }>(
  ['putAt', 'max_pool2d_with_indices_backward'],
  indexed(each(REAL_NUMBER)),
  ([input, at], { shape }) => {
    const { dtype } = input;
    const size = sizeOf(shape);
    if (dtype === 'float32' && at.size > 0) {
      const backend = backendFor('Put', 'gather', size);
      const inputs = { x: input, positions: at };
      if (backend !== undefined) return runKernel(backend, 'Put', inputs, { size }, dtype, shape);
    }
    return addRows(zeros(shape, { dtype }), Float64Array.from(readArray(at) as Int32Array), 1, input);
  },
);

/** The adjoint of `takeAt`: elements added up at `positions` of zeros of `shape`. */
export function putAt(t: Tensor, positions: Tensor, shape: Shape): Tensor {
  return apply(putAtOp, [t, positions], { shape });
}

/** Numbers that are known to be whole, as a device takes them. */
export function asInt32(ids: ArrayLike<number>): Tensor {
  return fromArray(Int32Array.from(ids), 'int32', [ids.length]);
}

/** The device whose kernel takes rows of `table`; a table on the host goes there only where not much more than is read goes with it. */
function rowsBackend(kernel: string, table: Tensor, read: number): Backend | undefined {
  if (table.dtype !== 'float32' || read === 0 || (!table.storage.onDevice && table.size > 4 * read)) return undefined;
  return backendFor(kernel, 'gather', read);
}

function bagsOnDevice(
  table: Tensor,
  rows: ArrayLike<number>,
  bag: ArrayLike<number>,
  bags: number,
): Tensor | undefined {
  const width = table.shape[1] as number;
  const backend = rowsBackend('AddRows', table, rows.length * width);
  if (backend === undefined) return undefined;
  const inputs = { x: table, from: asInt32(rows), to: asInt32(bag) };
  const attrs = { n: rows.length, width, rows: bags };
  return sweep(() => runKernel(backend, 'AddRows', inputs, attrs, 'float32', [bags, width]));
}

const bagOp = (name: string): Op<{ bags: number }> =>
  defineOp(
    [name, 'embedding_bag'],
    (given) => indexed(each(FLOAT))(given.slice(0, 2)),
    ([weight, ids, bagOf], { bags }) => {
      const [count, width] = weight.shape as [number, number];
      const rows = readIndices(ids, count);
      const bag = readIndices(bagOf, bags);
      const computed = bagsOnDevice(weight, rows, bag, bags);
      if (computed !== undefined) return computed;
      const values = decode(readArray(weight), weight.dtype);
      const out = new (values.constructor as new (n: number) => NumberArray)(bags * width);
      for (let i = 0; i < rows.length; i++) {
        const from = rows[i]! * width;
        const to = bag[i]! * width;
        for (let k = 0; k < width; k++) out[to + k] = out[to + k]! + values[from + k]!;
      }
      return fromArray(encode(out, weight.dtype), weight.dtype, [bags, width]);
    },
  );

const embeddingBagOp = bagOp('embeddingBag');
/** With a gradient that names only the rows that were read. */
const sparseEmbeddingBagOp = bagOp('sparseEmbeddingBag');

/** For each of `bags` the sum of the rows of `table` at those `ids` whose `bagOf` names it, in their order; both int64 [n]. */
export function embeddingBag(table: Tensor, ids: Tensor, bagOf: Tensor, bags: number, sparse: boolean): Tensor {
  return apply(sparse ? sparseEmbeddingBagOp : embeddingBagOp, [table, ids, bagOf], { bags });
}

const indexAddOp = defineOp<Along>('indexAdd', indexed(same(ALL)), ([input, index, source], { dim }) => {
  const n = asVector(input.shape)[dim] as number;
  const ids = readIndices(index, n);
  const row = sizeOf(input.shape.slice(dim + 1));
  const outer = sizeOf(input.shape.slice(0, dim));
  const positions = new Float64Array(outer * ids.length);
  for (let o = 0, at = 0; o < outer; o++)
    for (let i = 0; i < ids.length; i++) positions[at++] = (o * n + (ids[i] as number)) * row;
  return addRows(input, positions, row, source);
});

/** `t` with slice i of `source` added to the slice at index[i] along `dim`; equal indices add up, in order. */
export const indexAdd = named('aten::index_add', (t: Tensor, dim: number, index: Tensor, source: Tensor): Tensor => {
  const d = normalizeDim(dim, t.rank);
  checkSlices('indexAdd', t, d, index, source);
  return apply(indexAddOp, [t, index.rank === 0 ? index.reshape([1]) : index, source], { dim: d });
});

const indexCopyOp = defineOp<Along>('indexCopy', indexed(same(ALL)), ([input, index, source], { dim }) => {
  const n = asVector(input.shape)[dim] as number;
  const ids = readIndices(index, n);
  const row = sizeOf(input.shape.slice(dim + 1)) * dtypes[input.dtype].bytes;
  const outer = sizeOf(input.shape.slice(0, dim));
  const out = readBytes(input).slice();
  const given = readBytes(source);
  for (let o = 0, at = 0; o < outer; o++) {
    for (let i = 0; i < ids.length; i++, at += row)
      out.set(given.subarray(at, at + row), (o * n + (ids[i] as number)) * row);
  }
  return over(new Storage(out), input.dtype, input.shape);
});

/** `t` with slice i of `source` written to the slice at index[i] along `dim`; of equal indices the last wins. */
export const indexCopy = named('aten::index_copy', (t: Tensor, dim: number, index: Tensor, source: Tensor): Tensor => {
  const d = normalizeDim(dim, t.rank);
  checkSlices('indexCopy', t, d, index, source);
  return apply(indexCopyOp, [t, index.rank === 0 ? index.reshape([1]) : index, source], { dim: d });
});

/** Throws where `index` is no vector, or `source` has not a slice for each of its elements. */
function checkSlices(name: string, t: Tensor, dim: number, index: Tensor, source: Tensor): void {
  if (index.rank > 1)
    throw new ShapeError(`${name}(): Index is supposed to be a vector, but got shape [${index.shape.join(', ')}]`);
  const expected = t.shape.map((m, k) => (k === dim ? index.size : m));
  if (!sameShape(source.shape, expected)) {
    throw new ShapeError(`${name}(): source has shape [${source.shape.join(', ')}], expected [${expected.join(', ')}]`);
  }
  if (t.rank === 0 && index.size !== 1)
    throw new ShapeError(`${name}(): Index to scalar can have only 1 value, got ${index.size} values`);
}

/** Positions in the flattened input of what gather reads, in the order of `index`. */
export function gatherPositions(given: readonly number[], index: Tensor, dim: number): Float64Array {
  const shape = asVector(given);
  const indexShape = asVector(index.shape);
  const n = shape[dim] as number;
  const ids = readIndices(index, n);
  const out = new Float64Array(ids.length);
  const rank = shape.length;
  const strides = new Array<number>(rank);
  for (let d = rank - 1, step = 1; d >= 0; d--) {
    strides[d] = step;
    step *= shape[d] as number;
  }
  const at = new Array<number>(rank).fill(0);
  for (let i = 0; i < ids.length; i++) {
    let position = (ids[i] as number) * (strides[dim] as number);
    for (let d = 0; d < rank; d++) if (d !== dim) position += (at[d] as number) * (strides[d] as number);
    out[i] = position;
    for (let d = rank - 1; d >= 0; d--) {
      at[d] = (at[d] as number) + 1;
      if ((at[d] as number) < (indexShape[d] as number)) break;
      at[d] = 0;
    }
  }
  return out;
}

/** An index without elements fits everywhere. */
export function checkGather(t: Tensor, index: Tensor, dim: number, name: string): void {
  if (index.size === 0) return;
  const own = asVector(t.shape);
  const at = asVector(index.shape);
  if (own.length !== at.length) {
    throw new ShapeError(
      `${name}: Index tensor must have the same number of dimensions as self tensor, but got index [${at.join(', ')}] and self [${t.shape.join(', ')}]`,
    );
  }
  const wrong = at.findIndex((m, d) => d !== dim && m > (own[d] as number));
  if (wrong !== -1) {
    throw new ShapeError(
      `${name}: Size does not match at dimension ${wrong} expected index [${index.shape.join(', ')}] to be no larger than self [${t.shape.join(', ')}] apart from dimension ${dim}`,
    );
  }
}

const gatherOp = defineOp<Along>('gather', indexed(each(ALL)), ([input, ids], { dim }) => {
  const positions = gatherPositions(input.shape, ids, dim);
  const source = readArray(input);
  const { lanes } = dtypes[input.dtype];
  const out = new (source.constructor as new (n: number) => typeof source)(positions.length * lanes);
  for (let i = 0; i < out.length; i++) out[i] = source[laneAt(positions, i, lanes)] as never;
  return fromArray(out, input.dtype, ids.shape);
});

/** Where number i of the elements at `positions` lies, of which each has `lanes`. */
function laneAt(positions: Float64Array, i: number, lanes: 1 | 2): number {
  return lanes === 1 ? positions[i]! : 2 * positions[i >> 1]! + (i & 1);
}

/** out[i][j]… = t[i][index[i][j]…]… along `dim`; `index` has the rank of `t`. */
export const gather = named('aten::gather', (t: Tensor, dim: number, index: Tensor): Tensor => {
  const d = normalizeDim(dim, t.rank);
  checkGather(t, index, d, 'gather');
  return apply(gatherOp, [t, index], { dim: d });
});

/** gather where `index` and `t` broadcast in all dimensions but `dim`; without `dim` both are vectors. */
export const takeAlongDim = defineFunction(
  'takeAlongDim',
  each(ALL),
  (t: Tensor, index: Tensor, dim?: number): Tensor =>
    sweep(() => {
      if (dim === undefined) return gather(t.reshape([t.size]), 0, index.reshape([index.size]));
      if (t.rank !== index.rank) {
        throw new ShapeError(
          `takeAlongDim(): input and indices should have the same number of dimensions, but got ${t.rank} dimensions for input, and ${index.rank} dimensions for indices`,
        );
      }
      const d = normalizeDim(dim, t.rank);
      const one = (shape: readonly number[]): number[] => shape.map((n, k) => (k === d ? 1 : n));
      const wide = broadcastShapes(one(t.shape), one(index.shape));
      const full = (own: Tensor): Tensor => own.expand(wide.map((n, k) => (k === d ? (own.shape[k] as number) : n)));
      return gather(full(t), d, full(index));
    }),
);

const scatterAddOp = defineOp<Along>('scatterAdd', indexed(same(ALL)), ([input, ids, from], { dim }) => {
  const positions = gatherPositions(input.shape, ids, dim);
  return addRows(input, positions, 1, from);
});

/** The adjoint of gather: `t` with source[i][j]… added at [i][index[i][j]…]… */
export const scatterAdd = named(
  'aten::scatter_add',
  (t: Tensor, dim: number, index: Tensor, source: Tensor): Tensor => {
    const d = normalizeDim(dim, t.rank);
    checkGather(t, index, d, 'scatterAdd');
    return apply(scatterAddOp, [t, index, leading(source, index, 'scatterAdd')], { dim: d });
  },
);

/** The part of `source` that lies at the positions of `index`, in its shape. */
export function leading(source: Tensor, index: Tensor, name: string): Tensor {
  if (sameShape(source.shape, index.shape)) return source;
  if (index.size === 0) return source.reshape([source.size]).narrow(0, 0, 0).reshape(index.shape);
  const at = asVector(index.shape);
  const have = asVector(source.shape);
  if (at.length !== have.length || at.some((n, d) => n > (have[d] as number))) {
    throw new ShapeError(
      `${name}: Expected index [${index.shape.join(', ')}] to be no larger than source [${source.shape.join(', ')}], of the same number of dimensions`,
    );
  }
  return narrowTo(source.rank === 0 ? source.reshape([1]) : source, at).reshape(index.shape);
}

/** The leading part of `t` with the given shape. */
function narrowTo(t: Tensor, shape: readonly number[]): Tensor {
  return shape.reduce((part, n, d) => part.narrow(d, 0, n), t);
}

const scatterOp = defineOp<Along>('scatter', indexed(same(ALL)), ([input, ids, from], { dim }) => {
  const positions = gatherPositions(input.shape, ids, dim);
  const out = readArray(input).slice();
  const values = readArray(from);
  const { lanes } = dtypes[input.dtype];
  for (let i = 0; i < values.length; i++) out[laneAt(positions, i, lanes)] = values[i] as never;
  return fromArray(out, input.dtype, input.shape);
});

/** `t` with source[i][j]…, or a number, written at [i][index[i][j]…]…; of equal indices the last wins. */
export const scatter = named(
  'aten::scatter',
  (t: Tensor, dim: number, index: Tensor, source: Tensor | number): Tensor => {
    const d = normalizeDim(dim, t.rank);
    checkGather(t, index, d, 'scatter');
    if (typeof source === 'number') checkFill(source, t.dtype);
    const from = typeof source === 'number' ? scalar(source, t.dtype).expand(index.shape) : source;
    return apply(scatterOp, [t, index, leading(from, index, 'scatter')], { dim: d });
  },
);

/** int64 zeros with a one at each index: [..., classes]. */
export const oneHot = defineFunction('oneHot', each(REAL_NUMBER), (index: Tensor, classes: number): Tensor => {
  checkShape([classes]);
  checkCount([...index.shape, classes]);
  const ids = readIndices(index, classes);
  const out = new BigInt64Array(ids.length * classes);
  ids.forEach((id, i) => (out[i * classes + id] = 1n));
  return fromArray(out, 'int64', [...index.shape, classes]);
});
