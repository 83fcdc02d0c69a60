/** @file Gradients of slices large enough for a kernel: written into zeros where the slice lies, and differentiable again. */
import { expect, it } from 'vitest';
import { grad, manualSeed, randn, type Tensor } from '../index.ts';

const SHAPE = [8, 16, 3, 4, 32] as const;

it.each<[string, (x: Tensor) => Tensor]>([
  ['one place of an inner dimension', (x) => x.select(2, 1)],
  ['one place of the last', (x) => x.select(-1, 5)],
  ['every third', (x) => x.slice(1, 2, undefined, 3)],
  ['a part of the first', (x) => x.narrow(0, 3, 4)],
  ['a slice that is turned', (x) => x.select(2, 2).transpose(1, 2)],
])('%s', (_name, view) => {
  manualSeed(1);
  const x = randn(SHAPE, { requiresGrad: true });
  const w = randn(view(x.detach()).shape, { requiresGrad: true });
  const [g] = grad([view(x).mul(w).sum()], [x], { createGraph: true }) as [Tensor];
  // The factors stand where the slice lies, and there is nothing else.
  expect(view(g.detach()).sub(w.detach()).abs().amax().item()).toBe(0);
  const size = Number(w.detach().abs().to('float64').sum().item());
  expect(Number(g.detach().abs().to('float64').sum().item())).toBeCloseTo(size, 6);
  // Their own gradient finds the way back.
  const v = randn(SHAPE);
  const [again] = grad([g.mul(v).sum()], [w]) as [Tensor];
  expect(again.sub(view(v)).abs().amax().item()).toBe(0);
});
