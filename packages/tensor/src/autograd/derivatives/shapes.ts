/** @file Derivatives of views, copies and joins: the gradient takes the way back. */
import { zeros } from '../../creation.ts';
import { asStrided, asStridedAdd, asStridedScatter } from '../../ops/as-strided.ts';
import type { Geometry } from '../../ops/as-strided.ts';
import { sumTo } from '../../ops/gradients.ts';
import type { SliceAttrs } from '../../ops/views.ts';
import { contiguousStrides, type Shape } from '../../shape.ts';
import type { Derivative, Saved } from '../op-node.ts';
import type { Device } from '../../device.ts';
import type { DType } from '../../dtype.ts';
import { linear } from './rule.ts';

function inputShape(saved: Saved): Shape {
  return saved.shapes[0] as Shape;
}

/** Where a slice lies in a contiguous tensor of `shape`. */
function sliceGeometry(shape: Shape, { dim, start, length, step }: SliceAttrs): Geometry {
  const strides = contiguousStrides(shape);
  return {
    shape: shape.map((n, i) => (i === dim ? length : n)),
    strides: strides.map((s, i) => (i === dim ? s * step : s)),
    offset: start * (strides[dim] as number),
  };
}

export const shapes: Readonly<Record<string, Derivative>> = {
  view: linear((grad, saved) => [grad.reshape(inputShape(saved))]),
  alias: linear((grad) => [grad]),
  clone: linear((grad) => [grad]),
  move: linear((grad, _node, { from }: { from: Device }) => [grad.to(from)]),
  to: linear((grad, saved) => [grad.to(saved.dtypes[0] as DType)]),
  copy: linear((grad, saved) => [
    saved.needs[0] === true ? zeros(grad.shape, { dtype: grad.dtype }) : null,
    // In the source's dtype: a sum in half precision would round.
    saved.needs[1] === true ? sumTo(grad.to(saved.dtypes[1] as DType), saved.shapes[1] as Shape) : null,
  ]),
  permute: linear((grad, _saved, { dims }: { dims: readonly number[] }) => {
    const back = new Array<number>(dims.length);
    dims.forEach((d, i) => (back[d] = i));
    return [grad.permute(back)];
  }),
  expand: linear((grad, saved) => [sumTo(grad, inputShape(saved))]),
  slice: linear((grad, saved, attrs: SliceAttrs) => {
    const shape = inputShape(saved);
    const at = sliceGeometry(shape, attrs);
    return [asStridedAdd(grad, shape, at, true)];
  }),
  select: linear((grad, saved, { dim, index }: { dim: number; index: number }) => {
    const shape = inputShape(saved);
    const at = sliceGeometry(shape, { dim, start: index, length: 1, step: 1 });
    return [asStridedAdd(grad.reshape(at.shape), shape, at, true)];
  }),
  asStrided: linear((grad, saved, at: Geometry) => [asStridedAdd(grad, inputShape(saved), at)]),
  asStridedAdd: linear((grad, _saved, { at }: { at: Geometry }) => [asStrided(grad, at.shape, at.strides, at.offset)]),
  asStridedScatter: linear((grad, saved, at: Geometry) => {
    const part = asStrided(grad, at.shape, at.strides, at.offset);
    const hole = zeros(at.shape, { dtype: grad.dtype });
    return [
      saved.needs[0] === true ? asStridedScatter(grad, hole, at.shape, at.strides, at.offset) : null,
      saved.needs[1] === true ? part : null,
    ];
  }),
  concat: linear((grad, saved, { dim }: { dim: number }) => {
    let at = 0;
    return saved.shapes.map((shape, i) => {
      // A vector without elements stands between tensors of any shape.
      if (shape.length === 1 && shape[0] === 0) return zeros(shape, { dtype: grad.dtype });
      const length = shape[dim] as number;
      const start = at;
      at += length;
      return saved.needs[i] === true ? grad.narrow(dim, start, length) : null;
    });
  }),
};
