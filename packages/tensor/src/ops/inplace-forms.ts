/** @file In-place forms of operations that are made of several, and of those that choose and write: clamp_, maskedFill_, scatter_ … */
import { isGradEnabled } from '../autograd/record.ts';
import { ShapeError } from '../errors.ts';
import { named, type Named } from '../named.ts';
import { sameShape } from '../shape.ts';
import { sweep } from '../scope.ts';
import { Tensor } from '../tensor.ts';
import { addcdiv, addcmul } from './addc.ts';
import { lerp } from './composite.ts';
import { indexAdd, indexCopy, scatter, scatterAdd } from './indexing.ts';
import { checkCast } from './inplace.ts';
import { checkOverlap } from './overlap.ts';
import { inPlaceUnary } from './pointwise.ts';
import { check, each, REAL_NUMBER } from './takes.ts';
import { scatterReduce } from './scatter-reduce.ts';
import { clamp, maskedFill } from './where.ts';
import { indexFill } from './subscript.ts';

/**
 * `fn(t, ...)` as the new value of `t`. What `fn` saves of `t` is a copy, for the memory changes.
 */
function becoming<A extends unknown[]>(
  name: string,
  torch: string,
  fn: (t: Tensor, ...args: A) => Tensor,
): (<T extends Tensor>(t: T, ...args: A) => T) & Named {
  return named(`aten::${torch}`, <T extends Tensor>(t: T, ...args: A): T => {
    for (const arg of args) if (arg instanceof Tensor) checkOverlap(t, arg as Tensor);
    sweep(() => {
      const result = fn(isGradEnabled() ? t.clone() : t.detach(), ...args);
      if (!sameShape(result.shape, t.shape)) {
        throw new ShapeError(
          `output with shape [${t.shape.join(', ')}] doesn't match the broadcast shape [${result.shape.join(', ')}]`,
        );
      }
      checkCast(name, result.dtype, t.dtype);
      t.copy_(result);
    });
    return t;
  });
}

export const clamp_ = becoming('clamp', 'clamp_', clamp);
export const maskedFill_ = becoming('maskedFill', 'masked_fill_', maskedFill);
export const indexAdd_ = becoming('indexAdd', 'index_add_', indexAdd);
export const indexCopy_ = becoming('indexCopy', 'index_copy_', indexCopy);
export const indexFill_ = becoming('indexFill', 'index_fill_', indexFill);
export const scatter_ = becoming('scatter', 'scatter_', scatter);
export const scatterAdd_ = becoming('scatterAdd', 'scatter_add_', scatterAdd);
export const scatterReduce_ = becoming('scatterReduce', 'scatter_reduce_', scatterReduce);
export const lerp_ = becoming('lerp', 'lerp_', lerp);
export const addcmul_ = becoming('addcmul', 'addcmul_', addcmul);
export const addcdiv_ = becoming('addcdiv', 'addcdiv_', addcdiv);

const absolute = inPlaceUnary('abs');
export const abs_ = named('aten::abs_', <T extends Tensor>(t: T): T => {
  check('abs_', each(REAL_NUMBER, 'sizes of complex numbers are real: use abs()'), [t]);
  return absolute(t);
});
export const sign_ = inPlaceUnary('sign');
export const square_ = inPlaceUnary('square');
export const rsqrt_ = inPlaceUnary('rsqrt');
export const reciprocal_ = inPlaceUnary('reciprocal');
export const log_ = inPlaceUnary('log');
export const log1p_ = inPlaceUnary('log1p');
export const expm1_ = inPlaceUnary('expm1');
export const sin_ = inPlaceUnary('sin');
export const cos_ = inPlaceUnary('cos');
export const floor_ = inPlaceUnary('floor');
export const ceil_ = inPlaceUnary('ceil');
export const round_ = inPlaceUnary('round');
export const trunc_ = inPlaceUnary('trunc');
