/** @file Additions of one process to one counter: few changes, and to each the sum of its turn. */
import { expect, test } from 'vitest';
import { RpcError } from '../base/errors.ts';
import { Adds } from './adds.ts';

/** A counter that is changed when `go` is called, up to 100. */
function slow(): { adds: Adds; changes: bigint[]; go: () => void } {
  const changes: bigint[] = [];
  const gates: (() => void)[] = [];
  let sum = 0n;
  const adds = new Adds(async (_, delta) => {
    changes.push(delta);
    await new Promise<void>((resolve) => gates.push(resolve));
    if (sum + delta > 100n) throw new RpcError('failed-precondition', 'too much');
    return (sum += delta);
  });
  return { adds, changes, go: () => gates.shift()?.() };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('those that come while a change is on its way are one, each with the sum of its turn', async () => {
  const { adds, changes, go } = slow();
  const sums = Promise.all([1n, 2n, 3n, 1n].map((delta) => adds.add('n', delta)));
  const other = adds.add('m', 7n);
  await turn();
  expect(changes).toEqual([1n, 7n]);
  for (let i = 0; i < 3; i++) {
    go();
    await turn();
  }
  expect(changes).toEqual([1n, 7n, 6n]);
  expect(await other).toBe(8n);
  expect(await sums).toEqual([1n, 10n, 13n, 14n]);
});

test('where all together are refused, each is asked for by itself', async () => {
  const { adds, changes, go } = slow();
  const sums = Promise.allSettled([10n, 40n, 60n, 30n].map((delta) => adds.add('n', delta)));
  for (let i = 0; i < 5; i++) {
    await turn();
    go();
  }
  const settled = (await sums).map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as RpcError).code));
  expect(settled).toEqual([10n, 50n, 'failed-precondition', 80n]);
  expect(changes).toEqual([10n, 130n, 40n, 60n, 30n]);
});

test('a change that may have been made is not made again', async () => {
  let calls = 0;
  const adds = new Adds(async () => {
    calls++;
    await turn();
    throw new RpcError('unavailable', 'no answer', { executed: 'maybe' });
  });
  const settled = await Promise.allSettled([1n, 2n, 3n].map((delta) => adds.add('n', delta)));
  expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(calls).toBe(2);
});

test('those up and those down are not one: a sum on the way may be too much where the last is not', async () => {
  const { adds, changes, go } = slow();
  const sums = Promise.allSettled([10n, 95n, -5n, -6n].map((delta) => adds.add('n', delta)));
  for (let i = 0; i < 3; i++) {
    await turn();
    go();
  }
  const settled = (await sums).map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as RpcError).code));
  expect(settled).toEqual([10n, 'failed-precondition', 5n, -1n]);
  expect(changes).toEqual([10n, 95n, -11n]);
});
