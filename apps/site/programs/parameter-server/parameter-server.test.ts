/** @file The parameter server of the guide, as a group of processes: two trainers teach one net. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { printed } from '../../test/started.ts';

it('two trainers teach the net on the server what is in the circle', async () => {
  const output = await printed({ program: join(import.meta.dirname, 'main.ts'), processes: 3 });
  expect(output).toMatch(/2 trainers, loss 0\.\d\d 0\.\d\d\n/);
  expect(Number(/([\d.]+) % of new points/.exec(output)?.[1])).toBeGreaterThan(90);
});
