/** @file The last wait of a group, in which the store may go before its end is heard. */
import { RpcError } from '@backwire/rpc';
import { expect, it } from 'vitest';
import { CallBarrier } from './barrier.ts';
import type { GroupStore } from './store.ts';

const gone = new RpcError('unavailable', 'the store went away');

/** A store that goes away at the `nth` request. */
function failing(nth: number): GroupStore {
  let asked = 0;
  const next = <T>(value: T): Promise<T> => (++asked === nth ? Promise.reject(gone) : Promise.resolve(value));
  return { add: () => next(1), set: () => next(undefined), await: () => next(new Uint8Array()) } as never;
}

it('ends when the store goes after this worker has come', async () => {
  await new CallBarrier(failing(3), 3).last(1_000);
});

it.each([1, 2])('fails when the store has gone before, at request %i', async (nth) => {
  await expect(new CallBarrier(failing(nth), 3).last(1_000)).rejects.toBe(gone);
});

it('fails in every round but the last', async () => {
  await expect(new CallBarrier(failing(3), 3).sum(0, 1_000)).rejects.toBe(gone);
});
