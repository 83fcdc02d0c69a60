/** @file Joining tensors along a dimension that they have. */
import { ShapeError } from '../errors.ts';
import { readBytes } from '../host.ts';
import { named } from '../named.ts';
import { contiguousStrides, normalizeDim } from '../shape.ts';
import { copyStrided } from '../strided.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { written } from './kernels.ts';
import { commonDType } from './promotion.ts';
import { apply } from './op.ts';
import { ALL, same } from './takes.ts';

const concatOp = defineOp<{ dim: number }>(['concat', 'cat'], same(ALL), (inputs: readonly Tensor[], { dim }) => {
  const counted = inputs.filter((t) => !isLegacyEmpty(t));
  const tensors = counted.length === 0 ? inputs : counted;
  const first = tensors[0] as Tensor;
  const { dtype } = first;
  const shape = first.shape.map((n, i) =>
    i === dim ? tensors.reduce((sum, t) => sum + (t.shape[dim] as number), 0) : n,
  );
  const strides = contiguousStrides(shape);
  return written(dtype, shape, (bytes) => {
    let at = 0;
    for (const t of tensors) {
      const from = { bytes: readBytes(t), strides: contiguousStrides(t.shape), offset: 0 };
      copyStrided(from, { bytes, strides, offset: at * (strides[dim] as number) }, t.shape, dtype);
      at += t.shape[dim] as number;
    }
  });
});

/**
 * The tensors one after the other along `dim`; they agree in every other dimension. Vectors without elements fit everywhere, as in
 * PyTorch.
 */
export const concat = named('aten::cat', (tensors: readonly Tensor[], dim = 0): Tensor => {
  if (tensors.length === 0) throw new ShapeError('concat expects at least one tensor');
  const scalar = tensors.findIndex((t) => t.rank === 0);
  if (scalar !== -1) throw new ShapeError(`zero-dimensional tensor (at position ${scalar}) cannot be concatenated`);
  const counted = tensors.filter((t) => !isLegacyEmpty(t));
  // Where there are only such, they are what they are.
  const parts = counted.length === 0 ? tensors : counted;
  const first = parts[0] as Tensor;
  const d = counted.length === 0 ? 0 : normalizeDim(dim, first.rank);
  for (const t of parts) {
    const fits = t.rank === first.rank && t.shape.every((n, k) => k === d || n === first.shape[k]);
    if (!fits) {
      throw new ShapeError(
        `Sizes of tensors must match except in dimension ${d}. Got [${first.shape.join(', ')}] and [${t.shape.join(', ')}] (The offending index is ${tensors.indexOf(t)})`,
      );
    }
  }
  const dtype = commonDType(tensors);
  return apply(
    concatOp,
    tensors.map((t) => (t.dtype === dtype ? t : t.to(dtype))),
    { dim: d },
  );
});

function isLegacyEmpty(t: Tensor): boolean {
  return t.rank === 1 && t.shape[0] === 0;
}
