/** @file The example as five real processes. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';

it('learns to balance the pole, with several states in a forward pass', { timeout: 90_000 }, async () => {
  const { exitCode, output, report } = await launched(join(import.meta.dirname, 'main.ts'), {
    processes: 4,
    args: ['--rounds', '40'],
  });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  const rounds = [...output.matchAll(/round (\d+): poles stood ([\d.]+) steps, ([\d.]+) states/g)];
  expect(rounds.map(([, round]) => round)).toEqual(['10', '20', '30', '40']);
  expect(Number(rounds.at(-1)?.[2])).toBeGreaterThan(1.5 * Number(rounds[0]?.[2]));
  expect(Number(rounds[0]?.[3])).toBeGreaterThan(1.5);
});
