/** @file The example as two real processes. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';

it('calls, adds, fails, streams and gives up', { timeout: 60_000 }, async () => {
  const { exitCode, output, report } = await launched(join(import.meta.dirname, 'main.ts'), { processes: 2 });
  expect(report).toBeUndefined();
  expect(exitCode).toBe(0);
  expect(output.split('\n').filter((line) => line !== '')).toEqual([
    '[rank0]: scaled [ 2, 4, 6 ]',
    '[rank0]: added [ 11, 12, 13 ]',
    '[rank0]: failed RangeError: no such thing',
    '[rank0]: streamed [ 1, 2, 3, 4, 5 ]',
    '[rank0]: gave up deadline-exceeded',
  ]);
});

it('says how it wants to be started', { timeout: 60_000 }, async () => {
  const { exitCode, report } = await launched(join(import.meta.dirname, 'main.ts'), { processes: 1 });
  expect(exitCode).toBe(2);
  expect(report).toContain('hello-rpc needs two workers');
});
