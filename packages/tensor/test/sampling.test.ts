/** @file Samples by their statistics, with a seed: of distributions, and of what fills tensors with random numbers. */
import { describe, expect, it } from 'vitest';
import {
  bernoulli,
  data,
  distributions,
  gumbelSoftmax,
  manualSeed,
  multinomial,
  nn,
  ones,
  rand,
  randLike,
  tensor,
  zeros,
  type Tensor,
} from '../src/index.ts';
import { place } from '../src/ops/sampling.ts';

const COUNT = 20_000;
const first = (t: Tensor): number => t.item();

/** Mean and variance of samples, which lie within six standard errors of what they should be. */
function expectMoments(samples: Tensor, mean: number, variance: number): void {
  expect(samples.shape).toEqual([COUNT]);
  expect(Math.abs(first(samples.to('float64').mean()) - mean)).toBeLessThan(6 * Math.sqrt(variance / COUNT));
  expect(first(samples.to('float64').variance()) / variance).toBeCloseTo(1, 0.5);
}

const { Bernoulli, Categorical, Exponential, Geometric, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform } =
  distributions;

describe('samples have the moments of their distribution', () => {
  it.each([
    new Normal(2, 3),
    new LogNormal(0.5, 0.5),
    new Laplace(-1, 2),
    new Gumbel(1, 2),
    new HalfNormal(2),
    new Uniform(-1, 3),
    new Exponential(0.5),
    new Bernoulli({ probs: 0.3 }),
    new Geometric({ probs: 0.25 }),
  ])('$constructor.name', (one) => {
    manualSeed(1);
    expectMoments(one.sample([COUNT]), first(one.mean), first(one.variance));
    expect(one.sample([2, 3]).shape).toEqual([2, 3]);
    expect(one.sample().requiresGrad).toBe(false);
  });

  it('Cauchy has its quartiles', () => {
    manualSeed(2);
    const samples = new distributions.Cauchy(1, 2).sample([COUNT]);
    expect(first(samples.lt(-1).to('float64').mean())).toBeCloseTo(0.25, 1.5);
    expect(first(samples.lt(3).to('float64').mean())).toBeCloseTo(0.75, 1.5);
  });

  it('Categorical and OneHotCategorical draw choices as often as their probabilities say', () => {
    manualSeed(3);
    const probs = tensor([
      [1, 2, 5],
      [0, 1, 0],
    ]);
    const drawn = new Categorical({ probs }).sample([COUNT]);
    expect([drawn.shape, drawn.dtype]).toEqual([[COUNT, 2], 'int64']);
    const share = (i: number): number => first(drawn.select(1, 0).eq(i).to('float64').mean());
    [0.125, 0.25, 0.625].forEach((p, i) => expect(Math.abs(share(i) - p)).toBeLessThan(0.02));
    expect(first(drawn.select(1, 1).eq(1).all())).toBe(1);
    const vectors = new distributions.OneHotCategorical({ probs }).sample([7]);
    expect(vectors.shape).toEqual([7, 2, 3]);
    expect(first(vectors.sum(-1).eq(1).all())).toBe(1);
  });

  it('rsample has gradients for the parameters, and choices have no rsample', () => {
    manualSeed(4);
    const [loc, scale] = [tensor([1, 2], { requiresGrad: true }), tensor([0.5, 2], { requiresGrad: true })];
    const z = new Normal(loc, scale).rsample([3]);
    z.sum().backward();
    expect(loc.grad?.toArray()).toEqual([3, 3]);
    const noise = z.detach().sub(loc.detach()).div(scale.detach()).sum(0);
    expect(first((scale.grad as Tensor).sub(noise).abs().amax())).toBeLessThan(1e-4);
    expect(() => new Categorical({ logits: zeros([3]) }).rsample()).toThrow('Categorical has no rsample');
  });

  it('the same seed draws the same', () => {
    const draw = (): unknown => {
      manualSeed(5);
      return new Normal(0, 1).sample([4]).toArray();
    };
    expect(draw()).toEqual(draw());
  });
});

