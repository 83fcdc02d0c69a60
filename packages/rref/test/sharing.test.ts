/** Making RRefs, sharing them in all ways, and what everybody sees of them. */
import {
  barrier,
  callContext,
  currentAgent,
  getWorkerInfo,
  rpcAsync,
  RpcError,
  rpcFunction,
  rpcSync,
  type RpcAgent,
} from '@backwire/rpc';
import { errorMatching, shown } from '@backwire/testing';
import { add, ones, type Tensor, tensor, zeros } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { agent, counters, eventually, flushed, isEmpty, onAll, withGroup } from './group.ts';
import { createRRef, isRRef, listRRefs, remote, rrefDebugInfo, rrefs, type RRef } from '../src/index.ts';

const sum = rpcFunction('sharing/sum', (...values: number[]) => values.reduce((a, b) => a + b, 0));
const fetch = rpcFunction('sharing/fetch', (rref: RRef<number>) => rref.toHere());
const fetchSum = rpcFunction(
  'sharing/fetch-sum',
  async (a: RRef<number>, b: RRef<number>) => (await a.toHere()) + (await b.toHere()),
);
const isConfirmed = rpcFunction('sharing/is-confirmed', (rref: RRef<unknown>) => rref.confirmedByOwner());
const isOwned = rpcFunction('sharing/is-owned', (rref: RRef<unknown>) => rref.isOwner());
const later = rpcFunction('sharing/later', async (value: number, ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return value;
});
const makeRemote = rpcFunction('sharing/make-remote', (to: string, value: number) => remote(to, sum, [value, 1]));
const makeLocal = rpcFunction('sharing/make-local', (...values: number[]) =>
  values.map((value) => createRRef([value])),
);
const appendTo = rpcFunction('sharing/append', async (lists: RRef<number[]>[], value: number) => {
  for (const list of lists) (await list.localValue()).push(value);
});
const nested = rpcFunction('sharing/nested', (to: string) => [remote(to, sum, [1, 1]), remote(to, sum, [2, 2])]);
const nest = rpcFunction('sharing/nest', (rref: RRef<unknown>): RRef<unknown> => rref);
/** By the worker that keeps it. */
const kept = new Map<RpcAgent, RRef<unknown>>();
const keep = rpcFunction('sharing/keep', (rref: RRef<unknown>) => void kept.set(currentAgent(), rref));
const drop = rpcFunction('sharing/drop', () => kept.get(currentAgent())?.dispose());

describe('the four ways of sharing', () => {
  it('gives the owner its own value when a user passes the RRef back, by call and by remote call', () =>
    withGroup(2, async () => {
      const a = remote('w1', sum, [1, 2]);
      const b = remote('w1', sum, [3, 4]);
      expect(await rpcSync('w1', fetchSum, [a, b])).toBe(10);
      expect(await remote('w1', fetchSum, [a, b]).toHere()).toBe(10);
      expect(await rpcSync('w1', isOwned, [a])).toBe(true);
    }));

  it('lets a third worker use what a user shares with it', () =>
    withGroup(3, async () => {
      const a = remote('w1', sum, [1, 2]);
      const b = remote('w1', sum, [3, 4]);
      expect(await rpcSync('w2', fetchSum, [a, b])).toBe(10);
      expect(await remote('w2', fetchSum, [a, b]).toHere()).toBe(10);
      a.dispose();
      b.dispose();
    }));

  it('shares what this worker owns, in calls to others and to itself', () =>
    withGroup(2, async () => {
      const own = remote('w0', sum, [20, 1]);
      for (const to of ['w0', 'w1']) {
        expect(await rpcSync(to, fetch, [own])).toBe(21);
        expect(await rpcAsync(to, fetch, [own])).toBe(21);
        expect(await remote(to, fetch, [own]).toHere()).toBe(21);
        expect(await rpcSync(to, fetch, [createRRef(7)])).toBe(7);
      }
    }));

  it('brings RRefs back in results, in lists and inside other RRefs', () =>
    withGroup(3, async () => {
      const third = await rpcSync('w1', makeRemote, ['w2', 4]);
      expect(third.ownerName()).toBe('w2');
      expect(await third.toHere()).toBe(5);
      const list = await remote('w1', nested, ['w2']).toHere();
      expect(await Promise.all(list.map((rref) => rref.toHere()))).toEqual([2, 4]);
      const deep = createRRef(createRRef(createRRef(3)));
      const inner = await rpcSync('w1', nest, [deep]);
      expect(await (await ((await inner.toHere()) as RRef<RRef<number>>).toHere()).toHere()).toBe(3);
    }));

  it('takes twenty RRefs of RRefs at once', () =>
    withGroup(3, async () => {
      const all = Array.from({ length: 20 }, () => remote('w1', nested, ['w2']));
      const values = await Promise.all(
        all.map(async (rref) => Promise.all((await rref.toHere()).map((inner) => inner.toHere()))),
      );
      expect(values).toEqual(Array.from({ length: 20 }, () => [2, 4]));
    }));
});

