/**
 * @file By how much two right answers may differ.
 *
 * Of integers, truths and what is only moved: not at all. Of floats, both answers carry rounding errors, and neither is the truth. The
 * truth is the program in double precision (exact, here), and what rounding may do to it is measured rather than guessed: the program
 * runs in double precision with relative errors of up to half an epsilon put into the result of every operation, and into the terms
 * of sums; for gradients also into the arguments, since a derivative is several operations whose terms may cancel. The largest movement
 * of each element is its condition. An element passes when it is as near to PyTorch's answer, or to
 * the exact one, as
 *
 *     4 epsilon |exact|  +  16 movement  +  2 (PyTorch's own distance from the exact answer, at worst in this tensor)  +  denormal
 *
 * 4 epsilon: libraries of elementary functions keep to 1 or 2 units in the last place, and gradients multiply two of them; of half
 * precision, whose operations round once from single precision, 1 epsilon. 16 movements: the largest of a few random draws of n errors
 * underestimates the worst case, and the two libraries err on their own. A few cases in a million are left over by chance; none has been seen.
 */
import type { DType } from '../src/index.ts';
import { EPSILON, SMALLEST } from './dtypes.ts';

/** Units in the last place that single operations may be off. */
export function units(dtype: DType): number {
  return dtype === 'float16' || dtype === 'bfloat16' ? 1 : 4;
}

/** What the first look lets pass; the rest is judged by its condition. */
export function quickRoom(dtype: DType, value: number): number {
  return units(dtype) * EPSILON[dtype] * Math.abs(value) + tiniest(dtype);
}

/** Numbers this small have a few bits left, and processors may take them for zero. */
export function tiniest(dtype: DType): number {
  return 4 * EPSILON[dtype] * SMALLEST[dtype];
}

export const MOVEMENTS = 16;
export const OWN_ERRORS = 2;

/** Doubles have no exact run to be held against: they may be off by some epsilons of the largest element, or of one. */
export function plainRoom(dtype: DType, scale: number): number {
  return dtype === 'float64' ? 32 * EPSILON.float64 * scale : 0;
}
