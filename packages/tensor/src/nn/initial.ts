/** @file Weights to begin with: `nn.init`. Each fills a tensor in place, without recording, and returns it. */
import { checkArguments } from '../arguments.ts';
import { noGrad } from '../autograd/record.ts';
import { eye } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { fill_ } from '../ops/inplace-elementwise.ts';
import * as sampling from '../ops/sampling.ts';
import { qr } from '../ops/factor.ts';
import { check, each, FLOAT } from '../ops/takes.ts';
import { checkGivenOptions, kindOf } from '../given.ts';
import { checkOptionNames } from '../option-names.ts';
import { randn, uniforms } from '../random.ts';
import { sweep } from '../scope.ts';
import { sizeOf } from '../shape.ts';
import { tensor } from '../creation.ts';
import { Tensor } from '../tensor.ts';

function quietly<T extends Tensor>(t: T, fn: () => unknown): T {
  noGrad(() => sweep(() => void fn()));
  return t;
}

/** Fills `t` in place with draws between `low` and `high`; not recorded. Answers `t`. */
export function uniform_<T extends Tensor>(t: T, low = 0, high = 1): T {
  checkArguments('nn.init.uniform_', [t, low, high]);
  return quietly(t, () => sampling.uniform_(t, low, high));
}

/** Fills `t` in place with draws of a normal distribution; not recorded. Answers `t`. */
export function normal_<T extends Tensor>(t: T, mean = 0, std = 1): T {
  checkArguments('nn.init.normal_', [t, mean, std]);
  return quietly(t, () => sampling.normal_(t, mean, std));
}

/** Fills `t` in place with `value`; not recorded. Answers `t`. */
export function constant_<T extends Tensor>(t: T, value: number): T {
  checkArguments('nn.init.constant_', [t, value]);
  return quietly(t, () => fill_(t, value));
}

/** Fills `t` in place with ones; not recorded. Answers `t`. */
export function ones_<T extends Tensor>(t: T): T {
  return constant_(t, 1);
}

/** Fills `t` in place with zeros; not recorded. Answers `t`. */
export function zeros_<T extends Tensor>(t: T): T {
  return constant_(t, 0);
}

/** The identity, of a matrix. */
export function eye_<T extends Tensor>(t: T): T {
  checkArguments('nn.init.eye_', [t]);
  if (t.rank !== 2) throw new ShapeError('Only tensors with 2 dimensions are supported');
  return quietly(t, () => t.copy_(eye(t.shape[0] as number, t.shape[1] as number)));
}

/** Normal with the given mean and deviation, drawn again where it falls outside of [low, high]. */
export function truncNormal_<T extends Tensor>(t: T, mean = 0, std = 1, low = -2, high = 2): T {
  checkArguments('nn.init.truncNormal_', [t, mean, std, low, high]);
  check('nn.init.truncNormal_', each(FLOAT), [t]);
  // By the inverse of the distribution function, as PyTorch does.
  const cdf = (x: number): number => (1 + erf(x / Math.SQRT2)) / 2;
  const [from, to] = [cdf((low - mean) / std), cdf((high - mean) / std)];
  return quietly(t, () => {
    const values = uniforms(t.size).map((u) => {
      const v = 2 * (from + (to - from) * u) - 1;
      return Math.min(high, Math.max(low, mean + std * Math.SQRT2 * erfInv(v)));
    });
    t.copy_(tensor(values, { shape: t.shape, dtype: 'float64' }));
  });
}

/** Abramowitz & Stegun 7.1.5 and 7.1.14: a series below 3, a continued fraction above. */
function erf(x: number): number {
  const z = Math.abs(x);
  if (z < 3) {
    let [term, sum] = [z, z];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (-z * z) / n;
      sum += term / (2 * n + 1);
      if (n > 200) break;
    }
    return Math.sign(x) * ((2 / Math.sqrt(Math.PI)) * sum);
  }
  let tail = 0;
  for (let k = 60; k > 0; k--) tail = k / 2 / (z + tail);
  return Math.sign(x) * (1 - Math.exp(-z * z) / (Math.sqrt(Math.PI) * (z + tail)));
}

