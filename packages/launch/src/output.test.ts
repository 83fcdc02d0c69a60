/** @file Output cut into lines. */
import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import { expect, test } from 'vitest';
import { MAX_LINE_CHARS } from './limits.ts';
import { eachLine } from './output.ts';

async function linesOf(...chunks: string[]): Promise<string[]> {
  const source = new PassThrough();
  const lines: string[] = [];
  eachLine(source, (line) => lines.push(line));
  for (const chunk of chunks) source.write(chunk);
  source.end();
  await finished(source);
  return lines;
}

test('lines come whole, without their ends, however they were written', async () => {
  expect(await linesOf('one\ntw', 'o\r\n', '\nlast')).toEqual(['one', 'two', '', 'last']);
});

test.each([0, 1])('a line without an end is cut between characters: %i before them', async (before) => {
  const text = 'x'.repeat(before) + '😀'.repeat(MAX_LINE_CHARS);
  const lines = await linesOf(text);
  expect(lines.length).toBeGreaterThan(1);
  expect(lines.join('')).toBe(text);
  for (const line of lines) {
    expect(line.length).toBeLessThanOrEqual(MAX_LINE_CHARS);
    expect(line).not.toMatch(/\p{Surrogate}/u);
  }
});
