/** @file Derivatives of reductions. */
import { onesLike } from '../../creation.ts';
import { conj } from '../../ops/complex-parts.ts';
import { concat, stack } from '../../ops/join.ts';
import type { ReduceAttrs } from '../../ops/reduce.ts';
import { keptShape, prodDims } from '../../ops/reduce.ts';
import { sizeOf, type Shape } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';
import { where } from '../../ops/select.ts';

/** A reduced gradient repeated over the dimensions it was reduced from. */
function spread(grad: Tensor, shape: Shape, dims: readonly number[]): Tensor {
  return grad.reshape(keptShape(shape, dims)).expand(shape);
}

/** Equal largest (or smallest) elements share the gradient. */
const extreme: Derivative = {
  save: [0, 'output'],
  backward: (grad, saved, { dims }: ReduceAttrs) => {
    const x = saved.input(0).detach();
    const shape = x.shape;
    const mask = x.eq(spread(saved.output().detach(), shape, dims)).to(grad.dtype);
    const share = grad.reshape(keptShape(shape, dims)).div(mask.sum(dims, true));
    return [mask.mul(share.expand(shape))];
  },
};

/**
 * The gradient of cumprod without dividing by x: from the end, s_i = g_i + x_(i+1) s_(i+1), and the gradient is s_i times the product
 * of what comes before i.
 */
function cumprodWithZeros(grad: Tensor, x: Tensor, dim: number): Tensor {
  const n = x.shape[dim] as number;
  const parts: Tensor[] = [];
  let tail: Tensor | undefined;
  for (let i = n - 1; i >= 0; i--) {
    const g = grad.select(dim, i);
    tail = tail === undefined ? g : g.add(x.select(dim, i + 1).mul(tail));
    parts.unshift(tail);
  }
  const before = concat([onesLike(x.narrow(dim, 0, 1)), x.narrow(dim, 0, n - 1).cumprod(dim)], dim);
  return stack(parts, dim).mul(before);
}

function shapeOf(saved: Saved): Shape {
  return saved.shapes[0] as Shape;
}

export const reductions: Readonly<Record<string, Derivative>> = {
  median: {
    // Equal elements share the gradient.
    save: [0, 'output'],
    backward: (grad, saved) => {
      const [x, value] = [saved.input(0).detach(), saved.output().detach()];
      const same = (value.isNaN().item() === 0 ? x.eq(value) : x.isNaN()).to(grad.dtype);
      return [same.mul(grad.div(same.sum()))];
    },
  },
  sum: {
    save: [],
    backward: (grad, saved, { dims }: ReduceAttrs) => [spread(grad, shapeOf(saved), dims)],
  },
  mean: {
    save: [],
    backward: (grad, saved, { dims }: ReduceAttrs) => {
      const shape = shapeOf(saved);
      const count = sizeOf(dims.map((d) => shape[d] as number));
      return [spread(grad.div(count), shape, dims)];
    },
  },
  prod: {
    save: [0, 'output'],
    backward: (grad, saved, { dims }: ReduceAttrs) => {
      const x = saved.input(0);
      const shape = x.shape;
      const kept = keptShape(shape, dims);
      const zero = x.detach().eq(0);
      const zeros = zero.to(grad.dtype).sum(dims, true);
      // Without a zero the others' product is output / x; a single zero gets the product of the rest; with two all is zero.
      const safe = where(zero, 1, x);
      const others = prodDims(safe, dims).reshape(kept).expand(shape).div(safe);
      const none = zeros.eq(0).expand(shape);
      const lone = zeros.eq(1).expand(shape).logicalAnd(zero);
      return [where(none.logicalOr(lone), spread(grad, shape, dims).mul(conj(others)), 0)];
    },
  },
  amax: extreme,
  amin: extreme,
  cumsum: {
    save: [],
    backward: (grad, _saved, { dim }: { dim: number }) =>
      grad.rank === 0 ? [grad] : [grad.flip([dim]).cumsum(dim).flip([dim])],
  },
  cumprod: {
    save: [0, 'output'],
    backward: (grad, saved, { dim }: { dim: number }) => {
      const x = saved.input(0);
      if (x.rank === 0) return [grad];
      if (x.detach().eq(0).any().item() !== 0) return [cumprodWithZeros(grad, conj(x), dim)];
      const weighted = grad.mul(conj(saved.output()));
      return [weighted.sum(dim, true).sub(weighted.cumsum(dim)).add(weighted).div(conj(x))];
    },
  },
};