/** By Newton's method from Winitzki's approximation. */
function erfInv(y: number): number {
  if (Math.abs(y) >= 1) return y * Infinity;
  const log = Math.log(1 - y * y);
  const a = 2 / (Math.PI * 0.147) + log / 2;
  let x = Math.sign(y) * Math.sqrt(Math.sqrt(a * a - log / 0.147) - a);
  for (let i = 0; i < 4; i++) x -= (erf(x) - y) / ((2 / Math.sqrt(Math.PI)) * Math.exp(-x * x));
  return x;
}

/** Names of PyTorch, in its letters too: 'leaky_relu' and 'fan_in'. */
const camel = (name: string): string => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());

/** What follows a layer, for `calculateGain`. */
export type Nonlinearity =
  | 'linear'
  | 'conv1d'
  | 'conv2d'
  | 'conv3d'
  | 'convTranspose1d'
  | 'convTranspose2d'
  | 'convTranspose3d'
  | 'sigmoid'
  | 'tanh'
  | 'relu'
  | 'leakyRelu'
  | 'leaky_relu'
  | 'selu';

/** By how much what an activation lets through has to be scaled, for its variance to stay. */
export function calculateGain(nonlinearity: Nonlinearity, param?: number): number {
  // Which words there are is told below, in PyTorch's way.
  if (typeof nonlinearity !== 'string') throw new RangeError(`Unsupported nonlinearity ${kindOf(nonlinearity)}`);
  if (param !== undefined && param !== null && typeof param !== 'number')
    throw new TypeError(`nn.init.calculateGain(): param is a number, got ${kindOf(param)}`);
  if (/^(linear|sigmoid|conv)/.test(nonlinearity)) return 1;
  switch (camel(nonlinearity)) {
    case 'tanh':
      return 5 / 3;
    case 'relu':
      return Math.SQRT2;
    case 'leakyRelu':
      return Math.sqrt(2 / (1 + (param ?? 0.01) ** 2));
    case 'selu':
      return 0.75;
    default:
      throw new RangeError(`Unsupported nonlinearity ${nonlinearity as string}`);
  }
}

/** How many inputs an output has, and outputs an input: weights are [out, in, ...window]. */
function fans(t: Tensor): { in: number; out: number } {
  if (t.rank < 2)
    throw new ShapeError('Fan in and fan out can not be computed for tensor with fewer than 2 dimensions');
  const window = sizeOf(t.shape.slice(2));
  return { in: (t.shape[1] as number) * window, out: (t.shape[0] as number) * window };
}

/** Glorot & Bengio 2010, uniform. */
export function xavierUniform_<T extends Tensor>(t: T, gain = 1): T {
  checkArguments('nn.init.xavierUniform_', [t, gain]);
  const fan = fans(t);
  const bound = gain * Math.sqrt(6 / (fan.in + fan.out));
  return uniform_(t, -bound, bound);
}

/** Glorot & Bengio 2010, normal. */
export function xavierNormal_<T extends Tensor>(t: T, gain = 1): T {
  checkArguments('nn.init.xavierNormal_', [t, gain]);
  const fan = fans(t);
  return normal_(t, 0, gain * Math.sqrt(2 / (fan.in + fan.out)));
}

/** For which activation, and by which side of the weight, `kaimingUniform_` and `kaimingNormal_` scale. */
export interface KaimingOptions {
  /** The slope below zero of leakyRelu. @default 0 */
  a?: number;
  /** @default 'fanIn' */
  mode?: 'fanIn' | 'fanOut' | 'fan_in' | 'fan_out';
  /** @default 'leakyRelu' */
  nonlinearity?: Nonlinearity;
}

const KAIMING: ReadonlySet<string> = new Set(['a', 'mode', 'nonlinearity']);

