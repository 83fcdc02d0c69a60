/** @file Norms and clipping of gradients of several dtypes and layouts. */
import { expect, it } from 'vitest';
import { nn, optim, sparseCooTensor, tensor, type Tensor } from '../index.ts';

function withGradient(grad: Tensor): Tensor {
  const p = tensor(new Array(grad.size).fill(0) as number[], { dtype: grad.dtype as 'float32', requiresGrad: true });
  p.grad = grad;
  return p;
}

it('measures doubles as doubles, also beside others', () => {
  const doubles = tensor([1e-3, 1 / 3], { dtype: 'float64' });
  expect(nn.utils.getTotalNorm([doubles]).item()).toBe(Math.sqrt(1e-6 + 1 / 9));
  const both = nn.utils.getTotalNorm([doubles, tensor([1 / 4])]);
  expect([both.dtype, both.item()]).toEqual(['float64', Math.sqrt(1e-6 + 1 / 9 + 1 / 16)]);
  expect(nn.utils.getTotalNorm([tensor([3, 4], { dtype: 'bfloat16' })]).dtype).toBe('float32');
});

it('scales doubles by a factor of their precision, and others by one of theirs', () => {
  const [wide, single] = [
    [1, 2],
    [1, 2],
  ].map((values, i) => withGradient(tensor(values, { dtype: i === 0 ? 'float64' : 'float32' }))) as [Tensor, Tensor];
  nn.utils.clipGradNorm_([wide], 1);
  const factor = 1 / (Math.sqrt(5) + 1e-6);
  expect(wide.grad?.toArray()).toEqual([factor, 2 * factor]);
  nn.utils.clipGradNorm_([single], 1);
  const rounded = Math.fround(1 / Math.fround(Math.fround(Math.sqrt(5)) + 1e-6));
  expect(single.grad?.toArray()).toEqual([rounded, 2 * rounded]);
});

it('clamps what a sparse gradient adds up to, wherever it names a place twice', () => {
  const sparse = sparseCooTensor(tensor([[1, 1, 0]], { dtype: 'int64' }), tensor([3, 3, -7]), [3]);
  const p = withGradient(sparse);
  nn.utils.clipGradValue_(p, 4);
  expect(p.grad?.toDense().toArray()).toEqual([-4, 4, 0]);
});

it('gives a leaf that was frozen since it was used no gradient, and steps it not', () => {
  const [frozen, trained] = [tensor([1], { requiresGrad: true }), tensor([2], { requiresGrad: true })];
  const loss = frozen.mul(trained).sum();
  frozen.requiresGrad = false;
  loss.backward();
  expect([frozen.grad, trained.grad?.toArray()]).toEqual([null, [1]]);
  new optim.SGD([frozen, trained], { lr: 1 }).step();
  expect([frozen.toArray(), trained.toArray()]).toEqual([[1], [1]]);
});

it.each<[string, (p: Tensor) => unknown]>([
  ['clipGradNorm_(): maxNorm is a number, got undefined', (p) => nn.utils.clipGradNorm_(p, undefined as never)],
  [
    "getTotalNorm(): normType is a number, got the text 'inf'",
    (p) => nn.utils.clipGradNorm_(p, 1, { normType: 'inf' as never }),
  ],
  [
    "clipGradsWithNorm_(): maxNorm is a number, got the text '1'",
    (p) => nn.utils.clipGradsWithNorm_([p.grad!], '1' as never, 5),
  ],
  ['clipGradValue_(): clipValue is a number, got undefined', (p) => nn.utils.clipGradValue_(p, undefined as never)],
])('refuses what is no number and leaves the gradients as they are: %s', (text, clip) => {
  const p = withGradient(tensor([3, 4]));
  expect(() => clip(p)).toThrow(text);
  expect(p.grad?.toArray()).toEqual([3, 4]);
});