describe('what a handle says', () => {
  it("has PyTorch's string forms and numbering", () =>
    onAll(4, async (at) => {
      const { id } = getWorkerInfo();
      const own = createRRef(id);
      const first = remote(at('w1'), add, [ones([2, 2]), 1]);
      const second = remote(at('w1'), sum, [1]);
      const form = (rref: number, fork: number): string =>
        `UserRRef(RRefId = GloballyUniqueId(created_on=${id}, local_id=${rref}), ForkId = GloballyUniqueId(created_on=${id}, local_id=${fork}))`;
      expect(String(own)).toBe(`OwnerRRef(GloballyUniqueId(created_on=${id}, local_id=0))`);
      expect(String(first)).toBe(form(1, 2));
      expect(String(second)).toBe(form(3, 4));
      expect(JSON.stringify({ first })).toBe(JSON.stringify({ first: form(1, 2) }));
      expect(first.id).toEqual({ createdOn: id, localId: 1n });
    }));

  it('knows its owner', () =>
    withGroup(2, async () => {
      const there = remote('w1', sum, [1]);
      const here = createRRef(1);
      expect([there.isOwner(), there.ownerName(), there.owner().id]).toEqual([false, 'w1', 1]);
      expect([here.isOwner(), here.ownerName(), here.owner().id]).toEqual([true, 'w0', 0]);
      expect([isRRef(there), isRRef(here), isRRef({}), isRRef(null), isRRef('x')]).toEqual([
        true,
        true,
        false,
        false,
        false,
      ]);
    }));

  it.each<[string, (to: string, rref: RRef<unknown>) => Promise<boolean>]>([
    ['rpcSync', (to, rref) => rpcSync(to, isConfirmed, [rref])],
    ['rpcAsync', (to, rref) => rpcAsync(to, isConfirmed, [rref])],
    ['remote', (to, rref) => remote(to, isConfirmed, [rref]).toHere()],
  ])('is confirmed in the function that receives it, before it starts: %s', (_, ask) =>
    onAll(4, async (at) => {
      // An operation, as in PyTorch's test, whose owner comes after the one that is asked, and a function that takes its time.
      for (const [make, asked] of [
        [() => remote(at('w2'), add, [zeros([2, 2]), 1]), at('w1')],
        [() => remote(at('w1'), later, [1, 20]), at('w2')],
      ] as const) {
        const rref = make();
        expect(rref.confirmedByOwner()).toBe(false);
        expect(await ask(asked, rref)).toBe(true);
        await rref.confirmed();
        expect(rref.confirmedByOwner()).toBe(true);
      }
    }),
  );

  it('is confirmed when it came from its owner', () =>
    withGroup(2, async () => {
      const [given] = (await rpcSync('w1', makeLocal, [1])) as [RRef<number[]>];
      expect(given.isOwner()).toBe(false);
      expect(given.confirmedByOwner()).toBe(true);
      await given.confirmed();
      await createRRef(1).confirmed();
    }));

  it('shares an RRef whose creation still runs', () =>
    withGroup(3, async () => {
      const slow = remote('w1', later, [9, 60]);
      expect(await rpcSync('w2', fetch, [slow])).toBe(9);
    }));
});

const CUT_OFF =
  'RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist.';
/** Ends only with the call that it is. */
const untilCutOff = rpcFunction('sharing/until-cut-off', () => {
  const { signal } = callContext();
  return new Promise<number>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
});

describe.each([
  ['a time limit', 'deadline-exceeded', CUT_OFF],
  ['a signal', 'cancelled', CUT_OFF.replace('timed out', 'was cancelled')],
] as const)('a creation that %s ends where it runs', (way, code, words) => {
  it('says so to others who have the RRef, and not that their time is over', () =>
    withGroup(3, async (agents) => {
      const controller = new AbortController();
      const rref = remote(
        'w1',
        untilCutOff,
        [],
        way === 'a signal' ? { signal: controller.signal } : { timeoutMs: 400 },
      );
      const there = rpcSync('w2', fetch, [rref]);
      await eventually(() => counters(agent(agents, 1))['num_forks'] === 2, 'w2 has a fork');
      controller.abort();
      await expect(there).rejects.toThrow(errorMatching(RpcError, { code, message: words }));
      await expect(rref.toHere()).rejects.toThrow(errorMatching(RpcError, { code, message: words }));
    }));
});

