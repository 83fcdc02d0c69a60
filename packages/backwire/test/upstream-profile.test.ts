/** @file PyTorch's tests of profiles, with the programs and the comparisons of the originals; worker 1 of four drives where it does in them. */
import { errorMatching } from '@backwire/testing';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  add,
  createAgent,
  distAutograd,
  mul,
  ones,
  profiler,
  rand,
  remote,
  rpcAsync,
  RpcError,
  rpcFunction,
  rpcSync,
  sub,
  tensor,
  type RpcAgent,
  type RpcOptions,
  type RRef,
  type Tensor,
} from '../src/index.ts';

type ProfileEvent = ReturnType<profiler.Profile['events']>[number];
type Mode = 'sync' | 'async' | 'remote';

let agents: RpcAgent[] = [];
let groups = 0;
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
});
const SELF = 1;
const OTHERS = [0, 2, 3];
/** Runs `fn` on worker 1 of four. */
async function onSecond<T>(fn: () => Promise<T>, options: Partial<RpcOptions> = {}): Promise<T> {
  return onWorker(SELF, fn, options);
}
async function onWorker<T>(rank: number, fn: () => Promise<T>, options: Partial<RpcOptions> = {}): Promise<T> {
  const store = `memory://umbrella-profile-${groups++}`;
  agents = await Promise.all(
    [0, 1, 2, 3].map((each) => createAgent({ name: `worker${each}`, rank: each, worldSize: 4, store, ...options })),
  );
  return (agents[rank] as RpcAgent).run(fn);
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const operations = (): void => {
  let t = add(ones([1]), ones([1]));
  t = mul(t, t).relu();
  t.sigmoid();
};
/** PyTorch's list, but for the `aten::clamp_min` that its relu is made of. */
const OPERATIONS = ['aten::ones', 'aten::ones', 'aten::add', 'aten::mul', 'aten::relu', 'aten::sigmoid'];
const withOperations = rpcFunction('upstream-profile/operations', (label?: string): void =>
  label === undefined ? operations() : profiler.recordFunction(label, operations),
);
/** No tensors come with it. */
const sleep = rpcFunction('upstream-profile/sleep', async (ms: number) => {
  await pause(ms);
  return mul(tensor(1, { dtype: 'int64' }), tensor(1, { dtype: 'int64' }));
});
const slowAdd = rpcFunction('upstream-profile/slow-add', async (x: Tensor, y: Tensor) => {
  await pause(10);
  return add(x, y);
});
const slowAsyncAdd = rpcFunction('upstream-profile/slow-async-add', (to: string, x: Tensor, y: Tensor) =>
  rpcAsync(to, slowAdd, [x, y]),
);
const eventsOf = rpcFunction('upstream-profile/events-of', async (rref: RRef<profiler.ServerProfiler>) =>
  (await rref.localValue()).events().map((call) => call.map(({ name }) => name)),
);

const key = (mode: Mode, fn: string, from: number, to: number): string =>
  `rpc_${mode}#${fn}(worker${from} -> worker${to})`;
const REMOTE = '#remote_op: ';
const names = (events: readonly ProfileEvent[]): string[] => events.map(({ name }) => name);
const end = (event: ProfileEvent): number => event.startUs + event.durationUs;
const recorded = async (fn: () => unknown, options?: profiler.ProfileOptions): Promise<readonly ProfileEvent[]> =>
  (await profiler.profile(fn, options)).profile.events();

const SLOW_CALLS: readonly [string, Partial<RpcOptions>][] = [
  ['many handlers', {}],
  ['one handler at a time', { maxConcurrentCalls: 1 }],
];

/** The operations of `withOperations`, by name, as they are recorded here. */
async function operationsHere(): Promise<string[]> {
  const here = names(await recorded(() => withOperations()));
  expect(here).toEqual(OPERATIONS);
  return here;
}

describe.each(SLOW_CALLS)('a profile, with %s', (_, options) => {
  it.each(
    (['sync', 'async', 'remote'] as const).flatMap((mode) => [
      [mode, 'a built-in operation', mul, () => [ones([1]), ones([1])], 'aten::mul'] as const,
      [mode, 'a function', sleep as unknown as typeof mul, () => [50], 'upstream-profile/sleep'] as const,
    ]),
  )('has the event of a call (%s) of %s here, and what ran there under its worker', (mode, _kind, fn, given, name) =>
    onSecond(async () => {
      for (const [to, label] of [[2], [2, 'foo'], ...(mode === 'remote' ? [[SELF] as const] : [])] as const) {
        const run = async (): Promise<void> => {
          const args = given() as [Tensor, Tensor];
          if (mode !== 'remote') return void (await (mode === 'sync' ? rpcSync : rpcAsync)(to, fn, args));
          using rref = remote(to, fn, args);
          await rref.toHere();
          // The value of this worker is there before the answer that brings what making it did.
          await expect.poll(() => agents[SELF]?.debugInfo()['num_profiled_calls']).toBe(0);
        };
        const events = await recorded(() => (label === undefined ? run() : profiler.recordFunction(label, run)));
        const calls = events.filter((event) => event.name.startsWith(`rpc_${mode}#`) && !event.name.includes(REMOTE));
        expect(names(calls)).toEqual([key(mode, name, SELF, to)]);
        const call = calls[0]!;
        expect(call).toMatchObject({ node: SELF, isRemote: false });
        if (fn !== mul) expect(call.durationUs).toBeGreaterThan(45_000);
        const there = events.filter((event) => event.node === to && event !== call);
        const multiplied = events.filter((event) => event.name === `${call.name}${REMOTE}aten::mul`);
        expect(multiplied.map(({ node, isRemote }) => [node, isRemote])).toEqual([[to, true]]);
        expect(events.every(({ node }) => node === SELF || node === to)).toBe(true);
        if (to !== SELF) expect(there.every(({ isRemote }) => isRemote)).toBe(true);
        if (label === undefined) continue;
        const scope = events.find((event) => event.name === label)!;
        expect(scope.node).toBe(SELF);
        expect(scope.startUs).toBeLessThanOrEqual(call.startUs);
        expect(end(scope)).toBeGreaterThanOrEqual(end(call));
        expect(events.indexOf(scope)).toBeLessThan(events.indexOf(call));
      }
      if (mode !== 'async') return;
      // Two equal ones at once in one profile, as PyTorch's test has them in its other profiler, which does not see them.
      const both = await recorded(() => Promise.all([0, 1].map(() => rpcAsync(2, fn, given() as [Tensor, Tensor]))));
      const nodes = (name: string): unknown[] =>
        both.filter((event) => event.name === name).map(({ node, isRemote }) => [node, isRemote]);
      const call = key('async', name, SELF, 2);
      expect(nodes(call)).toEqual([0, 1].map(() => [SELF, false]));
      expect(nodes(`${call}${REMOTE}aten::mul`)).toEqual([0, 1].map(() => [2, true]));
    }, options),
  );

  it('has the operations of a function on another worker, in their order, with its node', () =>
    onSecond(async () => {
      const here = await operationsHere();
      for (const to of OTHERS) {
        const events = await recorded(() => rpcAsync(to, withOperations));
        const call = key('async', 'upstream-profile/operations', SELF, to);
        const there = events.filter(({ isRemote }) => isRemote);
        expect(names(there)).toEqual(here.map((name) => `${call}${REMOTE}${name}`));
        expect(there.map(({ node }) => node)).toEqual(here.map(() => to));
        expect(events.filter(({ name }) => name === call).map(({ node }) => node)).toEqual([SELF]);
      }
    }, options));

  it('has a call that a handler makes under its own worker, and what that did under the last', () =>
    onSecond(async () => {
      const events = await recorded(() =>
        rpcAsync(2, slowAsyncAdd, ['worker3', ones([2]), ones([2])], { timeoutMs: 20_000 }),
      );
      const first = key('async', 'upstream-profile/slow-async-add', SELF, 2);
      const second = `${first}${REMOTE}${key('async', 'upstream-profile/slow-add', 2, 3)}`;
      const like = (name: string): unknown[] =>
        events.filter((event) => event.name === name).map(({ node, isRemote }) => [node, isRemote]);
      expect(like(first)).toEqual([[SELF, false]]);
      expect(like(second)).toEqual([[2, true]]);
      expect(like(`${second}${REMOTE}aten::add`)).toEqual([[3, true]]);
    }, options));

  it('has a call whose message is wrapped twice, with a context outside or inside of the profile', () =>
    onSecond(async () => {
      const leaf = (): Tensor => tensor(1, { requiresGrad: true });
      const call = async (): Promise<void> => {
        const product = await rpcAsync(2, mul, [leaf(), leaf()]);
        expect(product.gradFn?.name).toBe('RecvRpcBackward');
      };
      const outside = await distAutograd.context(() => recorded(call));
      const inside = await recorded(() => distAutograd.context(call));
      const name = key('async', 'aten::mul', SELF, 2);
      for (const events of [outside, inside]) {
        const there = events.filter((event) => event.name === `${name}${REMOTE}aten::mul`);
        expect(there.map(({ node, isRemote }) => [node, isRemote])).toEqual([[2, true]]);
        expect(events.filter((event) => event.name === name).map(({ node }) => node)).toEqual([SELF]);
      }
    }, options));
});

it('profiles at the same time keep their keys, on every worker', () =>
  onSecond(async () => {
    const here = await operationsHere();
    for (const to of OTHERS) {
      const both = await Promise.all([0, 1].map(() => recorded(() => rpcAsync(to, withOperations))));
      for (const events of both) {
        const call = key('async', 'upstream-profile/operations', SELF, to);
        const there = events.filter(({ isRemote }) => isRemote);
        expect(names(there)).toEqual(here.map((name) => `${call}${REMOTE}${name}`));
        expect(there.every(({ node }) => node === to)).toBe(true);
        expect(names(events).filter((name) => !name.includes(REMOTE))).toEqual([call]);
      }
    }
  }));

it("the type of another worker's value is asked for by one call, under PyTorch's key, and by none once it is known", () =>
  onSecond(async () => {
    // All workers at once: a profile has its own question alone.
    const onEach = async (rank: number): Promise<void> => {
      const next = (rank + 1) % 4;
      const rref = remote(next, add, [ones([2]), 1]);
      const types: string[] = [];
      const ask = async (): Promise<void> => void types.push(await rref.typeName());
      const launched = async (times: number): Promise<string[]> => {
        const events = await recorded(async () => {
          for (let i = 0; i < times; i++) await ask();
        });
        return names(events).filter((name) => name.startsWith('rpc_'));
      };
      expect(await launched(1)).toEqual([key('async', '_rref_typeof_on_owner', rank, next)]);
      expect(await launched(10)).toEqual([]);
      expect(types).toEqual(Array.from({ length: 11 }, () => 'Tensor'));
      rref.dispose();
    };
    await Promise.all(agents.map((agent, rank) => agent.run(() => onEach(rank))));
  }));

it("fetching a value has PyTorch's key, and none on its owner, as it asks nobody there", () =>
  onSecond(async () => {
    using there = remote(2, add, [ones([2]), 1]);
    using here = remote(SELF, add, [ones([2]), 1]);
    await Promise.all([there, here].map((rref) => rref.confirmed()));
    const [fetched, ...more] = await recorded(() => there.toHere());
    expect([fetched?.name, fetched?.node, fetched?.isRemote]).toEqual(['to_here#(worker1)->(worker2)', SELF, false]);
    expect(more).toEqual([]);
    expect(names(await recorded(() => here.toHere()))).toEqual([]);
  }));

it('shapes of a call are those of the operation here', () =>
  onSecond(async () => {
    const [x, y] = [ones([100]), ones([2, 100])];
    const there = await recorded(() => rpcSync(2, add, [x, y]), { recordShapes: true });
    const here = await recorded(() => add(x, y), { recordShapes: true });
    const shapes = (events: readonly ProfileEvent[]): unknown =>
      events.find((event) => event.name.endsWith('aten::add'))?.shapes;
    const remoteAdd = there.filter(({ isRemote }) => isRemote);
    expect(shapes(remoteAdd)).toEqual([[100], [2, 100]]);
    expect(shapes(remoteAdd)).toEqual(shapes(here));
  }));

it('memory of a call comes over the wire when it is asked for, and else does not', () =>
  onSecond(async () => {
    const bytes = async (profileMemory: boolean): Promise<number[]> => {
      const events = await recorded(() => rpcAsync(2, withOperations), { profileMemory });
      if (!profileMemory) expect(events.every((event) => (event.bytes ?? 0) === 0)).toBe(true);
      return events.filter(({ isRemote }) => isRemote).map((event) => event.bytes ?? 0);
    };
    const here = await recorded(() => withOperations(), { profileMemory: true });
    expect(await bytes(true)).toEqual(here.map((event) => event.bytes));
    expect(here.some((event) => event.bytes !== 0)).toBe(true);
    expect(await bytes(false)).toEqual(OPERATIONS.map(() => 0));
  }));

it('a trace file has the operations there and the call', () =>
  onSecond(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'backwire-trace-'));
    try {
      const { profile } = await profiler.profile(() => rpcAsync(2, withOperations));
      await profile.writeChromeTrace(join(folder, 'trace.json'));
      const { traceEvents } = JSON.parse(readFileSync(join(folder, 'trace.json'), 'utf8')) as {
        traceEvents: { ph: string; name: string; pid: number }[];
      };
      const drawn = (pid: number): string[] =>
        traceEvents.filter((event) => event.ph === 'X' && event.pid === pid).map(({ name }) => name);
      // The call is on both rows: as it was made, and as it was handled.
      const call = key('async', 'upstream-profile/operations', SELF, 2);
      expect(drawn(2)).toEqual([call, ...(await operationsHere())]);
      expect(drawn(SELF)).toEqual([call]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }));

