/** @file Derivatives of triangles, flips, padding and resampling. */
import { zeros } from '../../creation.ts';
import { asStridedScatter } from '../../ops/as-strided.ts';
import { resampleGradient, type ResampleAttrs } from '../../ops/resample.ts';
import { diagonal, type PadAttrs } from '../../ops/structure.ts';
import { contiguousStrides, type Shape } from '../../shape.ts';
import type { Derivative } from '../op-node.ts';
import { linear } from './rule.ts';

export const structure: Readonly<Record<string, Derivative>> = {
  tril: linear((grad, _saved, { k }: { k: number }) => [grad.tril(k)]),
  triu: linear((grad, _saved, { k }: { k: number }) => [grad.triu(k)]),
  diagonal: linear((grad, saved) => {
    const shape = saved.shapes[0] as Shape;
    const strides = [...contiguousStrides(shape).slice(0, -2), (shape.at(-1) as number) + 1];
    return [asStridedScatter(zeros(shape, { dtype: grad.dtype }), grad, grad.shape, strides)];
  }),
  diagEmbed: linear((grad) => [diagonal(grad)]),
  flip: linear((grad, _saved, { dims }: { dims: readonly number[] }) => [grad.flip(dims)]),
  resample: linear((grad, _saved, attrs: ResampleAttrs) => [resampleGradient(grad, attrs)]),
  pad: linear((grad, _saved, { pads }: PadAttrs) => [
    grad.pad([...pads].reverse().flatMap(([before, after]) => [-before, -after])),
  ]),
};
