/** @file Changes in place: of leaves, saved values and views, and what they do to the history. */
import { describe, expect, it } from 'vitest';
import { noGrad, ones, tensor, zeros, type Tensor } from '../index.ts';

const leaf = (values: number | number[] | number[][]): Tensor => tensor(values, { requiresGrad: true });

describe('in-place changes', () => {
  it('of a leaf throw, unless nothing is recorded', () => {
    const x = leaf([1, 2]);
    expect(() => x.add_(1)).toThrow('a leaf Variable that requires grad is being used in an in-place operation.');
    expect(() => x.select(0, 0).add_(1)).toThrow(
      'a view of a leaf Variable that requires grad is being used in an in-place operation.',
    );
    noGrad(() => x.add_(1));
    expect(x.toArray()).toEqual([2, 3]);
  });

  it('of a saved value are noticed, also through a view or in noGrad', () => {
    for (const change of [
      (t: Tensor) => t.add_(1),
      (t: Tensor) => t.select(0, 0).add_(1),
      (t: Tensor) => noGrad(() => t.zero_()),
    ]) {
      const y = leaf([1, 2]).mul(1);
      const z = y.mul(y).sum();
      change(y);
      expect(() => z.backward()).toThrow(
        /one of the variables needed for gradient computation has been modified by an inplace operation/,
      );
    }
  });

  it('of values that were not saved are fine', () => {
    const x = leaf([1, 2]);
    const y = x.add(1);
    y.mul_(3);
    y.sum().backward();
    expect(x.grad?.toArray()).toEqual([3, 3]);
  });

  it('through a view change the history of the base, and of its other views', () => {
    const x = leaf([1, 2, 3]);
    const base = x.mul(1);
    const [head, tail] = [base.narrow(0, 0, 2), base.narrow(0, 1, 2)];
    head.mul_(10);
    expect(base.gradFn?.name).toBe('CopySlices');
    expect(tail.gradFn?.name).toBe('AsStridedBackward0');
    tail.sum().backward();
    expect(x.grad?.toArray()).toEqual([0, 10, 1]);
  });

  it('of a tensor that required nothing make it part of the graph', () => {
    const w = leaf([5]);
    const x = zeros([2, 2]);
    x.select(0, 1).copy_(w);
    expect(x.requiresGrad).toBe(true);
    x.mul(
      tensor([
        [1, 2],
        [3, 4],
      ]),
    )
      .sum()
      .backward();
    expect(w.grad?.toArray()).toEqual([7]);
  });

  it('of views made in noGrad throw', () => {
    const base = leaf([1, 2]).mul(1);
    const view = noGrad(() => base.select(0, 0));
    expect(() => view.add_(1)).toThrow(/A view was created in no_grad mode/);
  });

  it('of memory that several elements share throw', () => {
    expect(() => ones([1]).expand([3]).add_(1)).toThrow(/more than one element of the written-to tensor/);
  });

  it('of memory that the operand lies in: the same elements are fine, a part of them is not', () => {
    const t = tensor([1, 2, 3, 4]);
    const says = /some elements of the input tensor and the written-to tensor refer to a single memory location/;
    expect(() => t.narrow(0, 1, 3).copy_(t.narrow(0, 0, 3))).toThrow(says);
    expect(() => t.add_(t.select(0, 0).expand([4]))).not.toThrow();
    expect(t.mul_(t).toArray()).toEqual([4, 9, 16, 25]);
    expect(
      t
        .slice(0, 0, 4, 2)
        .copy_(t.slice(0, 1, 4, 2))
        .toArray(),
    ).toEqual([9, 25]);
  });

  it('must keep shape and kind', () => {
    expect(() => zeros([2]).add_(ones([3, 2]))).toThrow(/doesn't match the broadcast shape/);
    expect(() => zeros([2], { dtype: 'int32' }).add_(0.5)).toThrow(/can't be cast/);
  });
});
