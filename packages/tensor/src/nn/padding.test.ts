/** @file Padding and the dropout of whole channels as modules. */
import { describe, expect, it } from 'vitest';
import { arange, manualSeed, nn, ones, tensor, type Tensor } from '../index.ts';

const image = (): Tensor => tensor([[[1, 2, 3], [4, 5, 6]]]); // prettier-ignore

describe('padding', () => {
  it.each([
    [new nn.ConstantPad2d([1, 0, 0, 1], 9), [[9, 1, 2, 3], [9, 4, 5, 6], [9, 9, 9, 9]]], // prettier-ignore
    [new nn.ZeroPad2d([-1, 0, 1, 0]), [[0, 0], [2, 3], [5, 6]]], // prettier-ignore
    [new nn.ReflectionPad2d([2, 0, 0, 1]), [[3, 2, 1, 2, 3], [6, 5, 4, 5, 6], [3, 2, 1, 2, 3]]], // prettier-ignore
    [new nn.ReplicationPad2d(1), [[1, 1, 2, 3, 3], [1, 1, 2, 3, 3], [4, 4, 5, 6, 6], [4, 4, 5, 6, 6]]], // prettier-ignore
    [new nn.CircularPad2d([1, 0, 0, 1]), [[3, 1, 2, 3], [6, 4, 5, 6], [3, 1, 2, 3]]], // prettier-ignore
    // What is cropped at one end does not come in at the other.
    [new nn.CircularPad2d([-1, 1, 0, 0]), [[2, 3, 2], [5, 6, 5]]], // prettier-ignore
    [new nn.ReflectionPad1d(1), [[2, 1, 2, 3, 2], [5, 4, 5, 6, 5]]], // prettier-ignore
  ] as const)('%s', (layer, expected) => {
    expect(layer.forward(image()).toArray()).toEqual([expected]);
  });

  it('of three dimensions, with its gradient', () => {
    const x = arange(8).float().reshape([1, 2, 2, 2]);
    x.requiresGrad = true;
    const out = new nn.ReplicationPad3d([0, 1, 0, 0, 1, 0]).forward(x);
    out.sum().backward();
    expect(out.toArray()).toEqual([
      [[[0, 1, 1], [2, 3, 3]], [[0, 1, 1], [2, 3, 3]], [[4, 5, 5], [6, 7, 7]]], // prettier-ignore
    ]);
    expect(x.grad?.toArray()).toEqual([[[[2, 4], [2, 4]], [[1, 2], [1, 2]]]]); // prettier-ignore
  });

  it('is refused where it is none, or nothing is left', () => {
    expect(() => new nn.ZeroPad2d([1, 2])).toThrow('ZeroPad2d takes a whole number or 4 of them, but got [1, 2]');
    expect(() => new nn.ReflectionPad1d(0.5)).toThrow('but got [0.5, 0.5]');
    expect(() => new nn.ReflectionPad2d(3).forward(image())).toThrow('padding size should be at most 2');
    expect(() => new nn.CircularPad1d([-2, 1]).forward(ones([1, 2]))).toThrow('leaves nothing of a dimension of 2');
    expect(() => new nn.ReplicationPad2d(1).forward(ones([2]))).toThrow("mode 'replicate' takes 2, 4 or 6 numbers");
  });

  it('is printed with its sizes and its number', () => {
    expect(String(new nn.ConstantPad1d(2, 0.5))).toBe('ConstantPad1d(padding: [2, 2], value: 0.5)');
    expect(String(new nn.CircularPad1d([1, 2]))).toBe('CircularPad1d(padding: [1, 2])');
  });
});

describe('dropout of channels', () => {
  it.each([
    [new nn.Dropout1d(0.25), [64, 16, 3], 2],
    [new nn.Dropout1d(0.25), [1024, 3], 1],
    [new nn.Dropout2d(0.25), [64, 16, 2, 3], 2],
    [new nn.Dropout2d(0.25), [64, 16, 3], 2],
    [new nn.Dropout3d(0.25), [64, 16, 2, 1, 3], 2],
    [new nn.Dropout3d(0.25), [1024, 2, 1, 3], 1],
  ] as const)('%s of %j drops whole ones and scales the others', (layer, shape, channels) => {
    manualSeed(3);
    const x = ones([...shape], { requiresGrad: true });
    const out = layer.forward(x);
    out.sum().backward();
    expect(x.grad?.equal(out)).toBe(true);
    const count = shape.slice(0, channels).reduce((a: number, b) => a * b, 1);
    const rows = out.detach().reshape([count, -1]).toArray() as number[][];
    for (const row of rows) expect(new Set(row).size).toBe(1);
    const kept = rows.filter(([first]) => first !== 0);
    for (const [first] of kept) expect(first).toBeCloseTo(4 / 3, 6);
    // 768 of 1024 are expected, give or take 14.
    expect(Math.abs(kept.length - 768)).toBeLessThan(60);
    layer.eval();
    expect(layer.forward(x).equal(x)).toBe(true);
    layer.train();
  });

  it('refuses what is no image of its size', () => {
    expect(() => new nn.Dropout2d().forward(ones([2, 3]))).toThrow('Dropout2d takes 3 or 4 dimensions, got [2, 3]');
    expect(() => new nn.Dropout1d(1.5)).toThrow('dropout probability has to be between 0 and 1, but got 1.5');
  });
});
