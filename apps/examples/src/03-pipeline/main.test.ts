/** @file The example as three real processes. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';

const main = join(import.meta.dirname, 'main.ts');

it('trains a model whose halves live on two workers', { timeout: 60_000 }, async () => {
  const { exitCode, output, report } = await launched(main, { processes: 3, args: ['--batches', '50'] });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  const losses = [...output.matchAll(/loss ([\d.]+)/g)].map(([, loss]) => Number(loss));
  expect(losses).toHaveLength(2);
  expect(losses[1]).toBeLessThan(losses[0] ?? 0);
  expect(Number(/test accuracy ([\d.]+) %/.exec(output)?.[1])).toBeGreaterThan(80);
});

it('says how it wants to be started', async () => {
  const { exitCode, report } = await launched(main, { processes: 2 });
  expect(exitCode).toBe(2);
  expect(report).toContain('the pipeline needs three workers');
});
