/** @file What an operation is. */
import type { Tensor } from '../tensor.ts';

/** One operation: tensors and attributes in, one new tensor out. */
export interface Op<A> {
  /** Its key in the derivative table. */
  readonly name: string;
  /** The name of its function in a recorded graph. */
  readonly gradName: string;
  /** Its name in PyTorch's operator library, as profiles and remote calls show it. */
  readonly torch: string;
  /** Computes the result; sees and records no history. */
  readonly forward: (inputs: readonly Tensor[], attrs: A) => Tensor;
}

/** Defines an operation. */
export function defineOp<A = undefined>(name: string, torch: string, forward: Op<A>['forward']): Op<A> {
  const gradName = `${name[0]?.toUpperCase() ?? ''}${name.slice(1)}Backward0`;
  return { name, gradName, torch: `aten::${torch}`, forward };
}
