/** @file Random numbers: the published vectors, one stream a seed, and the right distributions. */
import { describe, expect, it } from 'vitest';
import { imag, manualSeed, nn, rand, randint, randn, randperm, real } from './index.ts';
import { philox } from './random.ts';

describe('philox', () => {
  it('gives the known answers of Random123', () => {
    const out = new Uint32Array(4);
    philox(Uint32Array.of(0, 0, 0, 0), 0, 0, out);
    expect([...out]).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    const ones = 0xffffffff;
    philox(Uint32Array.of(ones, ones, ones, ones), ones, ones, out);
    expect([...out]).toEqual([0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
    philox(Uint32Array.of(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), 0xa4093822, 0x299f31d0, out);
    expect([...out]).toEqual([0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
  });
});

describe('random tensors', () => {
  it('repeat with the seed, on every backend', () => {
    manualSeed(42);
    const first = [rand([2]).toArray(), randn([3]).toArray(), randint(0, 10, [4]).toArray(), randperm(5).toArray()];
    manualSeed(42);
    expect([rand([2]).toArray(), randn([3]).toArray(), randint(0, 10, [4]).toArray(), randperm(5).toArray()]).toEqual(
      first,
    );
    manualSeed(42);
    // Fixed numbers: the stream may not change between versions or backends.
    expect(rand([4]).toArray()).toMatchInlineSnapshot(`
      [
        0.6129598617553711,
        0.4685865044593811,
        0.07323169708251953,
        0.3408614993095398,
      ]
    `);
    manualSeed(43);
    expect(rand([2]).toArray()).not.toEqual(first[0]);
  });

  it('start modules at the same weights', () => {
    manualSeed(1);
    const a = new nn.Linear(5, 5);
    manualSeed(1);
    const b = new nn.Linear(5, 5);
    expect(a.weight.equal(b.weight)).toBe(true);
  });

  it('have the moments of their distributions', () => {
    manualSeed(5);
    const u = rand([20_000]);
    const n = randn([20_000]);
    expect(u.mean().item()).toBeCloseTo(0.5, 1);
    expect(u.variance().item()).toBeCloseTo(1 / 12, 2);
    expect([u.amin().item() >= 0, u.amax().item() < 1]).toEqual([true, true]);
    expect(Math.abs(n.mean().item())).toBeLessThan(0.03);
    expect(n.std().item()).toBeCloseTo(1, 1);
    expect(Math.abs(n.pow(3).mean().item())).toBeLessThan(0.1);
    expect(randint(3, 6, [1000]).unique().values.toArray()).toEqual([3n, 4n, 5n]);
    expect([...(randperm(100).sort().values.toArray() as bigint[])]).toEqual(
      Array.from({ length: 100 }, (_, i) => BigInt(i)),
    );
  });

  it('are as fine as doubles where doubles are asked for', () => {
    manualSeed(1);
    for (const make of [rand, randn]) {
      const values = make([100_000], { dtype: 'float64' }).toArray() as number[];
      // Of 2^24 steps, some 300 would come twice.
      expect(new Set(values).size).toBe(100_000);
    }
    const u = rand([20_000], { dtype: 'float64' });
    expect([u.amin().item() >= 0, u.amax().item() < 1]).toEqual([true, true]);
    expect(u.variance().item()).toBeCloseTo(1 / 12, 2);
  });

  it('are whole numbers from all that there are', () => {
    manualSeed(1);
    const most = Number.MAX_SAFE_INTEGER;
    const values = randint(-most, most, [2000]).toArray() as bigint[];
    const below = values.filter((v) => v < 0n).length;
    expect([below > 850, below < 1150]).toEqual([true, true]);
    const odd = values.filter((v) => v % 2n !== 0n).length;
    expect([odd > 850, odd < 1150]).toEqual([true, true]);
    expect(values.every((v) => v >= -BigInt(most) && v < BigInt(most))).toBe(true);
  });

  it('have the dtype asked for', () => {
    manualSeed(3);
    expect(randint(-2, 3, [50], { dtype: 'int8' }).dtype).toBe('int8');
    const z = randn([20_000], { dtype: 'complex64' });
    expect(z.dtype as string).toBe('complex64');
    // Of both parts together.
    expect(z.variance().item()).toBeCloseTo(1, 1);
    expect(real(z).variance().item()).toBeCloseTo(0.5, 1);
    expect(z.mean().abs().item()).toBeLessThan(0.02);
    const u = rand([1000], { dtype: 'complex64' });
    expect([real(u).amin().item() >= 0, imag(u).amax().item() < 1, u.variance().item() < 0.2]).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('refuse what they cannot make', () => {
    expect(() => rand([2], { dtype: 'int32' })).toThrow(
      'rand() makes no tensors of int32: it makes float16, bfloat16,',
    );
    expect(() => randint(0, 300, [1], { dtype: 'uint8' })).toThrow('value 299 cannot be converted to type uint8');
    expect(() => randint(3, 3, [1])).toThrow(/low < high/);
    expect(() => manualSeed(1.5)).toThrow(/safe integer/);
  });
});
