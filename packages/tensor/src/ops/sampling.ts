/** @file Random numbers in the memory or by the numbers of a tensor: normal_, uniform_, bernoulli, multinomial, randLike. All follow manualSeed. */
import { checkArguments } from '../arguments.ts';
import { decode, encode, type DType } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { named } from '../named.ts';
import { observedCreation } from '../observed.ts';
import { checkOptionNames } from '../option-names.ts';
import { bernoulliLike, chances, finer, rand, randn, uniforms } from '../random.ts';
import { sweep } from '../scope.ts';
import { checkCount } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { check, each, FLOAT, FLOATING, REAL } from './takes.ts';

const DTYPE: ReadonlySet<string> = new Set(['dtype', 'requiresGrad']);

interface LikeOptions {
  /** @default that of the tensor */
  dtype?: DType;
  requiresGrad?: boolean;
}

/** Uniform in [0, 1), in the shape and dtype of `t`. */
export function randLike(t: Tensor, options: LikeOptions = {}): Tensor {
  checkArguments('randLike', [t, options]);
  checkOptionNames(options, DTYPE, 'randLike()');
  return observedCreation('aten::rand_like', () => rand(t.shape, { dtype: t.dtype, ...options }));
}

/** Standard normal, in the shape and dtype of `t`. */
export function randnLike(t: Tensor, options: LikeOptions = {}): Tensor {
  checkArguments('randnLike', [t, options]);
  checkOptionNames(options, DTYPE, 'randnLike()');
  return observedCreation('aten::randn_like', () => randn(t.shape, { dtype: t.dtype, ...options }));
}

/** Fills `t` from the normal distribution. */
export const normal_ = named('aten::normal_', <T extends Tensor>(t: T, mean = 0, std = 1): T => {
  check('normal_', each(FLOATING), [t]);
  if (!(std >= 0)) throw new RangeError(`normal_ expects std >= 0.0, but found std ${std}`);
  sweep(() => t.copy_(randn(t.shape, { dtype: t.dtype }).mul(std).add(mean)));
  return t;
});

/** Fills `t` uniformly from [low, high). */
export const uniform_ = named('aten::uniform_', <T extends Tensor>(t: T, low = 0, high = 1): T => {
  check('uniform_', each(FLOATING), [t]);
  if (!(low <= high))
    throw new RangeError(`uniform_ expects to return a [from, to) range, but found from=${low} > to=${high}`);
  sweep(() =>
    t.copy_(
      rand(t.shape, { dtype: t.dtype })
        .mul(high - low)
        .add(low),
    ),
  );
  return t;
});

/** 1 with the probability that each element of `p` says, else 0. */
export const bernoulli = named('aten::bernoulli', (p: Tensor): Tensor => {
  check('bernoulli', each(FLOAT), [p]);
  const odds = decode(readArray(p), p.dtype);
  if (odds.some((v) => !(v >= 0 && v <= 1))) throw new RangeError('Expected p_in >= 0 && p_in <= 1 to be true');
  return fromArray(encode(chances(odds), p.dtype), p.dtype, p.shape);
});

/** Fills `t` with 1 with the given probability, else with 0. */
export const bernoulli_ = named('aten::bernoulli_', <T extends Tensor>(t: T, p: number | Tensor = 0.5): T => {
  check('bernoulli_', each(REAL), [t]);
  if (typeof p === 'number' && !(p >= 0 && p <= 1))
    throw new RangeError(`bernoulli_ expects p to be in [0, 1], but got p=${p}`);
  if (p instanceof Tensor) check('bernoulli_', each(FLOAT, 'probabilities are floats'), [p]);
  sweep(() => t.copy_(typeof p === 'number' ? bernoulliLike(t, p) : bernoulli(p.detach().expand(t.shape))));
  return t;
});

const MULTINOMIAL: ReadonlySet<string> = new Set(['replacement']);

/**
 * `count` positions of each line of weights, [n] or [rows, n], drawn by these: int64 [count] or [rows, count]. Without `replacement`
 * (the default) each once; weights need not add up to 1.
 */
export const multinomial = named(
  'aten::multinomial',
  (weights: Tensor, count: number, options: { replacement?: boolean } = {}): Tensor => {
    check('multinomial', each(FLOAT), [weights]);
    checkOptionNames(options, MULTINOMIAL, 'multinomial()');
    if (weights.rank !== 1 && weights.rank !== 2) throw new ShapeError('prob_dist must be 1 or 2 dim');
    const n = weights.shape.at(-1) as number;
    if (!Number.isInteger(count) || count < 1) throw new RangeError('cannot sample n_sample <= 0 samples');
    const again = options.replacement === true;
    if (!again && count > n)
      throw new RangeError('cannot sample n_sample > prob_dist.size(-1) samples without replacement');
    const values = decode(readArray(weights), weights.dtype);
    if (values.some((v) => !(v >= 0 && v < Infinity)))
      throw new RangeError('probability tensor contains either `inf`, `nan` or element < 0');
    const rows = weights.rank === 1 ? 1 : (weights.shape[0] as number);
    checkCount([rows, count]);
    const out = new BigInt64Array(rows * count);
    for (let r = 0; r < rows; r++)
      drawLine(Float64Array.from(values.subarray(r * n, (r + 1) * n)), again, out.subarray(r * count, (r + 1) * count));
    return fromArray(out, 'int64', weights.rank === 1 ? [count] : [rows, count]);
  },
);

/** Fills `out` with positions in a line of weights, which are scratch memory. */
function drawLine(weights: Float64Array, again: boolean, out: BigInt64Array): void {
  let total = sumOf(weights);
  if (total === Infinity) {
    // No sum of as many weights as fit into memory overflows then, and none that matters beside them vanishes.
    weights.forEach((w, i) => (weights[i] = w * 2 ** -64));
    total = sumOf(weights);
  }
  const left = weights.reduce((k, w) => k + (w > 0 ? 1 : 0), 0);
  if (total <= 0) throw new RangeError('invalid multinomial distribution (sum of probabilities <= 0)');
  if (!again && out.length > left)
    throw new RangeError(
      `invalid multinomial distribution (with replacement: false, not enough non-negative category to sample: ${left} of ${out.length})`,
    );
  uniforms(out.length).forEach((u, k) => {
    const chosen = place(weights, u * total, total * 2 ** -24, finer);
    out[k] = BigInt(chosen);
    if (again) return;
    total -= weights[chosen] as number;
    weights[chosen] = 0;
  });
}

/**
 * Which of `weights`, put one behind the other, has what lies at a random place of the `width` from `at` on: `further` gives that place,
 * from 0 to 1, and is asked only where several have a part of it. 24 bits alone would never come to most of many weights, nor to one that
 * is small beside the others.
 */
export function place(weights: Float64Array, at: number, width: number, further: () => number): number {
  let asked = false;
  let chosen = -1;
  for (let i = 0; i < weights.length; i++) {
    const w = weights[i] as number;
    if (w === 0) continue;
    chosen = i;
    at -= w;
    if (at < 0 && !asked && at + width > 0) {
      at += further() * width;
      asked = true;
    }
    if (at < 0) break;
  }
  return chosen;
}

function sumOf(values: Float64Array): number {
  return values.reduce((a, b) => a + b, 0);
}
