import { tensor, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { Inputs } from './ordered-sum.ts';

/** In numbers whose sum depends on its order. */
const VALUES = [1e8, 3, -1e8, 0.25];

describe('the inputs of a function', () => {
  it('have the same sum in whatever order it comes, hold what is early, and that no longer than it is', () => {
    const orders = [0, 1, 2, 3].flatMap((a) => [0, 1, 2, 3].filter((b) => b !== a).map((b) => [a, b]));
    for (const [a, b] of orders as [number, number][]) {
      const inputs = new Inputs();
      const ranks = VALUES.map(() => inputs.expect(1));
      const order = [a, b, ...ranks.filter((rank) => rank !== a && rank !== b)];
      const [given, last]: [Set<number>, boolean[]] = [new Set(), []];
      for (const rank of order) {
        last.push(inputs.add(1, rank, tensor([VALUES[rank] as number])));
        given.add(rank);
        const summed = ranks.findIndex((each) => !given.has(each));
        const early = [...given].filter((each) => summed >= 0 && each > summed).length;
        expect([...inputs.tensors()], order.join()).toHaveLength(early + (summed === 0 ? 0 : 1));
      }
      expect(last).toEqual([false, false, false, true]);
      const sum = Math.fround(Math.fround(Math.fround(1e8 + 3) - 1e8) + 0.25);
      expect(inputs.grads(2).map((grad: Tensor | null) => grad?.toArray())).toEqual([undefined, [sum]]);
    }
  });

  it('may be none: what is null is no gradient, and no hole either', () => {
    const inputs = new Inputs();
    const [first, second] = [inputs.expect(0), inputs.expect(0)];
    expect([inputs.add(0, second, tensor([2])), inputs.add(0, first, null)]).toEqual([false, true]);
    expect(inputs.grads(1)[0]?.toArray()).toEqual([2]);
    expect([...inputs.tensors()]).toHaveLength(1);
  });
});
