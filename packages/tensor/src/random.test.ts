/** @file Random numbers: the published vectors, one stream a seed, and the right distributions. */
import { describe, expect, it } from 'vitest';
import { bernoulli, imag, manualSeed, nn, ones, rand, randint, randn, randperm, real } from './index.ts';
import { Generator, philox } from './random.ts';

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

describe('chances', () => {
  /** Words in place of random ones. */
  class Given extends Generator {
    private readonly words: number[];
    constructor(...words: number[]) {
      super(0);
      this.words = words;
    }
    override next(): number {
      return this.words.shift() as number;
    }
  }
  const half = 2 ** 31;

  it.each([
    [1e-9, [0, half, 0], false],
    [1e-9, [0, 2 ** 24, 0], true],
    [1e-9, [256], false],
    [1 - 1e-9, [2 ** 32 - 1, half, 0], true],
    [1 - 1e-9, [2 ** 32 - 1, 2 ** 32 - 1, 0], false],
    [1 - 1e-9, [2 ** 32 - 257], true],
    [0, [0, 0, 0], false],
    [1, [2 ** 32 - 1], true],
    [0.25, [2 ** 30, 0, 0], false],
    [0.25, [2 ** 30 - 1], true],
  ])('of %d are decided by as many bits as it takes: by %j', (probability, words, found) => {
    expect(new Given(...words).chance(probability)).toBe(found);
  });

  it('are those of all that fall by them', () => {
    // The last word is below 256: a 24-bit number of it is zero.
    const [seed, words] = [20_524, 1_553];
    const generator = new Generator(seed);
    for (let i = 1; i < words; i++) generator.next();
    expect(generator.next()).toBeLessThan(256);
    const all = ones([words], { dtype: 'float64' });
    const draws = [
      () => bernoulli(all.mul(1e-12)),
      () => all.clone().bernoulli_(1e-12),
      () => all.clone().bernoulli_(all.mul(1e-12)),
      () => new nn.Dropout(1 - 1e-12).forward(all),
    ];
    for (const draw of draws) {
      manualSeed(seed);
      expect(Number(draw().ne(0).any().item())).toBe(0);
    }
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
