/** @file The patterns of docs/patterns.md run both ways, and what can be counted is as the page says. Times are not compared. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { printed } from '../../test/started.ts';
import { patterns } from './pairs.ts';

it('every pattern is measured, and counts are what the page says', { timeout: 120_000 }, async () => {
  const text = await printed({ program: join(import.meta.dirname, 'costs.ts'), args: ['1'], processes: 2 });
  // A worker that waits for long says so among the lines.
  const lines = text.matchAll(/^\[rank0\]: (.+): (\S+) and (\S+) /gm);
  const costs = new Map([...lines].map(([, name = '', one, other]) => [name, [Number(one), Number(other)]]));
  expect([...costs.keys()]).toEqual(patterns.map(({ name }) => name));
  expect([...costs.values()].flat().every((cost) => cost >= 0)).toBe(true);
  expect(costs.get('reading, awaiting, writing')).toEqual([49, 0]);
  expect(costs.get('results that wait for the collector')).toEqual([100, 0]);
  const [eager = 0, patient = 0] = costs.get('retries without back-off') ?? [];
  expect(patient).toBeLessThan(eager);
});
