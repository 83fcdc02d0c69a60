/** @file Messages of references that fail, are lost or are held back on purpose: what is said, and that nothing is left. */
import { countInjectedFaults, errorMatching, shown } from '@backwire/testing';
import { getWorkerInfo, rpcAsync, RpcError, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { add, ones, tensor, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { agent, counters, eventually, flushed, isEmpty, whileOthersEnd } from './group.ts';
import { remote, type RRef } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

/** How many sends an agent has failed or held back. */
const injected = (of: RpcAgent): unknown => of.debugInfo()['agent.injected_faults'];

const TIMED_OUT =
  'RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist.';
/** Of a creation that was held back, and of one whose message was dropped: PyTorch has one text for both. */
const LATE = errorMatching(RpcError, {
  code: 'deadline-exceeded',
  message: TIMED_OUT,
  // PyTorch's future has this text, and its fetch the other.
  cause: errorMatching(RpcError, { code: 'deadline-exceeded', message: 'RPC ran for more than set timeout (20 ms)' }),
});
const DROPPED = errorMatching(RpcError, { code: 'unavailable', executed: 'no', message: TIMED_OUT });
/** That of a use of an RRef, which says nothing of its creation. */
const tooSlow = (ms: number) =>
  errorMatching(RpcError, { code: 'deadline-exceeded', message: `RPC ran for more than set timeout (${ms} ms)` });

const identity = rpcFunction('faults/identity', (x: number) => x);
/** What `noted` was called with. */
let ran: number[] = [];
const noted = rpcFunction('faults/noted', (x: number) => {
  ran.push(x);
  return x;
});
const notedTensor = rpcFunction('faults/noted-tensor', (x: number) => {
  ran.push(x);
  return tensor(x).mul(tensor(2));
});
const fetch = rpcFunction('faults/fetch', (rref: RRef<number>) => rref.toHere());
const addToReferent = rpcFunction('faults/add-to-referent', async (rref: RRef<Tensor>, value: Tensor) => {
  const sum = (await rref.toHere()).add(value);
  rref.dispose();
  return sum;
});
const takeBoth = rpcFunction('faults/take-both', (_rref: RRef<number>, _other: unknown) => 1);

describe('messages that fail on purpose', () => {
  it.each(['w0', 'w1'])('a dropped creation of a function on %s shows when the RRef is used', (owner) =>
    whileOthersEnd(
      4,
      async (agents) => {
        ran = [];
        const rref = remote(owner, noted, [1]);
        // Nobody waits for the creation itself, as in PyTorch's tests: it fails all the same.
        await flushed(agent(agents, 0));
        await expect(rref.toHere()).rejects.toThrow(DROPPED);
        await expect(rref.confirmed()).rejects.toThrow(DROPPED);
        expect(await remote(owner, noted, [2]).toHere()).toBe(2);
        expect([ran, agents.map(injected)]).toEqual([[2], [1, 0, 0, 0]]);
      },
      { faults: { failFirst: { PYTHON_REMOTE_CALL: 1 } } },
    ),
  );

  it.each(['w0', 'w1'])('a dropped creation on %s shows when the RRef is shared', (owner) =>
    whileOthersEnd(
      4,
      async (agents) => {
        const rref = remote(owner, identity, [1]);
        await flushed(agent(agents, 0));
        for (const to of ['w1', 'w0']) {
          await expect(rpcSync(to, fetch, [rref])).rejects.toThrow(DROPPED);
          await expect(rpcAsync(to, takeBoth, [rref, 1])).rejects.toThrow(DROPPED);
          using given = remote(to, fetch, [rref]);
          await expect(given.toHere()).rejects.toThrow(DROPPED);
          const encode = (): unknown =>
            sessionOf(agent(agents, 0)).values[0]?.encode(rref, getWorkerInfo(to), () => undefined);
          expect(encode).toThrow(DROPPED);
        }
        await expect(rref.confirmed()).rejects.toThrow(DROPPED);
        const next = remote(owner, identity, [2]);
        expect(await next.toHere()).toBe(2);
        expect(agents.map(injected)).toEqual([1, 0, 0, 0]);
        rref.dispose();
        next.dispose();
        await eventually(() => agents.every(isEmpty), 'nothing is left');
      },
      { faults: { failFirst: { PYTHON_REMOTE_CALL: 1 } } },
    ),
  );

  it.each(['w0', 'w1'])('a dropped creation of a tensor operation on %s likewise', (owner) =>
    whileOthersEnd(
      4,
      async (agents) => {
        const rref = remote(owner, add, [tensor(1), tensor(2)]);
        await flushed(agent(agents, 0));
        await expect(rref.toHere()).rejects.toThrow(DROPPED);
        await expect(rref.confirmed()).rejects.toThrow(DROPPED);
        await expect(rpcSync('w1', takeBoth, [rref as unknown as RRef<number>, 1])).rejects.toThrow(DROPPED);
        expect(shown(await remote(owner, add, [tensor(1), tensor(2)]).toHere())).toEqual(shown(tensor(3)));
        expect(agents.map(injected)).toEqual([1, 0, 0, 0]);
      },
      { faults: { failFirst: { SCRIPT_REMOTE_CALL: 1 } } },
    ),
  );

  it.each([
    ['w1', 'is a failure of the creation, although the owner has the value', 1],
    ['w0', 'on the worker itself changes nothing, which has the value already', 0],
  ])('an answer to a creation on %s that is dropped %s', (owner, _, rank) =>
    whileOthersEnd(
      4,
      async (agents) => {
        const message = 'Send attempt failed intentionally for REMOTE_RET';
        const dropped = errorMatching(RpcError, { code: 'unavailable', executed: 'yes', message });
        for (const rref of [remote(owner, identity, [1]), remote(owner, identity, [1])]) {
          if (rank === 1) {
            await expect(rref.confirmed()).rejects.toThrow(dropped);
            await expect(rref.toHere()).rejects.toThrow(dropped);
          } else {
            await rref.confirmed();
            expect(await rref.toHere()).toBe(1);
          }
          rref.dispose();
        }
        await eventually(() => injected(agent(agents, rank)) === 2, 'both answers were dropped');
        expect(injected(agent(agents, 1 - rank))).toBe(0);
        expect(await remote(owner, identity, [2]).toHere()).toBe(2);
      },
      { faults: { failFirst: { REMOTE_RET: 2 } } },
    ),
  );

  it('control messages get through whatever happens to calls', () => {
    const { logger, failed } = countInjectedFaults();
    return whileOthersEnd(
      4,
      async (agents) => {
        const rref = remote('w1', add, [ones([2, 2]), ones([2, 2])]);
        const sum = remote('w2', addToReferent, [rref, ones([2, 2])]);
        const twos = [2, 2].map(() => [2, 2]);
        expect((await rref.toHere()).toArray()).toEqual(twos);
        expect((await sum.toHere()).toArray()).toEqual(twos.map((row) => row.map((x) => x + 1)));
        rref.dispose();
        sum.dispose();
        await eventually(() => agents.every(isEmpty), 'forks, acceptances and deletes got through');
        // The request and the acceptance of the fork on w2, and the deletes of both users.
        expect(Object.fromEntries(failed)).toEqual({ RREF_FORK_REQUEST: 3, RREF_CHILD_ACCEPT: 3, RREF_USER_DELETE: 6 });
        expect(agents.map(injected)).toEqual([3, 0, 9, 0]);
      },
      { logger, faults: { failFirst: { RREF_FORK_REQUEST: 3, RREF_CHILD_ACCEPT: 3, RREF_USER_DELETE: 3 } } },
    );
  });

  describe.each([
    [
      'a function',
      {
        make: (to: string, n: number, timeoutMs: number) => remote(to, notedTensor, [n], { timeoutMs }),
        delayMs: { PYTHON_REMOTE_CALL: 80 },
        heldBack: 2,
        runs: [2],
      },
    ],
    [
      'a tensor operation',
      {
        make: (to: string, n: number, timeoutMs: number) => remote(to, add, [tensor(n), tensor(n)], { timeoutMs }),
        delayMs: { SCRIPT_REMOTE_CALL: 80, PYTHON_RREF_FETCH_CALL: 40 },
        // Two creations and three fetches: the second comes before the creation, and is sent again after it.
        heldBack: 5,
        runs: [],
      },
    ],
  ] as const)('a creation of %s that is held back', (_, { make, delayMs, heldBack, runs }) => {
    it.each(['w0', 'w1'])('times out on %s, and what comes late is not run', (owner) =>
      whileOthersEnd(
        4,
        async (agents) => {
          ran = [];
          const rref = make(owner, 1, 20);
          await expect(rref.confirmed()).rejects.toThrow(LATE);
          await flushed(agent(agents, 0));
          await expect(rref.toHere()).rejects.toThrow(LATE);
          if (owner === 'w0') {
            await new Promise((resolve) => setTimeout(resolve, 120));
            expect([ran, agents.map(injected)]).toEqual([[], [1, 0, 0, 0]]);
          } else {
            // The wait for one that is still being made ends by itself, and says nothing of the creation.
            const slow = make(owner, 2, 5_000);
            await expect(slow.toHere({ timeoutMs: 1 })).rejects.toThrow(tooSlow(1));
            expect(shown(await slow.toHere())).toEqual(shown(tensor(4)));
            // The owner heard of both: of one, that it failed.
            expect(counters(agent(agents, 1))).toMatchObject({ num_owner_rrefs: 2, num_forks: 2 });
            expect([ran, agents.map(injected)]).toEqual([runs, [heldBack, 0, 0, 0]]);
            slow.dispose();
          }
          rref.dispose();
          await eventually(() => agents.every(isEmpty), 'nothing is left');
        },
        { faults: { delayMs } },
      ),
    );
  });

  it('a fetch that is held back times out, and a later one succeeds', () =>
    whileOthersEnd(
      4,
      async (agents) => {
        const rref = remote('w1', add, [tensor(1), tensor(2)]);
        await expect(rref.toHere({ timeoutMs: 10 })).rejects.toThrow(tooSlow(10));
        expect(shown(await rref.toHere())).toEqual(shown(tensor(3)));
        expect(agents.map(injected)).toEqual([2, 0, 0, 0]);
      },
      { faults: { delayMs: { PYTHON_RREF_FETCH_CALL: 60 } } },
    ));
});
