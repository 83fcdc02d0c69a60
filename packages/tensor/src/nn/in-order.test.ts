import { setImmediate as turn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startInOrder } from './in-order.ts';

/** Work that goes on until it is ended, by its number. */
function work(bytes: readonly number[], room: { bytes: number; buckets: number }) {
  const started: number[] = [];
  const ends: { resolve(value: number): void; reject(error: Error): void }[] = [];
  const items = bytes.map((size, i) => ({ bytes: size, i }));
  const all = startInOrder(items, room, ({ i }) => {
    started.push(i);
    return new Promise<number>((resolve, reject) => (ends[i] = { resolve, reject }));
  });
  return {
    started,
    all,
    end: (i: number) => ends[i]?.resolve(10 * i),
    fail: (i: number) => ends[i]?.reject(new Error(`${i}`)),
  };
}

it('starts what there is room for, in order, and any size alone', async () => {
  const { started, all, end } = work([40, 60, 1, 500, 2, 3], { bytes: 100, buckets: 9 });
  await turn();
  expect(started).toEqual([0, 1]);
  end(1);
  await turn();
  // Nothing goes before one that is larger than the room.
  expect(started).toEqual([0, 1, 2]);
  end(0);
  end(2);
  await turn();
  expect(started).toEqual([0, 1, 2, 3]);
  end(3);
  await turn();
  expect(started).toEqual([0, 1, 2, 3, 4, 5]);
  end(5);
  end(4);
  expect(await all).toEqual([0, 10, 20, 30, 40, 50]);
});

it('starts no more than so many at once', async () => {
  const { started, all, end } = work([0, 0, 0, 0], { bytes: 100, buckets: 2 });
  await turn();
  expect(started).toEqual([0, 1]);
  end(0);
  await turn();
  expect(started).toEqual([0, 1, 2]);
  for (const i of [1, 2]) end(i);
  await turn();
  end(3);
  expect(await all).toEqual([0, 10, 20, 30]);
});

it('starts nothing after one that failed, and throws what that did', async () => {
  const { started, all, end, fail } = work([60, 60, 60], { bytes: 100, buckets: 9 });
  const outcome = all.catch((error: unknown) => error);
  fail(0);
  await turn();
  expect(started).toEqual([0]);
  expect(await outcome).toEqual(new Error('0'));
  end(1);
  const both = work([60, 40, 60], { bytes: 100, buckets: 9 });
  const second = both.all.catch((error: unknown) => error);
  both.fail(1);
  both.fail(0);
  expect(await second).toEqual(new Error('0'));
  expect(both.started).toEqual([0, 1]);
});

it('has nothing to do for nothing', async () => {
  expect(await work([], { bytes: 1, buckets: 1 }).all).toEqual([]);
});