describe('values', () => {
  it('keeps a local value without telling anybody', () =>
    onAll(4, async (_at, self) => {
      const value = { n: 1 };
      const rref = createRRef(value);
      expect(await rref.localValue()).toBe(value);
      expect(await rref.toHere()).toEqual(value);
      expect(await rref.toHere()).not.toBe(value);
      expect(await createRRef(35).localValue()).toBe(35);
      expect(isEmpty(self)).toBe(true);
    }));

  it('returns local RRefs that others change where they are', () =>
    withGroup(2, async () => {
      const lists = await rpcSync('w1', makeLocal, [1, 2]);
      await rpcSync(lists[0]?.owner() ?? '', appendTo, [lists, 5]);
      expect(await Promise.all(lists.map((list) => list.toHere()))).toEqual([
        [1, 5],
        [2, 5],
      ]);
    }));

  it('combines two values of one owner there', () =>
    onAll(4, async (at) => {
      const { id } = getWorkerInfo();
      const like = ones([id + 1, id + 1]);
      const a = remote(at('w1'), add, [like, 2]);
      const b = remote(at('w1'), add, [like, 1]);
      const c = remote(at('w1'), addThem, [a, b]);
      expect(c.ownerName()).toBe(at('w1'));
      expect(shown(await c.toHere())).toEqual(shown(like.add(4)));
    }));

  it('gives the owner a second handle of a tensor, which may be disposed', () =>
    withGroup(1, async () => {
      const value = tensor([1, 2]);
      const rref = createRRef(value);
      const copy = await rref.toHere();
      copy.dispose();
      expect(value.disposed).toBe(false);
      expect(await rref.localValue()).toBe(value);
      expect((await rref.toHere()).toArray()).toEqual([1, 2]);
    }));

  it('carries RRefs in maps, objects and lists', () =>
    withGroup(2, async () => {
      const rref = remote('w1', sum, [2, 3]);
      const inside = { list: [rref], map: new Map([['it', rref]]) };
      expect(await rpcSync('w1', sumInside, [inside])).toBe(10);
    }));
});

const addThem = rpcFunction('sharing/add-tensors', async (a: RRef<Tensor>, b: RRef<Tensor>) =>
  (await a.toHere()).add(await b.toHere()),
);
const sumInside = rpcFunction(
  'sharing/sum-inside',
  async ({ list, map }: { list: RRef<number>[]; map: Map<string, RRef<number>> }) => {
    const found = [...list, ...map.values()];
    return (await Promise.all(found.map((rref) => rref.toHere()))).reduce((a, b) => a + b, 0);
  },
);

