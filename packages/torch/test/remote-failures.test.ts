/** @file Where creations in a torch group fail: mistakes of the program are thrown, all else is the reference's, and nothing is left behind. */
import { rpcClass, rpcFunction, rpcOneway, rpcSync, type CallOptions } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, ones, rpcName } from '@backwire/tensor';
import { Random, freePort } from '@backwire/testing';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { createTorchAgent } from '../src/join.ts';
import { group, leave } from './group.ts';

class Counter {
  static readonly [rpcName] = 'failures.Counter';
  count = 0;
  add(n = 1): number {
    return (this.count += n);
  }
}
rpcClass(Counter, { methods: ['add'] });
const same = rpcFunction('failures.same', (value: unknown) => value);

let agents: Agent[];
let me: Agent;
beforeAll(async () => {
  agents = await group(2);
  me = agents[0] as Agent;
}, 60_000);
// A fork that nobody was told of, and a call that nobody answers, keep a group from its end.
afterAll(() => leave(agents), 30_000);

const inside = <T>(fn: () => T): T => me.run(fn);
const aborted = { signal: AbortSignal.abort() };
/** The RRef of a creation that was cancelled before it was sent. */
const cancelled = (to = 'n1'): RRef<unknown> => inside(() => remote(to, same, [1], aborted));

/** Nobody holds, asks or is asked anything any more. */
async function nothingIsLeft(): Promise<void> {
  await vi.waitFor(() => {
    for (const { caller, server, rrefs } of agents)
      expect([caller.active, server.active, rrefs.debugInfo()]).toEqual([
        0,
        0,
        { num_owner_rrefs: 0, num_forks: 0, num_pending_users: 0, num_pending_children: 0, num_pending_futures: 0 },
      ]);
  }, 20_000);
}

it('throws arguments that cannot travel, on others and here', async () => {
  for (const to of ['n1', 'n0']) {
    expect(() => inside(() => remote(to, same, [Symbol('no')]))).toThrow(/no form for a symbol/);
    expect(() => inside(() => remote(to, add, ['no', 1] as never))).toThrow(/no overload of 'aten::add'/);
    const gone = ones([2]);
    gone.dispose();
    expect(() => inside(() => remote(to, same, [gone]))).toThrow(/disposed/);
    const counter = inside(() => remote(to, Counter));
    expect(() => counter.remote().add(Symbol('no') as never)).toThrow(/no form for a symbol/);
    await counter.confirmed();
    counter.dispose();
    expect(() => inside(() => remote('n1', same, [counter]))).toThrow(/has been deleted/);
    expect(() => counter.remote().add(1)).toThrow(/has been deleted/);
  }
  await nothingIsLeft();
});

const nested = (depth: number): unknown[] => (depth === 0 ? [] : [nested(depth - 1)]);

it('says whose message is beyond which limit, and whether the function ran', async () => {
  const give = rpcFunction('failures.give', (depth: number) => nested(depth));
  const port = await freePort();
  const small = { maxWriteDepth: 20, maxPickleObjects: 30 };
  const [limited, other] = (await Promise.all(
    [0, 1].map((rank) =>
      createTorchAgent({
        name: `n${rank}`,
        rank,
        worldSize: 2,
        initMethod: `tcp://127.0.0.1:${port}`,
        trustNetwork: true,
        generation: 0,
        limits: rank === 0 ? small : {},
      }),
    ),
  )) as [Agent, Agent];
  const peer = other.self;
  const unsent = { code: 'resource-exhausted', executed: 'no', peer };
  const there = <T>(fn: () => T): T => limited.run(fn);
  await expect(there(() => rpcSync('n1', same, [nested(25)]))).rejects.toMatchObject(unsent);
  for (const to of ['n1', 'n0'])
    expect(() => there(() => remote(to, same, [nested(25)]))).toThrow(expect.objectContaining({ executed: 'no' }));
  expect(await there(() => rpcSync('n1', give, [15]))).toEqual(nested(15));
  const unread = { code: 'resource-exhausted', executed: 'yes', peer };
  await expect(there(() => rpcSync('n1', give, [40]))).rejects.toMatchObject(unread);
  await leave([limited, other]);
});

