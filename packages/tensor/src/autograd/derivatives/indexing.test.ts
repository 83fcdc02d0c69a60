/** @file Derivatives of what is written to one place. */
import { describe, expect, it } from 'vitest';
import { complex, grad, imag, real, stack, tensor, type Tensor } from '../../index.ts';

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

  it.each([
    [true, [1, 2, -3, 0.5]],
    [false, [1, 2, -3, 0.5]],
    [true, [0, 2, -3, 0.5]],
    [true, [0, 2, -3, 0]],
  ])(
    'of complex numbers, with what was there (%s), of %j are the products written out, and have their slopes',
    (includeSelf, reals) => {
      const parts = (values: readonly number[]): Tensor => {
        const made = complex(tensor([...values]), tensor(values.map((v) => (v === 0 ? 0 : v + 1))));
        made.requiresGrad = true;
        return made;
      };
      const [a, b, c, d] = [parts(reals), parts(reals), parts([3, 7]), parts([3, 7])] as const;
      const index = tensor([0, 1, 0, 0], { dtype: 'int64' });
      const found = c.scatterReduce(0, index, a, 'prod', { includeSelf });
      const factor = (at: number): Tensor => b.select(0, at);
      const firsts = includeSelf
        ? [factor(0).mul(d.select(0, 0)), factor(1).mul(d.select(0, 1))]
        : [factor(0), factor(1)];
      const places = [(firsts[0] as Tensor).mul(factor(2)).mul(factor(3)), firsts[1] as Tensor];
      const shown = (t: Tensor | null | undefined): number[] =>
        t === null || t === undefined ? [] : [...(real(t).toArray() as number[]), ...(imag(t).toArray() as number[])];
      expect(shown(found)).toEqual(shown(stack(places)));
      const weights = complex(tensor([2, -1]), tensor([0.5, 3]));
      real(found.mul(weights)).sum().backward();
      real(stack(places).mul(weights)).sum().backward();
      shown(b.grad).forEach((v, i) => expect(shown(a.grad)[i]).toBeCloseTo(v, 3));
      if (includeSelf) shown(d.grad).forEach((v, i) => expect(shown(c.grad)[i]).toBeCloseTo(v, 3));
      expect(shown(a.grad)).toHaveLength(8);
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
