/** @file Elements of inputs in the styles that find faults: plain numbers, ties, extremes, NaN and infinities. */
import { tensor, type DType } from '../../src/index.ts';
import type { Random } from '@backwire/testing';
import { isDifferentiable, SMALLEST } from '../dtypes.ts';

/** `plain` is between -2 and 2, `whole` has ties and zeros, `special` has what is not finite, `unit` lies between 0 and 1. */
export type Style = 'plain' | 'whole' | 'special' | 'equal' | 'positive' | 'unit' | 'zero' | 'extreme';

const LARGEST: Readonly<Partial<Record<DType, number>>> = {
  float32: 3.4028234663852886e38,
  float64: Number.MAX_VALUE,
  float16: 65_504,
  bfloat16: 3.3895313892515355e38,
  complex64: 3.4028234663852886e38,
};
const BOUNDS: Readonly<Partial<Record<DType, readonly [bigint, bigint]>>> = {
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  int16: [-32_768n, 32_767n],
  int8: [-128n, 127n],
  uint8: [0n, 255n],
};

export function drawStyle(random: Random): Style {
  return random.weighted({
    plain: 10,
    whole: 5,
    special: 2,
    equal: 0.7,
    positive: 2,
    unit: 1,
    zero: 0.3,
    extreme: 0.8,
  });
}

/** The stored bytes of `size` elements. */
export function drawElements(random: Random, dtype: DType, size: number, style: Style): Uint8Array {
  const lanes = dtype === 'complex64' ? 2 : 1;
  const one = elementOf(random, dtype, style);
  const fixed = one();
  const values = Array.from({ length: size * lanes }, () => (style === 'equal' ? fixed : one()));
  if (dtype === 'int64') return new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
  return bytesOf(Float64Array.from(values, Number), dtype === 'complex64' ? 'float32' : dtype);
}

/** Numbers as stored elements of `dtype`, wrapped and rounded as conversions do. */
export function bytesOf(values: Float64Array, dtype: DType): Uint8Array {
  const stored = tensor(values, { dtype }).dataSync();
  return new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength).slice();
}

function elementOf(random: Random, dtype: DType, style: Style): () => number | bigint {
  if (dtype === 'bool') return () => (style === 'zero' ? 0 : random.int(0, 2));
  return isDifferentiable(dtype) ? () => floatOf(random, dtype, style) : () => wholeOf(random, dtype, style);
}

function floatOf(random: Random, dtype: DType, style: Style): number {
  const largest = LARGEST[dtype] as number;
  switch (style) {
    case 'zero':
      return 0;
    case 'whole':
      return random.int(-3, 4);
    case 'unit':
      return random.chance(0.15) ? random.int(0, 2) : random.float();
    case 'positive':
      return random.float() * 3 + 1e-3;
    case 'special':
      return random.pick([NaN, Infinity, -Infinity, 0, -0, 1, -1, 0.5, -2.5, 1.5, 2, 20.5, -30, random.float()]);
    case 'extreme':
      return random.pick([largest, -largest, SMALLEST[dtype], -SMALLEST[dtype] / 4, 88.5, -104, 1e4, -1e4, 1e-4, 1]);
    default:
      return random.float() * 4 - 2;
  }
}

function wholeOf(random: Random, dtype: DType, style: Style): bigint {
  const [low, high] = BOUNDS[dtype] as readonly [bigint, bigint];
  switch (style) {
    case 'zero':
      return 0n;
    case 'extreme':
      return random.pick([low, high, high - 1n, low + 1n, high / 2n + 1n, 0n, 1n]);
    case 'special':
      return dtype === 'int64'
        ? random.pick([2n ** 53n + 1n, -(2n ** 53n) - 1n, 2n ** 40n, 7n, -7n, 0n])
        : BigInt(random.int(dtype === 'uint8' ? 0 : -128, 128));
    case 'unit':
      return BigInt(random.int(0, 2));
    case 'positive':
      return BigInt(random.int(1, 8));
    default:
      return BigInt(random.int(dtype === 'uint8' ? 0 : -3, 4));
  }
}
