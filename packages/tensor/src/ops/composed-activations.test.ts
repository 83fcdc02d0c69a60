/** @file Activations that are made of others, held against PyTorch's values. */
import { expect, it } from 'vitest';
import { celu, tensor } from '../index.ts';

it.each([
  // torch.nn.functional.celu(x, alpha), and its slopes.
  [-0.5, [-26.799076, -0.8591409, 0, 2], [54.598148, 2.7182817, 1, 1]],
  [-2, [-3.4365635, -0.5680509, 0, 2], [2.7182817, 1.2840254, 1, 1]],
  [1, [-0.8646647, -0.3934693, 0, 2], [0.1353353, 0.6065307, 1, 1]],
])('celu with an alpha of %d is its formula on both sides of zero', (alpha, values, slopes) => {
  const x = tensor([-2, -0.5, 0, 2], { requiresGrad: true });
  const y = celu(x, alpha);
  y.sum().backward();
  const near = (wanted: number[]): unknown[] => wanted.map((v): unknown => expect.closeTo(v, 4));
  expect(y.toArray()).toEqual(near(values));
  expect(x.grad?.toArray()).toEqual(near(slopes));
});
