/** @file The pipeline of the guide, as a group of processes: both stages learn. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { printed } from '../../test/started.ts';

it('two stages on two workers learn together', async () => {
  const output = await printed({ program: join(import.meta.dirname, 'main.ts'), processes: 3 });
  const losses = [...output.matchAll(/step (\d+): loss ([\d.]+)/g)].map(([, step, loss]) => [
    Number(step),
    Number(loss),
  ]);
  expect(losses.map(([step]) => step)).toEqual([20, 40, 60]);
  expect(losses[2]?.[1]).toBeLessThan(0.5 * (losses[0]?.[1] ?? 0));
});
