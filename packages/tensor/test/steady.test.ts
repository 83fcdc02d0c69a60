/** @file Steps that dispose nothing leave nothing behind; `npm run soak` does the same for 10,000 of them. */
import { describe, expect, it } from 'vitest';
import { held, trainer, type Held } from '../bench/steady.ts';
import { backendName } from '../src/index.ts';

/** What must be equal, not only close. */
function exact({ storages, owners, bytes, deviceBytes, handles, heapBytes }: Held): Omit<Held, 'rss'> {
  return { storages, owners, bytes, deviceBytes, handles, heapBytes };
}

describe(`training on ${backendName()}`, () => {
  it('holds as much after 400 steps as after 200', async () => {
    const train = trainer();
    await train(200, 20);
    const before = await held();
    const loss = await train(200, 20);
    expect(exact(await held())).toEqual(exact(before));
    expect(Number.isFinite(loss)).toBe(true);
  });
});
