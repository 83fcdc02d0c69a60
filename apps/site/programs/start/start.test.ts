/** @file The programs of "Start in five minutes", as groups of real processes. */
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { launch } from 'backwire';
import { expect, it } from 'vitest';

/** What two workers that run `program` print. */
async function printed(program: string): Promise<string> {
  let text = '';
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString();
      done();
    },
  });
  const { exitCode, report } = await launch({
    program: join(import.meta.dirname, program),
    processes: 2,
    execArgv: ['--import', 'tsx', '--conditions=@backwire/source'],
    stdout,
  });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  return stripVTControlCharacters(text);
}

it('scale.ts prints what the second worker computed', { timeout: 60_000 }, async () => {
  expect(await printed('scale.ts')).toBe('[rank0]: [ 2, 4, 6 ]\n');
});

it('train.ts learns which points have exactly one coordinate set', { timeout: 60_000 }, async () => {
  const lines = (await printed('train.ts')).trim().split('\n');
  expect(lines.at(-1)).toBe('[rank0]: [ 0n, 1n, 1n, 0n ]');
  expect(lines.slice(0, -1).map((line) => line.replace(/loss .*/, ''))).toEqual(
    [25, 50, 75, 100].map((step) => `[rank0]: step ${step}: `),
  );
});
