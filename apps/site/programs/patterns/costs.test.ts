/** @file The patterns of docs/patterns.md run both ways, and what can be counted is as the page says. Times are not compared. */
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { launch } from 'backwire';
import { expect, it } from 'vitest';
import { patterns } from './pairs.ts';

it('every pattern is measured, and counts are what the page says', { timeout: 120_000 }, async () => {
  let text = '';
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString();
      done();
    },
  });
  const { report } = await launch({
    program: join(import.meta.dirname, 'costs.ts'),
    args: ['1'],
    processes: 2,
    execArgv: ['--import', 'tsx', '--conditions=@backwire/source'],
    stdout,
  });
  expect(report).toBeUndefined();
  const lines = stripVTControlCharacters(text).trim().split('\n');
  const costs = new Map(
    lines.map((line) => {
      const [, name = '', one, other] = /^\[rank0\]: (.+): (\S+) and (\S+) /.exec(line) ?? [];
      return [name, [Number(one), Number(other)]];
    }),
  );
  expect([...costs.keys()]).toEqual(patterns.map(({ name }) => name));
  expect([...costs.values()].flat().every((cost) => cost >= 0)).toBe(true);
  expect(costs.get('reading, awaiting, writing')).toEqual([49, 0]);
  expect(costs.get('results that wait for the collector')).toEqual([100, 0]);
  const [eager = 0, patient = 0] = costs.get('retries without back-off') ?? [];
  expect(patient).toBeLessThan(eager);
});
