/** @file Views by explicit geometry over a contiguous tensor, and their inverse. */
import { readBytes, over, rawView } from '../host.ts';
import { contiguousStrides, extentOf, type Shape } from '../shape.ts';
import { ShapeError } from '../errors.ts';
import { Storage } from '../storage.ts';
import { copyStrided } from '../strided.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';

/** A geometry in elements, relative to the first element of a contiguous tensor. */
export interface Geometry {
  readonly shape: Shape;
  readonly strides: Shape;
  readonly offset: number;
}

const asStridedOp = defineOp<Geometry>('asStrided', 'as_strided', ([t], at) => {
  const base = contiguousOf(t as Tensor);
  check(base, at);
  return rawView(base, at.shape, at.strides, base.offset + at.offset);
});

const asStridedScatterOp = defineOp<Geometry>('asStridedScatter', 'as_strided_scatter', ([t, part], at) => {
  const base = t as Tensor;
  check(base, at);
  const bytes = readBytes(base).slice();
  const source = readBytes(part as Tensor);
  copyStrided(
    { bytes: source, strides: contiguousStrides(at.shape), offset: 0 },
    { bytes, ...at },
    at.shape,
    base.dtype,
  );
  return over(new Storage(bytes), base.dtype, base.shape);
});

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
  if (negative || at.strides.length !== at.shape.length || at.offset + extentOf(at.shape, at.strides) > t.size) {
    throw new ShapeError(
      `setStorage: sizes [${at.shape.join(', ')}], strides [${at.strides.join(', ')}] and offset ${at.offset} are out of bounds for a tensor of ${t.size} elements`,
    );
  }
}
