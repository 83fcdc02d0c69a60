/** @file Adding and shaping gradients. */
import type { Shape } from '../shape.ts';
import { sameShape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { add } from './arithmetic.ts';

/** a + b out of place; dense and sparse gradients mix as `add` says. */
export function addGradients(a: Tensor, b: Tensor): Tensor {
  return b.sparse === undefined && a.sparse !== undefined ? add(b, a) : add(a, b);
}

/** `held` and the gradient that comes next for the same input; a sparse one that is held comes last, as in PyTorch. */
export function addToHeld(held: Tensor, next: Tensor): Tensor {
  return held.sparse === undefined ? add(held, next) : add(next, held);
}

/** Sums a gradient over the dimensions that broadcasting added or repeated. */
export function sumTo(grad: Tensor, shape: Shape): Tensor {
  if (sameShape(grad.shape, shape)) return grad;
  const lead = grad.rank - shape.length;
  const dims = grad.shape.map((_, i) => i).filter((i) => i < lead || (shape[i - lead] === 1 && grad.shape[i] !== 1));
  if (dims.length === 0) return grad.reshape(shape);
  // Rows of a bias and the like: the sum has the shape already.
  if (dims.length === lead && dims[lead - 1] === lead - 1) return grad.sum(dims);
  return grad.sum(dims, true).reshape(shape);
}