function kaiming(t: Tensor, options: KaimingOptions): number {
  if (!(t instanceof Tensor)) throw new TypeError(`nn.init.kaiming takes a Tensor, got ${kindOf(t)}`);
  checkGivenOptions('nn.init.kaiming', options);
  checkOptionNames(options, KAIMING, 'nn.init.kaiming');
  const { a = 0, nonlinearity = 'leakyRelu' } = options;
  if (typeof a !== 'number') throw new TypeError(`nn.init.kaiming: a is a number, got ${kindOf(a)}`);
  const given: unknown = options.mode ?? 'fanIn';
  const mode = typeof given === 'string' ? camel(given) : kindOf(given);
  if (mode !== 'fanIn' && mode !== 'fanOut') throw new RangeError(`Mode ${mode} not supported: fanIn or fanOut`);
  return calculateGain(nonlinearity, a) / Math.sqrt(mode === 'fanIn' ? fans(t).in : fans(t).out);
}

/** He et al. 2015, uniform. */
export function kaimingUniform_<T extends Tensor>(t: T, options: KaimingOptions = {}): T {
  const bound = Math.sqrt(3) * kaiming(t, options);
  return uniform_(t, -bound, bound);
}

/** He et al. 2015, normal. */
export function kaimingNormal_<T extends Tensor>(t: T, options: KaimingOptions = {}): T {
  return normal_(t, 0, kaiming(t, options));
}

/** Rows, or columns where these are fewer, that are orthogonal to each other (Saxe et al. 2013); dimensions but the first count as one. */
export function orthogonal_<T extends Tensor>(t: T, gain = 1): T {
  checkArguments('nn.init.orthogonal_', [t, gain]);
  check('nn.init.orthogonal_', each(FLOAT), [t]);
  if (t.rank < 2) throw new ShapeError('Only tensors with 2 or more dimensions are supported');
  if (t.size === 0) return t;
  const rows = t.shape[0] as number;
  const columns = t.size / rows;
  return quietly(t, () => {
    const flat = randn([rows, columns], { dtype: t.dtype === 'float64' ? 'float64' : 'float32' }) as Tensor;
    const { q, r } = qr(rows < columns ? flat.transpose(0, 1) : flat);
    const turned = q.mul(r.diagonal().sign());
    t.copy_((rows < columns ? turned.transpose(0, 1) : turned).mul(gain).reshape(t.shape));
  });
}

/** Windows that let each channel through as it is: weights of convolutions, [out, in / groups, ...window]. */
export function dirac_<T extends Tensor>(t: T, groups = 1): T {
  checkArguments('nn.init.dirac_', [t, groups]);
  if (t.rank < 3 || t.rank > 5) throw new ShapeError('Only tensors with 3, 4, or 5 dimensions are supported');
  const [out, inner] = t.shape as [number, number];
  if (!Number.isInteger(groups) || groups < 1)
    throw new RangeError(`nn.init.dirac_(): groups is a whole number of at least 1, got ${groups}`);
  if (out % groups !== 0) throw new ShapeError('dim 0 must be divisible by groups');
  const perGroup = out / groups;
  return quietly(t, () => {
    t.zero_();
    const centre = t.shape.slice(2).map((n) => Math.floor(n / 2));
    for (let g = 0; g < groups; g++)
      for (let c = 0; c < Math.min(perGroup, inner); c++)
        [g * perGroup + c, c, ...centre].reduce((part: Tensor, i) => part.select(0, i), t).fill_(1);
  });
}

/** Normal, with the part `sparsity` of each column set to zero. */
export function sparse_<T extends Tensor>(t: T, sparsity: number, std = 0.01): T {
  checkArguments('nn.init.sparse_', [t, sparsity, std]);
  if (t.rank !== 2) throw new ShapeError('Only tensors with 2 dimensions are supported');
  if (!(sparsity >= 0 && sparsity <= 1))
    throw new RangeError(`nn.init.sparse_(): sparsity is from 0 to 1, got ${sparsity}`);
  const [rows, columns] = t.shape as [number, number];
  return quietly(t, () => {
    normal_(t, 0, std);
    const none = Math.ceil(sparsity * rows);
    for (let c = 0; c < columns; c++) {
      const order = Array.from(uniforms(rows), (u, i) => ({ u, i })).sort((a, b) => a.u - b.u);
      for (const { i } of order.slice(0, none)) t.select(1, c).select(0, i).fill_(0);
    }
  });
}
