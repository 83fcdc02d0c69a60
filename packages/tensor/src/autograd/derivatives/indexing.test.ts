/** @file Second derivatives of what is written to one place. */
import { describe, expect, it } from 'vitest';
import { grad, tensor, type Tensor } from '../../index.ts';

/** The factors of two places: those at even positions belong to the first. */
const FACTORS = [
  [2, 3, 5, 7],
  [0, 3, 5, 7],
  [0, 3, 0, 7],
  [0, 0, 5, 0],
  [0, 0, 0, 0],
  [2, 0, 0, 0, 0, 7],
  [0, 3, 0, 5, 0, 7],
];

/** The slopes of slopes in `t`. */
function second(results: readonly Tensor[], of: readonly Tensor[], t: Tensor): number[] {
  const slopes = grad([...results], [...of], { createGraph: true }) as Tensor[];
  const sum = slopes.map((one) => one.mul(tensor([1, -2, 3, -4, 5, -6]).narrow(0, 0, one.size)).sum());
  const [found] = grad(sum, [t], { allowUnused: true });
  return (found?.toArray() ?? []) as number[];
}

describe('scatterReduce of products', () => {
  it.each(FACTORS.flatMap((factors) => [1, 0].map((own) => [own, factors] as const)))(
    'from %j by %j has the second derivatives of the products written out',
    (own, factors) => {
      const start = tensor([own, 2], { requiresGrad: true });
      const source = tensor([...factors], { requiresGrad: true });
      const index = tensor(
        factors.map((_, i) => i % 2),
        { dtype: 'int64' },
      );
      const place = (at: number): Tensor =>
        factors.reduce<Tensor>(
          (product, _, i) => (i % 2 === at ? product.mul(source.select(0, i)) : product),
          start.select(0, at),
        );
      for (const t of [source, start]) {
        const found = second([start.scatterReduce(0, index, source, 'prod').sum()], [source, start], t);
        second([place(0), place(1)], [source, start], t).forEach((v, i) => expect(found[i]).toBeCloseTo(v, 4));
      }
    },
  );

  it.each([[NaN], [Infinity], [-Infinity]])('of zeros beside %d have the slopes of the products written out', (odd) => {
    for (const factors of [
      [0, odd],
      [-0, odd, -0],
      [odd, 0, 3, 0, 0],
    ]) {
      const [a, b] = [0, 1].map(() => tensor([...factors], { requiresGrad: true })) as [Tensor, Tensor];
      const index = tensor(
        factors.map(() => 0),
        { dtype: 'int64' },
      );
      tensor([1]).scatterReduce(0, index, a, 'prod', { includeSelf: false }).sum().backward();
      factors.reduce<Tensor>((product, _, i) => product.mul(b.select(0, i)), tensor(1)).backward();
      const ofZeros = (t: Tensor): number[] =>
        (t.grad?.toArray() as number[]).filter((_, i) => factors[i] === 0).map((v) => v + 0);
      expect(ofZeros(a)).toEqual(ofZeros(b));
    }
  });
});
