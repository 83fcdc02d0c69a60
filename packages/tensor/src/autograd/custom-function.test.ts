/** @file Functions with a derivative of their own, and functions of TensorFlow.js. */
import { describe, expect, it } from 'vitest';
import { customFunction, grad, lift, ones, tensor, zeros, type Tensor } from '../index.ts';

const leaf = (values: number | number[] | number[][]): Tensor => tensor(values, { requiresGrad: true });

describe('customFunction', () => {
  const square = customFunction({
    forward: (ctx, x) => {
      ctx.saveForBackward(x);
      return x.mul(x);
    },
    backward: (ctx, g) => [g.mul(ctx.saved[0] as Tensor).mul(2)],
  });

  it('uses its own derivative, twice too', () => {
    const x = leaf([3]);
    const [g] = grad([square(x).sum()], [x], { createGraph: true });
    expect(grad([(g as Tensor).sum()], [x])[0]?.toArray()).toEqual([2]);
  });

  it('refuses gradients of shapes that its inputs do not broadcast to, also of as many elements', () => {
    const gives = (...shape: number[]): ReturnType<typeof customFunction> =>
      customFunction({ forward: (_c, x) => x.mul(2), backward: () => [ones(shape)] });
    for (const [shape, text] of [
      [[3, 2], '[3, 2]'],
      [[6], '[6]'],
      [[4, 3], '[4, 3]'],
      [[3], '[3]'],
    ] as const) {
      const x = zeros([2, 3], { requiresGrad: true });
      expect(() =>
        gives(...shape)(x)
          .sum()
          .backward(),
      ).toThrow(
        `Function CustomFunctionBackward returned an invalid gradient at index 0 - got ${text} but expected shape compatible with [2, 3]`,
      );
      expect(x.grad).toBeNull();
    }
    const row = zeros([1, 3], { requiresGrad: true });
    gives(4, 2, 3)(row).sum().backward();
    expect(row.grad?.toArray()).toEqual([[8, 8, 8]]);
  });

  it('says what it takes in place of what it got', () => {
    const none = customFunction({ forward: (_c, x) => x.mul(2), backward: (() => undefined) as never });
    const wrong = customFunction({ forward: (_c, x) => x.mul(2), backward: (() => [3]) as never });
    const later = customFunction({ forward: (async (_c: unknown, x: Tensor) => x) as never, backward: () => [null] });
    const x = leaf([1]);
    expect(() => none(x).backward()).toThrow(
      'backward gives a list of tensors, null for none, and at once; got undefined',
    );
    expect(() => wrong(x).backward()).toThrow('and at once; got a list with 3');
    expect(() => later(x)).toThrow('customFunction: forward gives a tensor, and at once; got a Promise: await it');
  });

  it('may keep what it is given', () => {
    const kept: Tensor[] = [];
    const f = customFunction({
      forward: (ctx, x) => {
        ctx.saveForBackward(x);
        return x.mul(2);
      },
      backward: (ctx, g) => {
        kept.push(g, ...ctx.saved);
        return [g];
      },
    });
    f(leaf([1, 2]))
      .mul(3)
      .sum()
      .backward();
    expect(kept.map((t) => t.toArray())).toEqual([
      [3, 3],
      [1, 2],
    ]);
  });

  it('refuses changes in place of a view of its input, and its use after the input has changed', () => {
    const same = customFunction({ forward: (_c, x) => x, backward: (_c, g) => [g.mul(10)] });
    const part = customFunction({
      forward: (_c, x) => x.narrow(0, 0, 1),
      backward: (_c, g) => [g.mul(10).expand([2])],
    });
    for (const fn of [same, part]) {
      const x = leaf([1, 2]).mul(1);
      expect(() => fn(x).mul_(2)).toThrow(/This view was created inside a custom Function/);
      const y = fn(x);
      x.add_(1);
      expect(() => y.sum().backward()).toThrow(/its base or another view of its base has been modified inplace/);
    }
    const [x, fresh] = [
      leaf([1, 2]),
      customFunction({ forward: (_c, t) => t.mul(2).narrow(0, 0, 1), backward: (_c, g) => [g.expand([2])] }),
    ];
    fresh(x).mul_(3).sum().backward();
    expect(x.grad?.toArray()).toEqual([3, 3]);
  });

  it('checks the number and the state of what it saved', () => {
    const wrong = customFunction({ forward: (_c, a) => a, backward: () => [] });
    expect(() => wrong(leaf([1])).backward()).toThrow(/incorrect number of gradients/);
    const y = square(leaf([1]));
    y.backward();
    expect(() => y.backward()).toThrow(/a second time/);
  });
});

describe('lift', () => {
  it('differentiates TensorFlow.js code', async () => {
    const tf = await import('@tensorflow/tfjs-core');
    const f = lift((a, b) => tf.sum(tf.mul(tf.tanh(tf.matMul(a as never, b as never)), 2)));
    const a = leaf([
      [0.1, 0.2],
      [0.3, 0.4],
    ]);
    const b = leaf([[0.5], [0.6]]);
    const direct = a.matmul(b).tanh().mul(2).sum();
    const lifted = f(a, b);
    expect(lifted.item()).toBeCloseTo(direct.item(), 5);
    const wanted = grad([direct], [a, b]);
    const got = grad([lifted], [a, b]);
    got.forEach((g, i) => expect(g?.allClose(wanted[i] as Tensor, { rtol: 1e-5, atol: 1e-6 })).toBe(true));
  });

  it('leaves no TensorFlow.js tensor behind', async () => {
    const tf = await import('@tensorflow/tfjs-core');
    const f = lift((x) => tf.square(x as never));
    const x = leaf([1, 2]);
    const before = tf.memory().numTensors;
    f(x).sum().backward();
    expect(tf.memory().numTensors).toBe(before);
    expect(x.grad?.toArray()).toEqual([2, 4]);
  });
});
