/** @file The programs of "Start in five minutes", as groups of real processes. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { printed } from '../../test/started.ts';

const two = (program: string): Promise<string> =>
  printed({ program: join(import.meta.dirname, program), processes: 2 });

it('scale.ts prints what the second worker computed', { timeout: 60_000 }, async () => {
  expect(await two('scale.ts')).toBe('[rank0]: [ 2, 4, 6 ]\n');
});

it('train.ts learns which points have exactly one coordinate set', { timeout: 60_000 }, async () => {
  const lines = (await two('train.ts')).trim().split('\n');
  expect(lines.at(-1)).toBe('[rank0]: [ 0n, 1n, 1n, 0n ]');
  expect(lines.slice(0, -1).map((line) => line.replace(/loss .*/, ''))).toEqual(
    [25, 50, 75, 100].map((step) => `[rank0]: step ${step}: `),
  );
});

it('parameter-server.ts lowers the loss of parameters that live elsewhere', { timeout: 60_000 }, async () => {
  const losses = [...(await two('parameter-server.ts')).matchAll(/^\[rank0\]: step (0|10): loss (\S+)$/gm)];
  expect(losses.map(([, step]) => step)).toEqual(['0', '10']);
  const [first = 0, last = 0] = losses.map(([, , loss]) => Number(loss));
  expect(last).toBeLessThan(first / 2);
});
