/** @file Creations and uses that fail, time out, are cancelled or never sent; what is said, and that nothing is left. */
import { errorMatching, shown } from '@backwire/testing';
import { getWorkerInfo, rpcClass, RpcError, rpcFunction, rpcInfo, rpcSync, type RpcAgent } from '@backwire/rpc';
import { ones, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { agent, counters, eventually, flushed, isEmpty, onAll, whileOthersEnd, withGroup } from './group.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';

const CREATION_TIMED_OUT =
  'RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist.';
const TIMED_OUT = errorMatching(RpcError, { code: 'deadline-exceeded', message: CREATION_TIMED_OUT });

const identity = rpcFunction('failures/identity', (x: number) => x);
const later = rpcFunction('failures/later', async (value: number, ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return value;
});
const fetch = rpcFunction('failures/fetch', (rref: RRef<number>) => rref.toHere());
const confirm = rpcFunction('failures/confirm', (rref: RRef<number>) => rref.confirmed());
const fail = rpcFunction('failures/fail', (text: string): number => {
  throw new RangeError(text);
});
const failLater = rpcFunction('failures/fail-later', async (text: string): Promise<number> => {
  await new Promise((resolve) => setTimeout(resolve, 20));
  throw new RangeError(text);
});
const failOfType = rpcFunction('failures/fail-of-type', (text: string): number => {
  throw new TypeError(text);
});
const lengthOf = rpcFunction('failures/length-of', (text: string) => text.length);
const failOrIncrease = rpcFunction('failures/fail-or-increase', (value: Tensor): Tensor => {
  if (value.size === 2) throw new RangeError('Expected error');
  return value.add(1);
});
const notServed = rpcFunction('failures/not-served', () => 1);
const takeBoth = rpcFunction('failures/take-both', (_rref: RRef<number>, _other: unknown) => 1);

class Counter {
  static readonly [rpcName] = 'failures/Counter';
  ask(): never {
    throw new RpcError('peer-died', "worker 'w9' died", { executed: 'maybe' });
  }
}
rpcClass(Counter, { methods: ['ask'] });

describe.each(['w0', 'w1'])('a creating function on %s that throws', (owner) => {
  it.each([
    ['at once', fail, RangeError],
    ['later', failLater, RangeError],
    ['with another class', failOfType, TypeError],
  ])('%s shows its error, with its class, at every use', (_, fn, type) =>
    onAll(4, async (at) => {
      const text = `no luck for ${getWorkerInfo().name}`;
      const rref = remote(at(owner), fn, [text]);
      const uses = [() => rref.toHere(), () => rref.toHere(), () => rref.typeName(), () => rref.confirmed()];
      if (owner === 'w0') uses.push(() => rref.localValue());
      for (const use of uses) {
        await expect(use()).rejects.toThrow(new type(text));
      }
    }),
  );

  it('shows the class of each: of an error that it threw, and of being called without its argument', () =>
    onAll(4, async (at) => {
      await expect(remote(at(owner), fail, ['no luck']).toHere()).rejects.toThrow(new RangeError('no luck'));
      const without = remote(at(owner), lengthOf, [] as unknown as [string]);
      const error = new TypeError("Cannot read properties of undefined (reading 'length')");
      await expect(without.toHere()).rejects.toThrow(error);
    }));

  it('for the tensor that it was given says so, and goes on for another', () =>
    onAll(4, async (at) => {
      const refused = remote(at(owner), failOrIncrease, [ones([2])]);
      await expect(refused.toHere()).rejects.toThrow(new RangeError('Expected error'));
      using increased = remote(at(owner), failOrIncrease, [ones([3])]);
      expect(shown(await increased.toHere())).toEqual(shown(ones([3]).add(1)));
    }));

  it.each([{ timeoutMs: -1 }, { timeoutMs: 'x' as never }, { signal: {} as never }, { ordered: 5 as never }])(
    'is no unhandled rejection where a use of it was asked for wrongly, with %o',
    (options) =>
      withGroup(2, async () => {
        const unhandled: unknown[] = [];
        const listen = (error: unknown): void => void unhandled.push(error);
        process.on('unhandledRejection', listen);
        for (const use of ['confirmed', 'typeName', 'toHere', 'localValue'] as const)
          for (const isOver of [false, true]) {
            const rref = remote(owner, failLater, ['late']);
            if (isOver) await expect(rref.confirmed()).rejects.toThrow('late');
            await expect(rref[use](options)).rejects.toThrow();
            await expect(rref.confirmed()).rejects.toThrow('late');
            rref.dispose();
          }
        await new Promise((resolve) => setTimeout(resolve, 20));
        process.off('unhandledRejection', listen);
        expect(unhandled).toEqual([]);
      }),
  );

  it('is never an unhandled rejection', () =>
    withGroup(2, async () => {
      const seen: unknown[] = [];
      const listen = (error: unknown): void => void seen.push(error);
      process.on('unhandledRejection', listen);
      for (let i = 0; i < 10; i++) remote(owner, fail, [`unseen ${i}`]);
      await new Promise((resolve) => setTimeout(resolve, 50));
      process.off('unhandledRejection', listen);
      expect(seen).toEqual([]);
    }));

  it('shows to whom the RRef was given', () =>
    withGroup(3, async () => {
      const rref = remote(owner, failLater, ['bad news']);
      await expect(rpcSync('w2', fetch, [rref])).rejects.toThrow(new RangeError('bad news'));
    }));

  it.each(['w2', 'self'])('is what confirmed() of a handle that was handed on rejects with, on %s', (to) =>
    withGroup(3, async () => {
      const rref = remote(owner, failLater, ['bad news']);
      await expect(rpcSync(to === 'self' ? owner : to, confirm, [rref])).rejects.toThrow(new RangeError('bad news'));
    }),
  );

  it('fails the methods called by remote(), before it is known and after', () =>
    withGroup(2, async (agents) => {
      const rref = remote(owner, failLater, ['no luck']) as RRef<unknown> as RRef<Tensor>;
      const early = rref.remote().sum();
      await expect(rref.toHere()).rejects.toThrow(new RangeError('no luck'));
      const late = rref.remote().sum();
      const chained = late.remote().neg();
      for (const made of [early, late, chained]) {
        await expect(made.toHere()).rejects.toThrow(new RangeError('no luck'));
        await expect(made.confirmed()).rejects.toThrow(new RangeError('no luck'));
        made.dispose();
      }
      rref.dispose();
      await eventually(() => agents.every(isEmpty), 'nothing is left');
    }));
});

it('a method that was failed by the death of a third worker says so: its owner is alive', () =>
  withGroup(2, async () => {
    const rref = remote('w1', Counter);
    const died = errorMatching(RpcError, { code: 'peer-died', executed: 'yes', message: "worker 'w9' died" });
    await expect(rref.rpcSync().ask()).rejects.toThrow(died);
    const left = rref.remote().ask() as RRef<unknown>;
    await expect(left.toHere()).rejects.toThrow(died);
    left.dispose();
    rref.dispose();
  }));

/** Lets `heldNoted` go on, which adds to `ended` then. */
let letGo: () => void = () => undefined;
let held: Promise<void> = Promise.resolve();
let ended: number[] = [];
const heldNoted = rpcFunction('failures/held-noted', async (value: number) => {
  await held;
  ended.push(value);
  return value;
});

describe.each(['w0', 'w1'])('a creation on %s that times out', (owner) => {
  it('says so when the RRef is used or shared, and leaves nothing behind', () =>
    whileOthersEnd(4, async (agents) => {
      ended = [];
      held = new Promise((resolve) => (letGo = resolve));
      // What is late where it comes is not run at all: there is a connection when the time begins.
      await rpcSync(owner, identity, [1]);
      const rref = remote(owner, heldNoted, [5], { timeoutMs: 500 });
      const other = remote(owner, heldNoted, [6], { timeoutMs: 500 });
      // PyTorch's future of a creation fails with the text that is the cause here.
      const cause = errorMatching(RpcError, {
        code: 'deadline-exceeded',
        message: 'RPC ran for more than set timeout (500 ms)',
      });
      for (const each of [rref, other])
        await expect(each.confirmed()).rejects.toThrow(
          errorMatching(RpcError, { code: 'deadline-exceeded', message: CREATION_TIMED_OUT, cause }),
        );
      await flushed(agent(agents, 0));
      await expect(rref.toHere()).rejects.toThrow(TIMED_OUT);
      await expect(other.toHere()).rejects.toThrow(TIMED_OUT);
      // The owner has both all the same, while their functions run and when these have ended, until they are let go.
      const atOwner = (): Record<string, number> => counters(agent(agents, owner === 'w1' ? 1 : 0));
      const both = owner === 'w1' ? { num_owner_rrefs: 2, num_forks: 2 } : {};
      expect(ended).toEqual([]);
      expect(atOwner()).toMatchObject(both);
      letGo();
      await eventually(() => ended.length === 2, 'both functions ended');
      expect(ended).toEqual([5, 6]);
      await new Promise((resolve) => setImmediate(resolve));
      expect(atOwner()).toMatchObject(both);
      await expect(rref.toHere()).rejects.toThrow(TIMED_OUT);
      await expect(rpcSync('w2', fetch, [rref])).rejects.toThrow(TIMED_OUT);
      await expect(rpcSync('w2', fetch, [other])).rejects.toThrow(TIMED_OUT);
      await expect(rref.rpcSync().toFixed(1)).rejects.toThrow(TIMED_OUT);
      rref.dispose();
      other.dispose();
      await eventually(() => agents.every(isEmpty), 'everything is let go');
    }));
});

const kept: RRef<unknown>[] = [];
const keepRemote = rpcFunction('failures/keep-remote', async (n: number) => {
  const rref = remote('w1', identity, [n]);
  kept.push(rref);
  return rref.toHere();
});
const dropKept = rpcFunction('failures/drop-kept', () => {
  for (const rref of kept.splice(0)) rref.dispose();
});
const tryHere = rpcFunction('failures/try-here', (rref: RRef<unknown>) =>
  rref.toHere().then(String, (error: Error) => error.message),
);

it('a value that cannot travel is named by its fetch, with how to use it where it is', () =>
  withGroup(2, async () => {
    const rref = remote('w1', Counter);
    await expect(rref.toHere()).rejects.toThrow(
      /^toHere\(\): the value of the RRef, of type 'failures\/Counter', cannot go to worker 'w0': cannot send an instance of class Counter: register it with registerValueType; or call its methods where it is, with rref\.rpcSync\(\)/,
    );
    rref.dispose();
  }));

describe('a use that times out', () => {
  it('leaves the RRef as it was', () =>
    withGroup(2, async () => {
      const rref = remote('w1', later, [5, 400]);
      await expect(rref.toHere({ timeoutMs: 10 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
      await expect(rref.toHere({ timeoutMs: 10 })).rejects.toThrow('RPC ran for more than set timeout');
      expect(await rref.toHere()).toBe(5);
    }));

  it('is bounded on the owner too', () =>
    withGroup(1, async () => {
      const rref = remote('w0', later, [5, 100]);
      await expect(rref.localValue({ timeoutMs: 10 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
      await expect(rref.toHere({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'cancelled' });
      const aborted = new AbortController();
      const pending = rref.toHere({ signal: aborted.signal });
      aborted.abort();
      await expect(pending).rejects.toMatchObject({ code: 'cancelled' });
      expect(await rref.localValue()).toBe(5);
    }));
});

describe('a creation', () => {
  it.each(['w0', 'w1'])(
    'on %s with an idempotency key throws at once: it would make another object all the same',
    (owner) =>
      withGroup(2, async () => {
        const refused = 'remote() takes no idempotency key';
        expect(() => remote(owner, identity, [1], { idempotencyKey: 'k' })).toThrow(refused);
        using counter = remote(owner, Counter);
        expect(() => counter.remote({ idempotencyKey: 'k' }).ask()).toThrow(refused);
      }),
  );

  it.each(['w0', 'w1'])('on %s with a time limit that is none throws at once, and leaves nothing', (owner) =>
    withGroup(2, async ([first]) => {
      for (const timeoutMs of [-1, NaN]) {
        expect(() => remote(owner, identity, [1], { timeoutMs })).toThrow(RangeError);
        expect(() => remote(owner, takeBoth, [createRRef(1), 2], { timeoutMs })).toThrow(RangeError);
      }
      await eventually(() => counters(first as RpcAgent)['num_forks'] === 0, 'no forks');
    }),
  );

  it.each(['w0', 'w1'])('on %s that was aborted says that it was cancelled, not that it took too long', (owner) =>
    withGroup(2, async () => {
      const controller = new AbortController();
      const rref = remote(owner, later, [5, 50], { signal: controller.signal });
      controller.abort();
      const error = (await rref.toHere().catch((thrown: unknown) => thrown)) as Error;
      expect(rpcInfo(error)?.code).toBe('cancelled');
      expect(error.message).toContain('RRef creation via rpc.remote() was cancelled');
      expect(error.message).not.toContain('timed out');
      await new Promise((resolve) => setTimeout(resolve, 80));
    }),
  );
});

describe('a creation that is refused', () => {
  it('shows why: not served, or unknown', () =>
    withGroup(
      2,
      async () => {
        const rref = remote('w1', notServed);
        await expect(rref.toHere()).rejects.toMatchObject({ code: 'permission-denied' });
        await expect(rref.confirmed()).rejects.toMatchObject({ code: 'permission-denied' });
      },
      { serve: [identity] },
    ));

  it('for more forks than one worker may hold, and the earlier ones live on', () =>
    withGroup(
      2,
      async (agents) => {
        const held = [1, 2, 3].map((n) => remote('w1', identity, [n]));
        const tooMany = remote('w1', identity, [4]);
        await expect(tooMany.toHere()).rejects.toMatchObject({ code: 'resource-exhausted' });
        expect(await Promise.all(held.map((rref) => rref.toHere()))).toEqual([1, 2, 3]);
        tooMany.dispose();
        held[0]?.dispose();
        await eventually(() => counters(agent(agents, 1))['num_forks'] === 2);
        expect(await remote('w1', identity, [5]).toHere()).toBe(5);
      },
      { limits: { maxLiveForks: 3 } },
    ));

  it('for a handle that was handed on, with the reason of the owner', () =>
    withGroup(
      3,
      async (agents) => {
        // Two handles of w1 are all that w2 may hold there.
        const held = await Promise.all([1, 2].map((n) => rpcSync('w2', keepRemote, [n])));
        const mine = remote('w1', identity, [3]);
        const outcome = await rpcSync('w2', tryHere, [mine]);
        expect(outcome).toMatch(
          /^one worker may hold 2 live RRef handles of another: .* or raise limits\.maxLiveForks of the owner/,
        );
        expect(held).toEqual([1, 2]);
        mine.dispose();
        await rpcSync('w2', dropKept);
        await eventually(() => agents.every(isEmpty), 'all are forgotten');
      },
      { limits: { maxLiveForks: 2 } },
    ));

  it('on this side: arguments that cannot travel throw at once and leave no fork', () =>
    withGroup(2, async (agents) => {
      const mine = createRRef(1);
      const unsendable = (): void => undefined;
      const why = "the arguments of 'failures/take-both' for worker 'w1': cannot send a function at $[1]";
      expect(() => remote('w1', takeBoth, [mine, unsendable])).toThrow(why);
      await expect(rpcSync('w1', takeBoth, [mine, unsendable])).rejects.toThrow(why);
      await eventually(() => isEmpty(agent(agents, 0)), 'no fork is left');
      expect(() => remote('nobody', identity, [1])).toThrow('could not find destination');
    }));
});

describe('errors of the system', () => {
  it('carry the worker they are about', () =>
    withGroup(2, async (agents: readonly RpcAgent[]) => {
      const rref = remote('w1', later, [1, 50]);
      const error: unknown = await rref.toHere({ timeoutMs: 5 }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(RpcError);
      expect((error as RpcError).peer?.name).toBe('w1');
      expect(agents).toHaveLength(2);
    }));
});
