/** @file How the derivative of an operation is written: what it saves, and the gradients of its inputs. */
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';

type Backward<A> = (grad: Tensor, saved: Saved, attrs: A) => readonly (Tensor | null)[];

/** The derivative whose formula reads `save`: inputs by position, and the 'output'. It gives one gradient an input, null for those without. */
export function rule<A>(save: Derivative['save'], backward: Backward<A>): Derivative {
  return { save, backward };
}

/** The derivative of an operation that is linear: its formula reads nothing but the gradient. */
export function linear<A>(backward: Backward<A>): Derivative {
  return rule([], backward);
}

/** What a product of any kind saves: the operand that the other one's gradient is made of. */
export const crossed = (needs: readonly boolean[]): number[] => [
  ...(needs[1] === true ? [0] : []),
  ...(needs[0] === true ? [1] : []),
];
