/** @file Copies and conversions: clone, contiguous, to. */
import { cast, isDType, type DType } from '../dtype.ts';
import { checkDevice, place } from '../devices.ts';
import { fromArray, over, rawView, readArray, readBytes } from '../host.ts';
import { contiguousOnDevice, written } from './kernels.ts';
import { shareHandle } from '../autograd/record.ts';
import { Storage } from '../storage.ts';
import { cloneSparse } from './sparse/parts.ts';
import type { Device } from '../device.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp, type Op } from './define.ts';
import { apply } from './op.ts';
import { ALL, each } from './takes.ts';

const cloneOp = defineOp('clone', each(ALL), ([input]) => {
  if (input.sparse !== undefined) return cloneSparse(input);
  const moved = contiguousOnDevice(input);
  if (moved !== undefined) return moved;
  if (input.isContiguous) return written(input.dtype, input.shape, (bytes) => bytes.set(readBytes(input)));
  return over(new Storage(readBytes(input)), input.dtype, input.shape);
});

/** A copy with its own storage, contiguous. Differentiable. */
export function clone<D extends DType>(t: Tensor<D>): Tensor<D> {
  return apply(cloneOp, [t], undefined) as Tensor<D>;
}

/** `t` itself (as a second handle) if it is contiguous, else a contiguous copy. */
export function contiguous<D extends DType>(t: Tensor<D>): Tensor<D> {
  return t.isContiguous ? shareHandle(t) : clone(t);
}

/** The same storage outside the graph. */
export function detach<D extends DType>(t: Tensor<D>): Tensor<D> {
  if (t.sparse === undefined) return rawView(t, t.shape, t.strides, t.offset);
  const handle = shareHandle(t);
  handle.meta = undefined;
  return handle;
}

const castOp = defineOp<{ dtype: DType }>(['to', '_to_copy'], each(ALL), ([input], { dtype }) => {
  const array = readArray(input);
  return fromArray(cast(array, input.dtype, dtype), dtype, input.shape);
});

const moveOp: Op<{ to: Device; from: Device }> = {
  ...defineOp<{ to: Device; from: Device }>(['move', '_to_copy'], each(ALL), ([input], { to: target }) => {
    const copy =
      input.sparse === undefined
        ? over(new Storage(readBytes(input).slice()), input.dtype, input.shape)
        : cloneSparse(input);
    if (copy.sparse === undefined) place(copy.storage, target);
    else for (const part of [copy.sparse.indices, copy.sparse.values]) place(part.storage, target);
    return copy;
  }),
  moves: true,
};

/** The elements converted to `dtype`, or copied to a device (or the tensor itself, as a second handle, when nothing changes). */
export function to<E extends DType>(t: Tensor, target: E | Device): Tensor<E> {
  if (isDType(target)) {
    if (t.dtype === target) return shareHandle(t) as Tensor<E>;
    return apply(castOp, [t], { dtype: target }) as Tensor<E>;
  }
  if (target === t.device) return shareHandle(t) as Tensor<E>;
  checkDevice(target);
  return apply(moveOp, [t], { to: target, from: t.device }) as Tensor<E>;
}
