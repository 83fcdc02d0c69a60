/** @file What an operation is. */
import type { Tensor } from '../tensor.ts';

/** One operation: tensors and attributes in, one new tensor out. */
export interface Op<A> {
  /** Its key in the derivative table. */
  readonly name: string;
  /** Its name in PyTorch's operator library, as profiles and remote calls show it. */
  readonly torch: string;
  /** Computes the result; sees and records no history. */
  readonly forward: (inputs: readonly Tensor[], attrs: A) => Tensor;
}

/** Defines an operation. */
export function defineOp<A = undefined>(name: string, torch: string, forward: Op<A>['forward']): Op<A> {
  return { name, torch: `aten::${torch}`, forward };
}
