/** @file Views by explicit geometry over a contiguous tensor, and their inverse. */
import { decode, dtypes, encodeLanes, type NumberArray } from '../dtype.ts';
import { fromArray, over, rawView, readArray, readBytes } from '../host.ts';
import { contiguousStrides, extentOf, sizeOf, type Shape } from '../shape.ts';
import { ShapeError } from '../errors.ts';
import { Storage } from '../storage.ts';
import { copyStrided } from '../strided.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { backendFor, mergedDims, runKernel } from './kernels.ts';
import { apply } from './op.ts';
import { ALL, each, same } from './takes.ts';

/** A geometry in elements, relative to the first element of a contiguous tensor. */
export interface Geometry {
  readonly shape: Shape;
  readonly strides: Shape;
  readonly offset: number;
}

const asStridedOp = defineOp<Geometry>('asStrided', each(ALL), ([t], at) => {
  const base = contiguousOf(t);
  check(base, at);
  return rawView(base, at.shape, at.strides, base.offset + at.offset);
});

const asStridedScatterOp = defineOp<Geometry>('asStridedScatter', same(ALL), ([base, part], at) => {
  check(base, at);
  const bytes = readBytes(base).slice();
  const source = readBytes(part);
  copyStrided(
    { bytes: source, strides: contiguousStrides(at.shape), offset: 0 },
    { bytes, ...at },
    at.shape,
    base.dtype,
  );
  return over(new Storage(bytes), base.dtype, base.shape);
});

interface AddAttrs {
  readonly at: Geometry;
  readonly shape: Shape;
  /** Whether the geometry names every place once at most, as a slice does. */
  readonly distinct: boolean;
}

/** Elements written into zeros of `shape`. */
function placed(part: Tensor, shape: Shape, at: Geometry): Tensor {
  const { dtype } = part;
  const dims = dtype === 'float32' && part.size > 0 ? mergedDims(at.shape, at.strides) : [];
  const size = sizeOf(shape);
  const backend = dims.length > 0 && dims.length <= 4 ? backendFor('PlaceStrided', 'transpose', size) : undefined;
  if (backend !== undefined) {
    while (dims.length < 4) dims.unshift({ n: 1, step: 0 });
    const attrs = { size, offset: at.offset, sizes: dims.map(({ n }) => n), strides: dims.map(({ step }) => step) };
    return runKernel(backend, 'PlaceStrided', { x: part }, attrs, 'float32', shape);
  }
  const bytes = new Uint8Array(size * dtypes[dtype].bytes);
  const from = { bytes: readBytes(part), strides: contiguousStrides(at.shape), offset: 0 };
  copyStrided(from, { bytes, ...at }, at.shape, dtype);
  return over(new Storage(bytes), dtype, shape);
}

const asStridedAddOp = defineOp<AddAttrs>(
  ['asStridedAdd', 'as_strided_backward'],
  each(ALL),
  ([source], { at, shape, distinct }) => {
    if (distinct) return placed(source, shape, at);
    const { lanes } = dtypes[source.dtype];
    const values = decode(readArray(source), source.dtype);
    const out = new (values.constructor as new (n: number) => NumberArray)(sizeOf(shape) * lanes);
    const index = new Array<number>(at.shape.length).fill(0);
    let to = at.offset;
    for (let i = 0; i < source.size; i++) {
      for (let k = 0; k < lanes; k++) out[to * lanes + k]! += values[i * lanes + k]!;
      for (let d = at.shape.length - 1; d >= 0; d--) {
        const stride = at.strides[d] as number;
        to += stride;
        index[d] = (index[d] as number) + 1;
        if ((index[d] as number) < (at.shape[d] as number)) break;
        to -= stride * (at.shape[d] as number);
        index[d] = 0;
      }
    }
    return fromArray(encodeLanes(out, source.dtype), source.dtype, shape);
  },
);

/** The adjoint of asStrided: a tensor of `shape`, zero but for `part` added where the geometry names; places named twice add up. */
export function asStridedAdd(part: Tensor, shape: Shape, at: Geometry, distinct = false): Tensor {
  return apply(asStridedAddOp, [part], { at, shape, distinct });
}

/** The elements of `t` (in row-major order) that the geometry names. */
export function asStrided(t: Tensor, shape: Shape, strides: Shape, offset = 0): Tensor {
  return apply(asStridedOp, [t], { shape, strides, offset });
}

/** A copy of `t` with `part` written where the geometry names. */
export function asStridedScatter(t: Tensor, part: Tensor, shape: Shape, strides: Shape, offset = 0): Tensor {
  return apply(asStridedScatterOp, [t, part], { shape, strides, offset });
}

function contiguousOf(t: Tensor): Tensor {
  return t.isContiguous ? t : over(new Storage(readBytes(t)), t.dtype, t.shape);
}

function check(t: Tensor, at: Geometry): void {
  const negative = at.offset < 0 || at.strides.some((s) => s < 0);
  // What has no elements lies nowhere: its offset may be one past the end.
  const extent = extentOf(at.shape, at.strides);
  const outside = extent > 0 && at.offset + extent > t.size;
  if (negative || at.strides.length !== at.shape.length || outside) {
    throw new ShapeError(
      `setStorage: sizes [${at.shape.join(', ')}], strides [${at.strides.join(', ')}] and offset ${at.offset} are out of bounds for a tensor of ${t.size} elements`,
    );
  }
}
