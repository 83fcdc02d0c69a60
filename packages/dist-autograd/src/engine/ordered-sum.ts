/** @file What waits for a function: gradients summed in a fixed order, whenever they arrive. */
import type { Tensor } from '@backwire/tensor';
import { addToHeld } from '@backwire/tensor/internal';

/**
 * One input of a function. Contributions have ranks; the prefix of those that have come is summed, what is early is held, so the
 * sum has the same bits on every run.
 */
class OrderedSum {
  sum: Tensor | null = null;
  private next = 0;
  private early: Map<number, Tensor | null> | undefined;

  add(rank: number, value: Tensor | null): void {
    if (rank !== this.next) {
      (this.early ??= new Map()).set(rank, value);
      return;
    }
    this.take(value);
    while (this.early?.has(this.next) === true) {
      const held = this.early.get(this.next) ?? null;
      this.early.delete(this.next);
      this.take(held);
    }
  }

  *tensors(): Generator<Tensor> {
    if (this.sum !== null) yield this.sum;
    for (const held of this.early?.values() ?? []) if (held !== null) yield held;
  }

  private take(value: Tensor | null): void {
    this.next++;
    if (value !== null) this.sum = this.sum === null ? value : addToHeld(this.sum, value);
  }
}

/** All inputs of one function, and how many edges into it have not been used yet. */
export class Inputs {
  private readonly sums: (OrderedSum | undefined)[] = [];
  private readonly ranks: number[] = [];
  private waiting = 0;

  /** Announces one more contribution to input `index`; returns its rank. */
  expect(index: number): number {
    const rank = this.ranks[index] ?? 0;
    this.ranks[index] = rank + 1;
    this.waiting++;
    return rank;
  }

  /** Delivers a contribution, none if null; true when it was the last one. */
  add(index: number, rank: number, value: Tensor | null): boolean {
    (this.sums[index] ??= new OrderedSum()).add(rank, value);
    return --this.waiting === 0;
  }

  /** The gradients, once complete. */
  grads(count: number): (Tensor | null)[] {
    const grads: (Tensor | null)[] = [];
    for (let i = 0; i < count; i++) grads.push(this.sums[i]?.sum ?? null);
    return grads;
  }

  /** What is held so far. */
  *tensors(): Generator<Tensor> {
    for (const sum of this.sums) if (sum !== undefined) yield* sum.tensors();
  }
}