describe('the tables', () => {
  it('count local, shared and remote RRefs as PyTorch does', () =>
    onAll(4, async (at, self) => {
      const [next, me] = [at('w1'), self.name];
      const none = {
        num_owner_rrefs: 0,
        num_forks: 0,
        num_pending_users: 0,
        num_pending_children: 0,
        num_pending_futures: 0,
      };
      expect(rrefDebugInfo()).toEqual(none);
      const own = createRRef(1);
      expect(rrefDebugInfo()).toEqual(none);
      // What others change here is looked at between barriers, as in PyTorch's test.
      await barrier();
      await rpcSync(next, keep, [own]);
      // The worker before this one has given it a handle to keep by now, which is not pending either.
      await flushed(self);
      await barrier();
      expect(rrefDebugInfo()).toMatchObject({
        num_owner_rrefs: 1,
        num_forks: 1,
        num_pending_users: 0,
        num_pending_futures: 0,
      });
      expect(listRRefs().filter(({ owner }) => owner === me)).toMatchObject([{ holders: [next], type: 'number' }]);
      expect(listRRefs().filter(({ owner }) => owner !== me)).toMatchObject([{ owner: at('w3') }]);
      await barrier();
      await rpcSync(next, drop);
      await eventually(() => isEmpty(self), 'the fork came home');
      await barrier();
      const there = remote(next, later, [1, 30]);
      expect(rrefDebugInfo()).toMatchObject({ num_pending_users: 1 });
      await there.confirmed();
      await barrier();
      expect(counters(self)).toMatchObject({ num_owner_rrefs: 1, num_forks: 1, num_pending_users: 0 });
      expect(listRRefs().filter(({ owner }) => owner === next)).toMatchObject([{ holders: [me] }]);
      await barrier();
      there.dispose();
      await eventually(() => isEmpty(self), 'the value was let go');
      await barrier();
      const both = [1, 2].map(() => remote(next, add, [ones([2, 2]), 1]));
      for (const each of both) expect(shown(await each.toHere())).toEqual(shown(ones([2, 2]).add(1)));
      await flushed(self);
      await barrier();
      expect(rrefDebugInfo()).toMatchObject({
        num_owner_rrefs: 2,
        num_forks: 2,
        num_pending_users: 0,
        num_pending_futures: 0,
      });
      await barrier();
      for (const each of both) each.dispose();
      await eventually(() => isEmpty(self), 'the values were let go');
      await barrier();
      const mine = remote(me, later, [1, 10]);
      expect(rrefDebugInfo()).toMatchObject({ num_owner_rrefs: 1, num_forks: 1 });
      expect(await mine.toHere()).toBe(1);
      await eventually(() => isEmpty(self), 'the self fork is gone');
      expect(await mine.toHere()).toBe(1);
    }));

  it('name where an RRef was made, when asked to', () =>
    withGroup(
      2,
      async () => {
        const own = createRRef(1);
        await rpcSync('w1', keep, [own]);
        expect(listRRefs()[0]?.createdAt).toContain('sharing.test.ts');
        await rpcSync('w1', drop);
      },
      { extensions: [rrefs({ creationSites: true })] },
    ));

  it('are empty again after a hundred objects went through three workers', () =>
    withGroup(3, async (agents) => {
      await Promise.all(
        Array.from({ length: 100 }, async (_, i) => {
          const rref = remote(`w${1 + (i % 2)}`, sum, [i]);
          expect(await rpcSync(`w${2 - (i % 2)}`, fetch, [rref])).toBe(i);
          rref.dispose();
        }),
      );
      await eventually(() => agents.every((each) => counters(each)['num_pending_children'] === 0));
    }));
});

class Pair {
  readonly key: number;
  readonly weight: Tensor | undefined;
  constructor(key: number, weight: Tensor | undefined) {
    this.key = key;
    this.weight = weight;
  }
}
registerValueType({
  name: 'sharing/Pair',
  match: Pair,
  encode: ({ key, weight }) => [key, weight],
  decode: (plain) => new Pair(...(plain as [number, Tensor | undefined])),
});

describe('toHere on the owner', () => {
  it('gives second handles of the same leaf, in containers of their own', () =>
    withGroup(1, async () => {
      const leaf = ones([2], { requiresGrad: true });
      const rref = createRRef({ list: [leaf], map: new Map([['it', leaf]]) });
      const { list, map } = await rref.toHere();
      const [second] = list;
      expect(second).not.toBe(leaf);
      expect([second?.isLeaf, map.get('it')?.isLeaf, second?.requiresGrad]).toEqual([true, true, true]);
      second?.mul(3).sum().backward();
      expect(leaf.grad?.toArray()).toEqual([3, 3]);
      second?.dispose();
      expect((await rref.localValue()).list[0]?.toArray()).toEqual([1, 1]);
    }));

  it('gives them in sets and in values of registered types, too; what holds no tensor is itself', () =>
    withGroup(1, async () => {
      const mine = new Pair(1, ones([2]));
      const [set, light] = [new Set([mine]), new Pair(2, undefined)];
      const [second] = await createRRef(set).toHere();
      expect(second).toBeInstanceOf(Pair);
      second?.weight?.dispose();
      expect(mine.weight?.disposed).toBe(false);
      expect(await createRRef(light).toHere()).toBe(light);
      const other = new Error('of no registered type');
      expect(await createRRef(other).toHere()).toBe(other);
    }));
});

describe('agents in one process', () => {
  it('refuses to send an RRef of another agent', () =>
    withGroup(2, async (agents) => {
      const mine = createRRef(1);
      await agent(agents, 1).run(async () => {
        const message = "this RRef belongs to agent 'w0'; agent 'w1' cannot send it";
        await expect(rpcSync('w0', fetch, [mine])).rejects.toThrow(
          errorMatching(RpcError, { code: 'failed-precondition', message }),
        );
      });
      expect(currentAgent()).toBe(agents[0]);
    }));
});