it('a label of a function there comes back once, with the operations inside that it has here', () =>
  onSecond(async () => {
    /** What lies inside of the label, as its own worker names it. */
    const inside = (events: readonly ProfileEvent[], node: number): string[] => {
      const labels = events.filter(({ name }) => name.endsWith('##forward##'));
      expect(labels.map((label) => label.node)).toEqual([node]);
      const [label] = labels as [ProfileEvent];
      return events
        .filter((event) => event !== label && event.node === node)
        .filter((event) => event.startUs >= label.startUs && end(event) <= end(label))
        .map(({ name }) => name.split(REMOTE).at(-1) as string);
    };
    const here = inside(await recorded(() => withOperations('##forward##')), SELF);
    expect(here).toEqual(OPERATIONS);
    for (const to of OTHERS)
      expect(inside(await recorded(() => rpcAsync(to, withOperations, ['##forward##'])), to)).toEqual(here);
  }));

it('a backward pass has its send and receive functions, each once on each worker, within its time', () =>
  onSecond(async () => {
    const backward = 'torch::distributed::autograd::backward';
    // All workers at once: a profile has its own pass alone.
    const onEach = async (rank: number): Promise<void> => {
      const events = await distAutograd.context(async (id) => {
        const leaf = (): Tensor => Object.assign(rand([3, 3]), { requiresGrad: true });
        const loss = (await rpcSync((rank + 1) % 4, add, [leaf(), leaf()])).sum();
        return recorded(() => distAutograd.backward(id, [loss]));
      });
      const [pass, ...more] = events.filter(({ name }) => name === backward);
      expect(more).toEqual([]);
      expect(pass?.node).toBe(rank);
      for (const name of ['SendRpcBackward', 'RecvRpcBackward']) {
        const found = events.filter((event) => event.name.includes(name));
        expect(new Set(found.map(({ node }) => node))).toEqual(new Set([rank, (rank + 1) % 4]));
        expect(found).toHaveLength(2);
        for (const { durationUs } of found) expect(pass?.durationUs).toBeGreaterThan(durationUs);
      }
    };
    await Promise.all(agents.map((agent, rank) => agent.run(() => onEach(rank))));
    const failed = await recorded(async () => {
      await expect(distAutograd.backward(1n, [])).rejects.toThrow(
        errorMatching(RpcError, { code: 'not-found', message: 'Could not find autograd context with id: 1' }),
      );
      profiler.recordFunction('after', () => undefined);
    });
    expect(names(failed)).toEqual([backward, 'after']);
    expect(end(failed[0]!)).toBeLessThanOrEqual(failed[1]!.startUs);
  }));

