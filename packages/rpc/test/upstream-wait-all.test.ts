/** @file PyTorch's tests of _wait_all: calls that are collected while a function runs, and waited for at its end. */
import { errorMatching, shown } from '@backwire/testing';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add, ones } from '@backwire/tensor';
import { callContext, getWorkerInfo, rpcAsync, RpcError, rpcFunction, rpcSync, waitAll } from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

const plus = rpcFunction('upstream-wait-all/plus', (x: number, y: number) => x + y);
const fail = rpcFunction('upstream-wait-all/fail', (text: string): number => {
  throw new RangeError(text);
});
/** Until it is over, or nobody waits for it any more. */
const sleep = rpcFunction('upstream-wait-all/sleep', (ms: number) =>
  setTimeout(ms, ms, { signal: callContext().signal }),
);
/** By the worker that calls: what lets its calls of `held` go, in the order in which they came. */
const release = new Map<string, (() => void)[]>();
const held = rpcFunction('upstream-wait-all/held', (by: string) => {
  const all = release.get(by) ?? [];
  release.set(by, all);
  return new Promise<void>((resolve) => all.push(resolve));
});

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(4);
});
/** All together, as PyTorch's tests end: nothing is left open on any of them. */
afterAll(() => Promise.all(cluster.agents.map((agent) => agent.shutdown({ timeoutMs: 8_000, onLeak: 'throw' }))));
/** Runs `fn` on all four workers at once, with the worker after each and the one after that. */
async function onAll(fn: (next: string, third: string) => Promise<void>): Promise<void> {
  const name = (rank: number): string => `w${rank % 4}`;
  await Promise.all([0, 1, 2, 3].map((rank) => cluster.at(rank).run(() => fn(name(rank + 1), name(rank + 2)))));
}
const many = <T>(count: number, fn: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => fn(i));
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );
/** A promise, and whether it has settled. */
function watched<T>(promise: Promise<T>): { promise: Promise<T>; over: boolean } {
  const seen = { promise, over: false };
  const mark = (): void => void (seen.over = true);
  promise.then(mark, mark);
  return seen;
}
/** What comes after a `waitAll` waits for nothing that was before it, nor for what is called outside of any. */
async function startsAnew(to: string): Promise<void> {
  const stop = new AbortController();
  const outside = watched(rpcAsync(to, sleep, [20_000], { signal: stop.signal }));
  const inside = await waitAll(() => watched(rpcAsync(to, plus, [1, 1], { ordered: false })));
  expect([inside.over, await inside.promise, outside.over]).toEqual([true, 2, false]);
  stop.abort();
}

describe('waitAll', () => {
  it('waits for a call, which is over at its end', () =>
    onAll(async (next) => {
      const call = await waitAll(() => watched(rpcAsync(next, add, [ones([2, 2]), 1])));
      expect(call.over).toBe(true);
      expect(shown(await call.promise)).toEqual(shown(ones([2, 2]).add(1)));
      await startsAnew(next);
    }));

  it('waits for each of twenty calls, but not for those of rpcSync, whose results are there at once', () =>
    onAll(async (next) => {
      const { name } = getWorkerInfo();
      const calls: { promise: Promise<void>; over: boolean }[] = [];
      let made = (): void => undefined;
      const allMade = new Promise<void>((resolve) => (made = resolve));
      const all = watched(
        waitAll(async () => {
          for (let i = 0; i < 20; i++) {
            const sum = rpcAsync(next, add, [ones([i, i]), 1]);
            expect(shown(await rpcSync(next, add, [ones([i, i]), 1]))).toEqual(shown(ones([i, i]).add(1)));
            expect(shown(await sum)).toEqual(shown(ones([i, i]).add(1)));
            calls.push(watched(rpcAsync(next, held, [name])));
          }
          expect(await failure(rpcSync(next, fail, ['not collected']))).toEqual(new RangeError('not collected'));
          made();
        }),
      );
      await Promise.race([allMade, all.promise]);
      // Whichever of them is the last, it is waited for.
      for (const i of calls.keys()) {
        await setTimeout();
        expect([all.over, calls.map(({ over }) => over)]).toEqual([false, many(20, (j) => j < i)]);
        release.get(name)![i]!();
        await calls[i]!.promise;
      }
      await all.promise;
      expect(calls).toHaveLength(20);
      await startsAnew(next);
    }));

  it('fails when a call times out, and the next one starts anew', () =>
    onAll(async (next) => {
      const message = 'RPC ran for more than set timeout (20 ms)';
      await expect(waitAll(() => void rpcAsync(next, sleep, [2_000], { timeoutMs: 20 }))).rejects.toThrow(
        errorMatching(RpcError, { code: 'deadline-exceeded', message }),
      );
      await startsAnew(next);
    }));

  it('fails with what a function threw, and the next one starts anew', () =>
    onAll(async (next) => {
      await expect(waitAll(() => void rpcAsync(next, fail, ['Expected error']))).rejects.toThrow(
        new RangeError('Expected error'),
      );
      await startsAnew(next);
    }));

  it('fails with what its own function throws, and the next one starts anew', () =>
    onAll(async (next) => {
      const thrown = new RangeError('Expected error');
      const throwing = (): never => {
        throw thrown;
      };
      expect(await failure(waitAll(throwing))).toBe(thrown);
      const calling = (): never => {
        void rpcAsync(next, plus, [1, 1]);
        throw thrown;
      };
      expect(await failure(waitAll(calling))).toBe(thrown);
      await startsAnew(next);
    }));

  it.each([[undefined], [5], [[]], [null]])('takes a function, and says so of %j', (given) =>
    onAll(async () => {
      await expect(waitAll(given as never)).rejects.toThrow(
        errorMatching(TypeError, { message: 'waitAll(fn) takes a function that makes the calls, got' }),
      );
    }),
  );

  it.each<[string, (next: string) => unknown]>([
    ['nothing else fails', () => undefined],
    ['one of them fails', (next) => void rpcAsync(next, fail, ['of a call'])],
    ['one leads to another', (next) => void rpcAsync(next, plus, [1, 1]).then(() => rpcAsync(next, sleep, [60]))],
  ])('waits for its calls when its function throws, and %s', (_, more) =>
    onAll(async (next, third) => {
      const over: unknown[] = [];
      let gate = (): void => undefined;
      const error = await failure(
        waitAll(async () => {
          void rpcAsync(third, sleep, [80]).then((ms) => over.push(ms));
          const first = rpcAsync(next, plus, [1, 1]).then((sum) => over.push(sum));
          void first.then(() => gate());
          more(next);
          await new Promise<void>((resolve) => (gate = resolve));
          throw new RangeError('in the function');
        }),
      );
      expect(error).toEqual(new RangeError('in the function'));
      expect(over).toEqual([2, 80]);
    }),
  );
});