describe('refusals', () => {
  it('name the parameter and the distribution', () => {
    expect(() => new Normal(0, -1)).toThrow('Expected parameter scale of distribution Normal');
    expect(() => new Bernoulli({ probs: 1.5 })).toThrow('Expected parameter probs of distribution Bernoulli');
    expect(() => new Bernoulli({})).toThrow('Either `probs` or `logits` must be specified, but not both.');
    expect(() => new Categorical({ probs: 1 })).toThrow('must be at least one-dimensional');
    expect(() => new Uniform(0, 1).logProb(tensor([2]))).toThrow('within the support (Interval)');
    expect(() => new Normal(zeros([3]), 1).logProb(zeros([2]))).toThrow('not broadcastable');
    expect(() => distributions.klDivergence(new Normal(0, 1), new Uniform(0, 1))).toThrow('No KL(p || q)');
    expect(() => new distributions.Independent(new Normal(0, 1), 1)).toThrow('reinterpreted_batch_ndims');
    expect(new Normal(0, -1, { validateArgs: false }).scale.item()).toBe(-1);
  });
});

describe('what fills tensors', () => {
  it('normal_, uniform_, bernoulli_, randLike', () => {
    manualSeed(6);
    expectMoments(zeros([COUNT]).normal_(1, 2), 1, 4);
    expectMoments(zeros([COUNT]).uniform_(-1, 3), 1, 16 / 12);
    expectMoments(zeros([COUNT]).bernoulli_(0.2), 0.2, 0.16);
    expect(() => zeros([2]).bernoulli_(tensor([0, 1], { dtype: 'int64' }))).toThrow(
      'bernoulli_() does not take int64: probabilities are floats',
    );
    expectMoments(bernoulli(zeros([COUNT]).add(0.7)), 0.7, 0.21);
    const like = randLike(zeros([COUNT], { dtype: 'float64' }));
    expect(like.dtype).toBe('float64');
    expectMoments(like, 0.5, 1 / 12);
  });

  it('multinomial draws without replacement each position once, by weight', () => {
    manualSeed(7);
    const counts = [0, 0, 0];
    for (let i = 0; i < 2_000; i++) {
      const [a, b] = multinomial(tensor([1, 0, 3]), 2).toArray() as [number, number];
      counts[Number(a)] = (counts[Number(a)] as number) + 1;
      expect([Number(a), Number(b)].sort()).toEqual([0, 2]);
    }
    expect((counts[2] as number) / 2_000).toBeCloseTo(0.75, 1);
    expect(() => multinomial(tensor([1, 0, 3]), 3)).toThrow('not enough non-negative category');
  });

  it('multinomial goes by all bits of the weights', () => {
    // The last word of this seed's is below 256: a 24-bit number of it is zero, which is the first of two weights without more bits.
    const [seed, words] = [20_524, 1_553];
    manualSeed(seed);
    const weights = tensor([1e-12, 1], { dtype: 'float64' });
    const drawn = multinomial(weights, words, { replacement: true });
    expect(drawn.eq(1).all().item()).toBe(1);
    manualSeed(seed);
    const tiny = multinomial(weights.mul(2 ** -1000), words, { replacement: true });
    expect(tiny.equal(drawn)).toBe(true);
  });

  it.each([
    ['one that has all of the place', [1, 3], 0, 0, []],
    ['what more bits say', [1, 3], 0.9, 0, [0.2]],
    ['what more bits say', [1, 3], 0.9, 1, [0.7]],
    ['one of many in one place', [0.1, 0.1, 0, 0.1, 0.1], 0, 3, [0.5]],
    ['the last that weighs something', [0.5, 0.4, 0], 0.95, 1, []],
  ])('finds %s: of %j at %d, number %d', (_, weights, at, expected, bits) => {
    const further = [...bits];
    expect(place(Float64Array.from(weights), at, 0.4, () => further.shift() as number)).toBe(expected);
    expect(further).toEqual([]);
  });

  it('multinomial takes weights whose sum is beyond the largest number', () => {
    manualSeed(7);
    const weights = tensor([1.5e308, 0, 1.5e308], { dtype: 'float64' });
    const drawn = multinomial(weights, COUNT, { replacement: true });
    expect(drawn.to('float64').mean().item()).toBeCloseTo(1, 1);
    expect(drawn.eq(1).any().item()).toBe(0);
    expect(() => multinomial(weights, 2 ** 53, { replacement: true })).toThrow('has too many elements');
  });

  it('WeightedRandomSampler comes to samples of small weights', () => {
    const small = Array<number>(4_096).fill(2 ** -30);
    const sampler = new data.WeightedRandomSampler([...small, 1], 2 ** 20, { seed: 1 });
    const seen = [...sampler].filter((i) => i < small.length);
    expect(seen.length).toBeGreaterThan(0);
    // 24 bits come to every 64th of them only.
    expect(seen.every((i) => i % 64 === 0)).toBe(false);
  });

  it('gumbelSoftmax chooses as often as the logits say, and passes gradients when hard', () => {
    manualSeed(8);
    const logits = tensor([0, Math.log(3)], { requiresGrad: true });
    const drawn = gumbelSoftmax(logits.expand([COUNT, 2]), { hard: true });
    expect(first(drawn.select(1, 1).mean())).toBeCloseTo(0.75, 1.5);
    expect(first(drawn.detach().sum(-1).sub(1).abs().amax())).toBeLessThan(1e-5);
    drawn.select(1, 1).sum().backward();
    expect(first((logits.grad as Tensor).select(0, 1))).toBeGreaterThan(0);
  });

  it('gumbelSoftmax is finite also where the number drawn is zero', () => {
    // The last word of these is one of the 256 whose 24 bits are zero.
    manualSeed(20_524);
    const drawn = gumbelSoftmax(zeros([1_553], { dtype: 'float64' }));
    expect(drawn.isFinite().all().item()).toBe(1);
    expect(drawn.argMax().item()).toBe(1_552);
  });

  it.each(['float16', 'bfloat16'] as const)(
    'what is drawn in %s lies below 1, and what follows from it is finite',
    (dtype) => {
      manualSeed(5);
      const many = [20_000];
      const largest = dtype === 'float16' ? 1 - 2 ** -11 : 1 - 2 ** -8;
      for (const t of [rand(many, { dtype }), randLike(zeros(many, { dtype })), zeros(many, { dtype }).uniform_()]) {
        expect(first(t.amax())).toBe(largest);
        expect(first(t.amin())).toBeGreaterThanOrEqual(0);
      }
      const [zero, one] = [zeros([], { dtype }), ones([], { dtype })];
      for (const drawn of [new Exponential(one), new Gumbel(zero, one), new Laplace(zero, one), new Uniform(zero, one)])
        expect([drawn.constructor.name, drawn.sample(many).isFinite().all().item()]).toEqual([
          drawn.constructor.name,
          1,
        ]);
    },
  );

  it.each(['int64', 'uint8', 'bool', 'complex64'] as const)(
    'nn.init.truncNormal_ and orthogonal_ refuse %s, of which their numbers would be cut',
    (dtype) => {
      for (const name of ['truncNormal_', 'orthogonal_'] as const)
        expect(() => nn.init[name](zeros([3, 3], { dtype }))).toThrow(`nn.init.${name}() does not take ${dtype}`);
    },
  );

  it('nn.init.dirac_, eye_ and sparse_', () => {
    const identity = nn.init.eye_(zeros([2, 3]));
    expect(identity.toArray()).toEqual([
      [1, 0, 0],
      [0, 1, 0],
    ]);
    const x = tensor([
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
    ]);
    const conv = new nn.Conv1d(2, 2, 3, { padding: 1, bias: false });
    nn.init.dirac_(conv.weight.detach());
    expect(conv.forward(x).toArray()).toEqual(x.toArray());
    manualSeed(9);
    const sparse = nn.init.sparse_(zeros([10, 4]), 0.3);
    expect(sparse.ne(0).sum(0).eq(7).all().item()).toBe(1);
  });
});
