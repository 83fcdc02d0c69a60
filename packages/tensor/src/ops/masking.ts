/** @file What attentions have in common: which masks they take, and the softmax of scores of which some are masked. */
import { dtypes } from '../dtype.ts';
import { DTypeError } from '../errors.ts';
import type { Tensor } from '../tensor.ts';

/** @throws DTypeError for a mask of integers: whether its ones mean truth, or are to be added, is anybody's guess. */
export function checkMask(what: string, mask: Tensor | undefined): void {
  if (mask === undefined || mask.dtype === 'bool' || dtypes[mask.dtype].kind === 'float') return;
  throw new DTypeError(
    `${what}: only bool and floating types of masks are supported, but got ${mask.dtype}; convert truths with to('bool')`,
  );
}

/** softmax along the last dimension, zero for rows of nothing but -Infinity; these have no gradient. */
export function safeSoftmax(scores: Tensor): Tensor {
  if (scores.size === 0) return scores.softmax(-1);
  const dead = scores.detach().amax(-1, true).eq(-Infinity);
  if (dead.any().item() === 0) return scores.softmax(-1);
  return scores.maskedFill(dead, 0).softmax(-1).maskedFill(dead, 0);
}
