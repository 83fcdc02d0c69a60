/** @file The public surface does what programs written against it expect. */
import { describe, expect, it } from 'vitest';
import {
  add,
  argMax,
  concat,
  crossEntropy,
  keep,
  nn,
  optim,
  Parameter,
  randn,
  rpcName,
  scope,
  sparseCooTensor,
  stack,
  tensor,
  Tensor,
  zeros,
} from '../src/index.ts';
void [argMax, Parameter, randn, Tensor];

describe('the public surface', () => {
  it('trains a small model', () => {
    const model = new nn.Sequential(new nn.Linear(4, 8), new nn.Linear(8, 3));
    const opt = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
    const x = tensor([
      [1, 0, 0, 0],
      [0, 1, 0, 0],
      [0, 0, 1, 0],
    ]);
    const y = tensor([0, 1, 2], { dtype: 'int64' });
    let first = 0;
    let last = 0;
    for (let i = 0; i < 50; i++) {
      opt.zeroGrad();
      const loss = crossEntropy(model.forward(x), y);
      loss.backward();
      opt.step();
      if (i === 0) first = loss.item();
      last = loss.item();
    }
    expect(last).toBeLessThan(first / 4);
  });

  it('names operations for remote calls', () => {
    expect(add[rpcName]).toBe('aten::add');
    expect(nn.Linear[rpcName]).toBe('nn.Linear');
  });

  it('keeps what a scope returns or keeps', () => {
    let lost: Tensor | undefined;
    let kept: Tensor | undefined;
    const out = scope(() => {
      lost = zeros([2]);
      kept = keep(zeros([2]));
      return stack([concat([lost, kept]), concat([kept, lost])]);
    });
    expect(lost?.disposed).toBe(true);
    expect(kept?.disposed).toBe(false);
    expect(out.shape).toEqual([2, 4]);
    expect(
      sparseCooTensor(tensor([[0]]), tensor([1]), [2])
        .toDense()
        .toArray(),
    ).toEqual([1, 0]);
  });
});
