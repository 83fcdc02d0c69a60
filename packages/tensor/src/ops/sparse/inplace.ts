/** @file Changes of sparse tensors in place. */
import { isGradEnabled } from '../../autograd/record.ts';
import { promoteScalar, toFloatDType, type DType } from '../../dtype.ts';
import { AutogradError, DTypeError } from '../../errors.ts';
import type { Tensor } from '../../tensor.ts';
import { applyInPlace, checkCast } from '../inplace.ts';
import { resultDType } from '../promotion.ts';
import { partsOf } from './parts.ts';
import { addSparse, asNumber, checkDivisor, divideSparseOp, divSparse, mulSparse } from './arithmetic.ts';

/** t += alpha b for a sparse t: the handle gets the parts of the sum, which has other indices. Other handles keep the old ones. */
export function addSparseInPlace<T extends Tensor>(t: T, b: Tensor | number, alpha: number): T {
  if (typeof b === 'number' || b.sparse === undefined) {
    throw new DTypeError('add_ to a sparse tensor takes a sparse tensor; use toDense()');
  }
  checkCast('add', resultDType(t, b), t.dtype);
  return become(t, () => addSparse(t, b, alpha));
}

/** t *= b for a sparse t: the handle gets the parts of the product. Other handles keep the old ones, as in PyTorch. */
export function mulSparseInPlace<T extends Tensor>(t: T, b: Tensor | number): T {
  checkCast('mul', met(t, b), t.dtype);
  return become(t, () => mulSparse(t, b));
}

/** t /= b for a sparse t: its entries change where they lie, for every handle that has them, as in PyTorch. */
export function divSparseInPlace<T extends Tensor>(t: T, b: Tensor | number): T {
  checkDivisor(b);
  checkCast('div', toFloatDType(met(t, b)), t.dtype);
  const byNumber = asNumber(t, b);
  // Entries that are one number spread out, as the gradient of a sum has them, are no memory of this tensor alone.
  const own = partsOf(t, 'div').values.isContiguous;
  if (byNumber === undefined || !own) return become(t, () => divSparse(t, b));
  return applyInPlace(divideSparseOp, t, [], byNumber);
}

function met(t: Tensor, b: Tensor | number): DType {
  return typeof b === 'number' ? promoteScalar(t.dtype, b) : resultDType(t, b);
}

/** Gives the handle the parts, and the history, of what is made of it. */
function become<T extends Tensor>(t: T, make: () => Tensor): T {
  const recording = isGradEnabled();
  if (recording && t.requiresGrad && t.isLeaf) {
    throw new AutogradError('a leaf Variable that requires grad is being used in an in-place operation.');
  }
  const made = make();
  const cast = made.dtype === t.dtype ? made : made.to(t.dtype);
  t.adoptSparse(cast);
  if (recording) t.meta = cast.meta;
  for (const each of new Set([made, cast])) each.release();
  return t;
}
