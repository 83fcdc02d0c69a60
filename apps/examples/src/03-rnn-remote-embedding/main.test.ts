/** @file The example as two real processes, and its text. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';
import { readCorpus, sentence, tokenize, UNKNOWN, windows } from './corpus.ts';

const main = join(import.meta.dirname, 'main.ts');
const out = mkdtempSync(join(tmpdir(), 'backwire-rnn-'));
afterAll(() => rmSync(out, { recursive: true, force: true }));

describe('the text', () => {
  it('is Moby Dick, in numbers of words, the most frequent first', () => {
    const { words, train, valid } = readCorpus(1, 50);
    expect(words).toHaveLength(50);
    expect(words.slice(0, 3)).toEqual(['<unknown>', ',', 'the']);
    expect(valid.length / (train.length + valid.length)).toBeCloseTo(0.1, 2);
    expect(Math.max(...train)).toBe(49);
    expect(readCorpus(1, 10_000).train.includes(UNKNOWN)).toBe(false);
    expect(
      [...readCorpus(1, 10_000).train.slice(0, 20)].map((number) => readCorpus(1, 10_000).words[number]).join(' '),
    ).toContain('call me ishmael .');
  });

  it('is cut into words and marks, and put together again', () => {
    expect(tokenize("Call me Ishmael. Whale's 12 -- seas?")).toEqual([
      'call',
      'me',
      'ishmael',
      '.',
      "whale's",
      '12',
      'seas',
      '?',
    ]);
    expect(sentence(['thar', ',', 'she', 'blows', '!'])).toBe('thar, she blows!');
  });

  it('is read in columns, each target the input one word later, without gaps', () => {
    const text = Int32Array.from({ length: 21 }, (_, i) => i);
    const all = [...windows(text, 2, 4)];
    expect(all.map(({ steps }) => steps)).toEqual([4, 4, 2]);
    expect([...(all[0]?.inputs ?? [])]).toEqual([0, 10, 1, 11, 2, 12, 3, 13]);
    expect([...(all[0]?.targets ?? [])]).toEqual([1, 11, 2, 12, 3, 13, 4, 14]);
    expect(all.flatMap(({ inputs }) => [...inputs]).sort((a, b) => a - b)).toEqual([...text.slice(0, 20)]);
  });
});

it('learns with the word table on another worker, and writes', { timeout: 120_000 }, async () => {
  const small = ['--chapters', '2', '--vocabulary', '300', '--embedding', '16', '--hidden', '24', '--columns', '8'];
  const { exitCode, output, report } = await launched(main, {
    processes: 2,
    args: [...small, '--epochs', '2', '--length', '12', '--lr', '0.01', '--out', out],
  });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as {
    before: number;
    epochs: { trainPerplexity: number; validPerplexity: number }[];
    sample: string;
  };
  expect(summary.before).toBeGreaterThan(200);
  expect(summary.epochs).toHaveLength(2);
  expect(summary.epochs[1]?.trainPerplexity).toBeLessThan(summary.epochs[0]?.trainPerplexity ?? 0);
  expect(summary.epochs[1]?.validPerplexity).toBeLessThan(0.4 * summary.before);
  expect(tokenize(summary.sample)).toHaveLength(12);
  expect(summary.sample).toMatch(/^the white whale/);
  expect(output).toContain(`It writes: ${summary.sample}`);
  expect(readFileSync(join(out, 'perplexity.svg'), 'utf8')).toMatch(/^<svg[\s\S]*unseen text[\s\S]*<\/svg>\s*$/);
});
