/** @file where and its kin on operands large enough for a kernel: every way to broadcast, and gradients, against the plain loop. */
import { expect, it } from 'vitest';
import { manualSeed, randn, tensor, where, type Tensor } from '../index.ts';

const SHAPE = [3, 4, 16, 33] as const;
const SIZE = 3 * 4 * 16 * 33;

function operands(): { x: Tensor; y: Tensor } {
  manualSeed(1);
  const x = randn(SHAPE);
  const values = x.dataSync();
  values.set([NaN, Infinity, -Infinity, -0]);
  return { x: tensor(values, { shape: SHAPE, requiresGrad: true }), y: randn(SHAPE, { requiresGrad: true }) };
}

it.each([[[16, 33]], [[1, 33]], [[3, 4, 16, 33]], [[3, 1, 16, 33]], [[4, 16, 33]], [[16, 1]], [[1]]])(
  'a condition %j',
  (own) => {
    const { x, y } = operands();
    const condition = randn(own).gt(0);
    const wide = condition.expand(SHAPE).contiguous().dataSync() as Uint8Array;
    const [p, q] = [x.detach().dataSync(), y.detach().dataSync()] as [Float32Array, Float32Array];
    const pick = (a: (i: number) => number, b: (i: number) => number): number[] =>
      Array.from({ length: SIZE }, (_, i) => (wide[i] === 0 ? b(i) : a(i)));
    const out = where(condition, x, y);
    expect([...(out.detach().dataSync() as Float32Array)]).toEqual(
      pick(
        (i) => p[i] as number,
        (i) => q[i] as number,
      ),
    );
    out.sum().backward();
    expect([...(x.grad?.dataSync() as Float32Array)]).toEqual(
      pick(
        () => 1,
        () => 0,
      ),
    );
    expect([...(y.grad?.dataSync() as Float32Array)]).toEqual(
      pick(
        () => 0,
        () => 1,
      ),
    );
    const filled = x.detach().maskedFill(condition, -Infinity);
    expect([...(filled.dataSync() as Float32Array)]).toEqual(
      pick(
        () => -Infinity,
        (i) => p[i] as number,
      ),
    );
  },
);
