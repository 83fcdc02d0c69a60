/** @file The last wait of a group: its keys, and a store that goes before its end is heard. */
import { RpcError } from '@backwire/rpc';
import { expect, it } from 'vitest';
import { CallBarrier } from './barrier.ts';
import { History } from './history.ts';
import type { GroupStore } from './store.ts';

const gone = new RpcError('unavailable', 'the store went away');

/** A store that goes away at the `nth` request. */
function failing(nth: number): GroupStore {
  let asked = 0;
  const next = <T>(value: T): Promise<T> => (++asked === nth ? Promise.reject(gone) : Promise.resolve(value));
  return { add: () => next(1), set: () => next(undefined), await: () => next(new Uint8Array()) } as never;
}

it('ends when the store goes after this worker has come', async () => {
  await new CallBarrier(failing(3), 3, new History()).last(1_000);
});

it.each([1, 2])('fails when the store has gone before, at request %i', async (nth) => {
  await expect(new CallBarrier(failing(nth), 3, new History()).last(1_000)).rejects.toBe(gone);
});

it('fails in every round but the last', async () => {
  await expect(new CallBarrier(failing(3), 3, new History()).sum(0, 1_000)).rejects.toBe(gone);
});

it('goes on with its keys in the next life of the worker, as processes of torch do', async () => {
  const keys: string[] = [];
  const add = (key: string): Promise<number> => Promise.resolve(keys.push(key));
  const store = { add, set: () => Promise.resolve(), await: () => Promise.resolve() } as never;
  const history = new History();
  for (let life = 0; life < 2; life++) await new CallBarrier(store, 1, history).last(1_000);
  expect(keys.filter((key) => key.includes('PROCESS_COUNT'))).toEqual([
    'shutdown/PROCESS_COUNT_ID_1',
    'shutdown/PROCESS_COUNT_ID_2',
  ]);
});
