/** @file Changes in place of an expanded tensor, several elements of which are one place in memory. */
import { describe, expect, it } from 'vitest';
import { grad, nn, noGrad, ones, ShapeError, tensor, Tensor, zeros } from '../index.ts';

const column = (): Tensor => tensor([[1], [2], [3]]);
const wide = (t = column()): Tensor => t.expand([3, 4]);

const other = ones([3, 4]);
const ids = tensor([0, 1], { dtype: 'int64' });
const places = zeros([1, 4], { dtype: 'int64' });

/** What methods that change a tensor are called with, beside it. */
const ARGS: Readonly<Record<string, readonly unknown[]>> = {
  ...Object.fromEntries(
    ['add_', 'sub_', 'mul_', 'div_', 'pow_', 'copy_'].map((name): [string, unknown[]] => [name, [other]]),
  ),
  addcdiv_: [other, other],
  addcmul_: [other, other],
  clamp_: [0, 1],
  fill_: [5],
  indexAdd_: [0, ids, ones([2, 4])],
  indexCopy_: [0, ids, ones([2, 4])],
  indexFill_: [0, ids, 5],
  indexPut_: [[ids], 5],
  lerp_: [other, 0.5],
  maskedFill_: [other.gt(0), 5],
  scatter_: [0, places, other],
  scatterAdd_: [0, places, other],
  scatterReduce_: [0, places, other, 'sum'],
};

/** One value is the same at all places, in whatever order they are written. */
const WRITE_ONE = ['fill_', 'zero_'];
const names = Object.getOwnPropertyNames(Tensor.prototype).filter((name) => name.endsWith('_'));

function call(t: Tensor, name: string): unknown {
  return (t as unknown as Record<string, (...args: readonly unknown[]) => unknown>)[name]?.(...(ARGS[name] ?? []));
}

describe('of a tensor that is expanded', () => {
  it.each(names.filter((name) => !WRITE_ONE.includes(name)))('%s is refused, and changes nothing', (name) => {
    for (const make of [column, () => column().mul(1)]) {
      const base = make();
      let error: unknown;
      try {
        call(wide(base), name);
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toBeInstanceOf(ShapeError);
      expect(String(error)).toMatch(/refers to a single memory location. Please clone\(\) the tensor before/);
      expect(base.toArray()).toEqual([[1], [2], [3]]);
    }
    // The way out that the message names.
    expect(() => call(wide().clone(), name)).not.toThrow();
  });

  it.each(WRITE_ONE)('%s is not: it has one value for all places', (name) => {
    const base = column();
    call(wide(base), name);
    const v = name === 'fill_' ? 5 : 0;
    expect(base.toArray()).toEqual([[v], [v], [v]]);
  });

  it('part of an index is refused, too', () => {
    for (const items of [[0], [0, ids], [wide().gt(1)]] as const)
      expect(() => wide().indexPut_([...items], 5)).toThrow(/single memory location/);
  });

  it.each(['uniform_', 'normal_', 'eye_', 'truncNormal_', 'xavierUniform_', 'orthogonal_'] as const)(
    'nn.init.%s is refused',
    (name) => {
      expect(() => nn.init[name](wide())).toThrow(/single memory location/);
    },
  );

  it('copies of itself, whatever names it, change nothing', () => {
    for (const same of [
      (t: Tensor) => t,
      (t: Tensor) => t.detach(),
      (t: Tensor) => t.alias(),
      (t: Tensor) => t.transpose(0, 1).transpose(0, 1),
    ]) {
      const base = column();
      const t = wide(base);
      expect(t.copy_(same(t))).toBe(t);
      expect(base.toArray()).toEqual([[1], [2], [3]]);
    }
    const [t] = [wide()];
    expect(() => t.copy_(wide(column()))).toThrow(/single memory location/);
    expect(() => noGrad(() => t.copy_(t.clone()))).toThrow(/single memory location/);
  });

  it.each<[name: string, change: (t: Tensor) => unknown, slope: number]>([
    ['a copy of itself is that of what it is', (t) => t.copy_(t), 4],
    ['a copy of another view of the same is that of what it is', (t) => t.copy_(t.alias()), 4],
    ['a copy without its history is none', (t) => t.copy_(t.detach()), 0],
    ['fill_ is none', (t) => t.fill_(2), 0],
    ['zero_ is none', (t) => t.zero_(), 0],
  ])('the gradient of %s', (_, change, slope) => {
    const x = tensor([[1], [2], [3]], { requiresGrad: true });
    const base = x.mul(1);
    const t = wide(base);
    change(t);
    const slopes = (of: Tensor): unknown => grad([of.sum()], [x], { retainGraph: true })[0]?.toArray();
    expect(slopes(t)).toEqual([[slope], [slope], [slope]]);
    // The base has the history of its view.
    expect(slopes(base)).toEqual([[slope / 4], [slope / 4], [slope / 4]]);
  });
});
