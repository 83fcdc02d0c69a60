/** @file The data loading of the guide, as a group of processes: each trainer has half of the samples in each epoch. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { printed } from '../../test/started.ts';

it('two trainers learn from what a third worker has', async () => {
  const output = await printed({ program: join(import.meta.dirname, 'main.ts'), processes: 3 });
  expect(output).toBe('[rank1]: [ 2500, 2500 ] true\n');
});
