/** @file Access to the parts of a sparse tensor. */
import { DTypeError } from '../../errors.ts';
import { sparseFromParts } from '../../creation.ts';
import type { SparseParts, Tensor } from '../../tensor.ts';

/** The parts; throws for a strided tensor. */
export function partsOf(t: Tensor, operation: string): SparseParts {
  if (t.sparse === undefined) throw new DTypeError(`${operation} needs a sparse tensor, but this one is strided`);
  return t.sparse;
}

/** A copy with its own storages. */
export function cloneSparse(t: Tensor): Tensor {
  const { indices, values, coalesced } = partsOf(t, 'clone');
  return sparseFromParts({ indices: indices.clone(), values: values.clone(), coalesced, shape: t.shape });
}