it('throws a malformed time, a key and what is no signal, wherever they are given', async () => {
  const counter = inside(() => remote('n1', Counter));
  await counter.confirmed();
  for (const [options, what] of [
    [{ timeoutMs: Number.NaN }, /must be non-negative/],
    [{ timeoutMs: -1 }, /must be non-negative/],
    [{ timeoutMs: '5' }, /number of milliseconds/],
    [{ idempotencyKey: 'once' }, /take no idempotencyKey/],
    [{ signal: 5 }, /signal is an AbortSignal/],
  ] as [CallOptions, RegExp][]) {
    expect(() => inside(() => remote('n1', same, [1], options))).toThrow(what);
    expect(() => inside(() => remote('n0', same, [1], options))).toThrow(what);
    expect(() => counter.remote(options).add(1)).toThrow(what);
    expect(() => inside(() => rpcOneway('n1', same, [1], options))).toThrow(what);
    await expect(inside(() => rpcSync('n1', same, [1], options))).rejects.toThrow(what);
    await expect(counter.rpcSync(options).add(1)).rejects.toThrow(what);
    await expect(counter.toHere(options)).rejects.toThrow(what);
  }
  expect(await counter.rpcSync().add(1)).toBe(1);
  counter.dispose();
  await nothingIsLeft();
});

it('refuses options that operations of an RRef do not have', async () => {
  const own = inside(() => createRRef(1));
  const odd = { timeout: 5 } as never;
  for (const asked of [own.toHere(odd), own.localValue(odd), own.confirmed(odd)])
    await expect(asked).rejects.toThrow(/unknown option 'timeout'/);
  for (const ask of [() => own.rpcSync(odd), () => own.rpcAsync(odd), () => own.remote(odd)])
    expect(ask).toThrow(/unknown option 'timeout'/);
});

it('gives an RRef that says why where what failed is not the program’s mistake', async () => {
  for (const to of ['n1', 'n0']) {
    const never = cancelled(to);
    // Asked at once, before anything could have been heard.
    await expect(never.toHere()).rejects.toMatchObject({ code: 'cancelled' });
    // Its owner may give the RRef to others all the same, and they hear it from there.
    const user = to === 'n0' ? undefined : inside(() => remote('n1', same, [never]));
    await expect(user?.toHere() ?? never.toHere()).rejects.toMatchObject({ code: 'cancelled' });
    const method = (never as never as RRef<Counter>).remote().add(1);
    await expect(method.toHere()).rejects.toMatchObject({ code: 'cancelled' });
    for (const rref of [never, user, method]) rref?.dispose();
  }
  await nothingIsLeft();
});

it('leaves nothing of a creation that is not sent, whatever RRefs it was given', async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = new Random(seed);
    const to = random.pick(['n0', 'n1']);
    const given: RRef<unknown>[] = [inside(() => createRRef(5)), inside(() => remote('n1', Counter)), cancelled()];
    const args = Array.from({ length: random.int(1, 3) }, () => random.pick(given));
    const never = args.includes(given[2] as RRef<unknown>);
    const made = inside(() => remote(to, same, [args], random.chance(0.7) ? aborted : {}));
    if (random.chance(0.5)) await made.toHere().catch(() => undefined);
    const odd = (): RRef<unknown> => inside(() => remote(to, same, [[...args, Symbol('no')]]));
    if (never) odd().dispose();
    else expect(odd).toThrow(/no form for a symbol/);
    await made.confirmed().catch(() => undefined);
    for (const rref of [...given, made]) rref.dispose();
  }
  for (const agent of agents) for (const fork of agent.rrefs.worker.users.all()) agent.rrefs.worker.users.release(fork);
  await nothingIsLeft();
});

it('gives an RRef that fails where the worker has left, and throws where there never was one', async () => {
  const [stays, leaves] = (await group(2)) as [Agent, Agent];
  const { self } = leaves;
  const there = <T>(fn: () => T): T => stays.run(fn);
  expect(() => there(() => remote('n7', same, [1]))).toThrow(/no worker 'n7'/);
  const counter = there(() => remote('n1', Counter));
  await counter.confirmed();
  stays.forget('n1');
  for (const to of ['n1', 1, self]) {
    const late = there(() => remote(to, same, [1]));
    await expect(late.toHere()).rejects.toMatchObject({ code: 'unavailable', peer: self });
    late.dispose();
  }
  await expect(counter.remote().add(1).toHere()).rejects.toMatchObject({ code: 'unavailable', peer: self });
  await expect(counter.toHere()).rejects.toMatchObject({ code: 'unavailable' });
  await Promise.all([leaves, stays].map((agent) => agent.shutdown({ graceful: false })));
});
