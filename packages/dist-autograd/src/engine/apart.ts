/** @file Tensors of one message that share memory: each that gradients go back for gets its own. */
import { noGrad, type Tensor } from '@backwire/tensor';
import { spanOf, untracked } from '@backwire/tensor/internal';

/**
 * Gives each of these tensors, which came in one message and which no operation has seen, memory that none of the others has. In the graph
 * here each is a variable of its own: what is written in place to one of two views would be in the values of the other, and not in its
 * gradients.
 */
export function setApart(tensors: readonly Tensor[]): void {
  if (tensors.length < 2) return;
  const ends = new Map<object, number>();
  const spans = tensors.map((tensor) => ({ tensor, ...spanOf(tensor) }));
  for (const { tensor, from, end } of spans.sort((a, b) => a.from - b.from)) {
    if (from < (ends.get(tensor.storage) ?? 0)) moveOut(tensor);
    else ends.set(tensor.storage, end);
  }
}

function moveOut(tensor: Tensor): void {
  const copy = noGrad(() => untracked(() => tensor.clone()));
  tensor.become(copy);
  copy.release();
}
