/** @file The threads of the guide, as one process. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { printed } from '../../test/started.ts';

it('two threads compute what is in shared memory', async () => {
  const output = await printed({ program: join(import.meta.dirname, 'main.ts'), processes: 1 });
  expect(output).toBe('[rank0]: [ 2000 ] 63.25\n[rank0]: [ 2000 ] 63.25\n');
});
