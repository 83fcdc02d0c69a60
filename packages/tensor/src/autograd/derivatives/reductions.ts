/** @file Derivatives of reductions. */
import { onesLike, zerosLike } from '../../creation.ts';
import { conj } from '../../ops/complex-parts.ts';
import { concat } from '../../ops/join.ts';
import { stack } from '../../ops/stack.ts';
import { where } from '../../ops/where.ts';
import type { ReduceAttrs } from '../../ops/reduce.ts';
import { reducedShape, sizeOf, type Shape } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';
import { isGradEnabled } from '../record.ts';
import { linear, rule } from './rule.ts';

/** A reduced gradient repeated over the dimensions it was reduced from. */
function spread(grad: Tensor, shape: Shape, dims: readonly number[]): Tensor {
  return grad.reshape(reducedShape(shape, dims, true)).expand(shape);
}

/** Equal largest (or smallest) elements share the gradient. */
const extreme = rule([0, 'output'], (grad, saved, { dims }: ReduceAttrs) => {
  const x = saved.input(0).detach();
  const shape = x.shape;
  const mask = x.eq(spread(saved.output().detach(), shape, dims)).to(grad.dtype);
  const share = grad.reshape(reducedShape(shape, dims, true)).div(mask.sum(dims, true));
  return [mask.mul(share.expand(shape))];
});

/**
 * The gradient of cumprod without dividing by x: from the end, s_i = g_i + x_(i+1) s_(i+1), and the gradient is s_i times the product
 * of what comes before i. What a zero multiplies is left out unless it is differentiated again: it may be infinite.
 */
function cumprodWithZeros(grad: Tensor, x: Tensor, dim: number): Tensor {
  const n = x.shape[dim] as number;
  const quiet = !isGradEnabled();
  const parts: Tensor[] = [];
  let tail: Tensor | undefined;
  for (let i = n - 1; i >= 0; i--) {
    const g = grad.select(dim, i);
    if (tail === undefined) tail = g;
    else {
      const next = x.select(dim, i + 1);
      const carried = next.mul(tail);
      tail = g.add(quiet ? where(next.eq(0), 0, carried) : carried);
    }
    parts.unshift(tail);
  }
  const before = concat([onesLike(x.narrow(dim, 0, 1)), x.narrow(dim, 0, n - 1).cumprod(dim)], dim);
  const slopes = stack(parts, dim).mul(before);
  return quiet ? where(before.eq(0), 0, slopes) : slopes;
}

/** For each element the product of the others along `dim`, without dividing by it. */
function othersAlong(x: Tensor, dim: number): Tensor {
  const n = x.shape[dim] as number;
  const one = onesLike(x.narrow(dim, 0, 1));
  const before = concat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim);
  const after = concat([one, x.narrow(dim, 1, n - 1).flip([dim])], dim).cumprod(dim);
  return before.mul(after.flip([dim]));
}

/** The sums of each element and those after it. */
function fromEnd(t: Tensor, dim: number): Tensor {
  return t.flip([dim]).cumsum(dim).flip([dim]);
}

function shapeOf(saved: Saved): Shape {
  return saved.shapes[0] as Shape;
}

export const reductions: Readonly<Record<string, Derivative>> = {
  // Equal elements share the gradient.
  median: rule([0, 'output'], (grad, saved) => {
    const [x, value] = [saved.input(0).detach(), saved.output().detach()];
    const same = (value.isNaN().item() === 0 ? x.eq(value) : x.isNaN()).to(grad.dtype);
    return [same.mul(grad.div(same.sum()))];
  }),
  sum: linear((grad, saved, { dims }: ReduceAttrs) => [spread(grad, shapeOf(saved), dims)]),
  mean: linear((grad, saved, { dims }: ReduceAttrs) => {
    const shape = shapeOf(saved);
    const count = sizeOf(dims.map((d) => shape[d] as number));
    return [spread(grad.div(count), shape, dims)];
  }),
  prod: rule([0, 'output'], (grad, saved, { dims }: ReduceAttrs) => {
    const x = saved.input(0);
    if (x.rank === 0) return [grad];
    const zeros = x.detach().eq(0);
    if (zeros.any().item() === 0) {
      const ratio = saved
        .output()
        .reshape(reducedShape(x.shape, dims, true))
        .div(x);
      return [spread(grad, x.shape, dims).mul(conj(ratio))];
    }
    // With two zeros among all elements nothing has a slope, whatever the others are; but the slopes have slopes.
    const whole = dims.length === x.rank;
    if (whole && !isGradEnabled() && zeros.to('float64').sum().item() !== 1) return [zerosLike(x)];
    const others = whole ? othersAlong(x.reshape([x.size]), 0).reshape(x.shape) : othersAlong(x, dims[0] as number);
    return [spread(grad, x.shape, dims).mul(conj(others))];
  }),
  amax: extreme,
  amin: extreme,
  cumsum: linear((grad, _saved, { dim }: { dim: number }) => (grad.rank === 0 ? [grad] : [fromEnd(grad, dim)])),
  cumprod: rule([0, 'output'], (grad, saved, { dim }: { dim: number }) => {
    const x = saved.input(0);
    // Of one element the product is itself, also where it is infinite.
    if (x.rank === 0 || x.shape[dim] === 1) return [grad];
    if (x.detach().eq(0).any().item() !== 0) return [cumprodWithZeros(grad, conj(x), dim)];
    const weighted = grad.mul(conj(saved.output()));
    // Added up from the end: what is left of the sum of all has the rounding of the largest.
    return [fromEnd(weighted, dim).div(conj(x))];
  }),
};