it('server profilers made and switched by another worker nest: each has what ran while it was on', () =>
  onWorker(0, async () => {
    const [x, y] = [1, 2].map((value) => tensor(value, { dtype: 'int64' })) as [Tensor, Tensor];
    const outer = remote(1, profiler.ServerProfiler);
    await outer.rpcSync().enter();
    await rpcSync(1, add, [x, y]);
    const inner = remote(1, profiler.ServerProfiler);
    await inner.rpcSync().enter();
    await rpcSync(1, sub, [x, y]);
    await inner.rpcSync().exit();
    await outer.rpcSync().exit();
    // Each call is a list: what was called, and what it did. Those that make and switch profilers are calls, too, that do no operation;
    // the one that switches a profiler off has begun while that was on.
    const called = (of: RRef<profiler.ServerProfiler>): Promise<string[][]> => rpcSync(1, eventsOf, [of]);
    const [ofAdd, ofSub] = ['add', 'sub'].map((name) => [`aten::${name}`, `aten::${name}`]);
    const [made, switched] = [['backwire/ServerProfiler'], ['backwire.rref/invoke']];
    expect(await called(inner)).toEqual([ofSub, switched]);
    expect(await called(outer)).toEqual([ofAdd, made, switched, ofSub, switched, switched]);
    /** The rows of the sums of operations: a name, and how often it was. */
    const summed = async (of: RRef<profiler.ServerProfiler>): Promise<string[][]> =>
      (await of.rpcSync().table())
        .split('\n')
        .map((row) => row.trim().split(/\s+/))
        .filter(([name]) => name?.startsWith('aten::'))
        .map((row) => [row[0]!, row[5]!])
        .sort();
    // The call and the operation.
    expect(await summed(inner)).toEqual([['aten::sub', '2']]);
    expect(await summed(outer)).toEqual([
      ['aten::add', '2'],
      ['aten::sub', '2'],
    ]);
  }));
