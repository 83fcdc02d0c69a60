/** References in calls that never start, and in items that nobody takes: given back at once, without waiting for the garbage collector. */
import {
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcOneway,
  rpcStream,
  rpcSync,
  type Extension,
  type RpcAgent,
} from '@backwire/rpc';
import { rpcName } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { agent, counters, eventually, isEmpty, startGroup, withGroup } from './group.ts';
import { createRRef, remote, rrefs, type RRef } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

/** Cannot be read back. */
class Unreadable {
  readonly anything = 1;
}
registerValueType({
  name: 'unclaimed/unreadable',
  match: Unreadable,
  encode: () => 'anything',
  decode: () => {
    throw new TypeError('unreadable');
  },
});

let started = 0;
let open: () => void = () => undefined;
const block = rpcFunction('unclaimed/block', () => new Promise<void>((resolve) => (open = resolve)));
const take = rpcFunction('unclaimed/take', (...given: unknown[]) => {
  started++;
  for (const each of given) (each as Partial<RRef<unknown>>).dispose?.();
});
const give = rpcFunction('unclaimed/give', () => [createRRef(1), new Unreadable()]);
const handOn = rpcFunction('unclaimed/hand-on', (rref: RRef<number>) => {
  rpcAsync('w1', take, [rref]).catch(() => undefined);
});
const items = rpcFunction('unclaimed/items', async function* (): AsyncGenerator<RRef<number>, void, void> {
  for (let i = 0; ; i++) yield createRRef(i);
});

class Endless {
  static readonly [rpcName] = 'unclaimed/endless';
  *items(): Generator<RRef<number>, void, void> {
    for (let i = 0; ; i++) yield createRRef(i);
  }
}
rpcClass(Endless, { methods: ['items'] });

/** Sees every request: calls are messages until they start. */
const watcher: Extension = { name: 'watcher', attach: () => ({ serve: (call, next) => next(call) }) };

const released = (agents: readonly RpcAgent[]): Promise<void> =>
  eventually(() => agents.every(isEmpty), 'everything is released');

describe.each([
  ['plain calls', [rrefs()]],
  ['calls that an extension looks at', [rrefs(), watcher]],
])('references in arguments of %s', (_, extensions) => {
  const one = { extensions, maxConcurrentCalls: 1 };

  it('come back when the caller gives up before there is a place for the call', () =>
    withGroup(
      2,
      async (agents) => {
        started = 0;
        const blocked = rpcAsync('w1', block);
        const abort = new AbortController();
        const mine = createRRef(1);
        const made = remote('w1', take, [mine], { signal: abort.signal });
        const calls = Promise.allSettled([rpcAsync('w1', take, [mine, mine], { signal: abort.signal }), made.toHere()]);
        const held = (): number => sessionOf(agent(agents, 1)).worker.users.size;
        await eventually(() => held() === 3, 'the calls have arrived');
        abort.abort();
        for (const { status } of await calls) expect(status).toBe('rejected');
        // What comes after the cancellations shows that they have arrived. None of them waits for a place any more.
        rpcOneway('w1', take, [createRRef(2)]);
        await eventually(() => held() === 1, 'the cancelled calls have been dropped');
        made.dispose();
        open();
        await blocked;
        await released(agents);
        expect(started).toBe(1);
        expect(counters(agent(agents, 1))['num_collected_rrefs']).toBe(0);
      },
      (rank) => (rank === 1 ? one : { extensions }),
    ));

  it('come back when the caller is gone before the call starts', async () => {
    const agents = await startGroup(3, (rank) => ({
      membership: 'dynamic',
      ...(rank === 1 ? one : { extensions }),
    }));
    const [w0, w1, w2] = agents as [RpcAgent, RpcAgent, RpcAgent];
    started = 0;
    const blocked = w0.run(() => rpcAsync('w1', block));
    await w0.run(() => rpcSync('w2', handOn, [createRRef(1)]));
    await eventually(() => sessionOf(w1).worker.users.size === 1, 'the call has arrived');
    await w2.shutdown({ graceful: false });
    if (extensions.length === 1) await eventually(() => isEmpty(w0), 'the value is released');
    open();
    await blocked;
    await eventually(() => isEmpty(w0) && isEmpty(w1), 'everything is released');
    expect(started).toBe(0);
    expect(counters(w1)['num_collected_rrefs']).toBe(0);
    await Promise.all([w0, w1].map((each) => each.shutdown({ timeoutMs: 5_000, onLeak: 'throw' })));
  });

  it('come back when a later argument cannot be read, here or in an answer', () =>
    withGroup(
      2,
      async (agents) => {
        started = 0;
        const mine = createRRef(1);
        await expect(rpcSync('w1', take, [mine, new Unreadable()])).rejects.toMatchObject({ code: 'decode-error' });
        await expect(rpcSync('w1', give)).rejects.toMatchObject({ code: 'decode-error' });
        const made = remote('w1', give);
        await expect(made.toHere()).rejects.toThrow('could not be rebuilt');
        made.dispose();
        rpcOneway('w1', take, [mine, new Unreadable()]);
        await released(agents);
        expect(started).toBe(0);
        for (const each of agents) expect(counters(each)['num_collected_rrefs']).toBe(0);
      },
      { extensions },
    ));

  it('come back when another call with the same idempotency key has run', () =>
    withGroup(
      2,
      async (agents) => {
        started = 0;
        const mine = createRRef(1);
        const calls = [1, 2, 3].map(() => rpcAsync('w1', take, [mine], { idempotencyKey: 'once' }));
        await Promise.all(calls);
        expect(started).toBe(1);
        await released(agents);
        for (const each of agents) expect(counters(each)['num_collected_rrefs']).toBe(0);
      },
      { extensions },
    ));

  it('are the same arguments whenever they are sent again, and others when they refer to something else', () =>
    withGroup(
      2,
      async (agents) => {
        started = 0;
        const [mine, other] = [createRRef(1), createRRef(1)];
        const theirs = remote('w1', give);
        const send = (rref: RRef<unknown>, idempotencyKey: string): Promise<unknown> =>
          rpcAsync('w1', take, [rref], { idempotencyKey });
        for (const [rref, key] of [
          [mine, 'mine'],
          [theirs, 'theirs'],
        ] as const) {
          await send(rref, key);
          await send(rref, key);
          await expect(send(other, key)).rejects.toMatchObject({ code: 'failed-precondition', executed: 'no' });
        }
        expect(started).toBe(2);
        for (const rref of [mine, other, theirs]) rref.dispose();
        await released(agents);
        for (const each of agents) expect(counters(each)['num_collected_rrefs']).toBe(0);
      },
      { extensions },
    ));
});

describe('references in the items of a stream', () => {
  it('come back when the consumer leaves, but for those it took', () =>
    withGroup(2, async (agents) => {
      const taken: RRef<number>[] = [];
      for await (const rref of rpcStream('w1', items, [], { highWaterItems: 8 })) {
        taken.push(rref);
        if (taken.length === 2) break;
      }
      await eventually(() => counters(agent(agents, 1))['num_forks'] === 2, 'the others came back');
      expect(await Promise.all(taken.map((rref) => rref.toHere()))).toEqual([0, 1]);
      for (const rref of taken) rref.dispose();
      await released(agents);
      expect(counters(agent(agents, 0))['num_collected_rrefs']).toBe(0);
    }));

  it('come back when the consumer leaves without taking any', () =>
    withGroup(2, async (agents) => {
      const stream = rpcStream('w1', items, [], { highWaterItems: 4 });
      await eventually(() => counters(agent(agents, 1))['num_forks'] === 4, 'as many as may wait are here');
      await stream.return();
      await released(agents);
    }));

  it('do not keep a group from shutting down when nobody ever reads them', () =>
    withGroup(2, async (agents) => {
      rpcStream('w1', items, [], { highWaterItems: 4 });
      const list = remote('w1', Endless);
      list.rpcAsync().items();
      await eventually(() => counters(agent(agents, 1))['num_forks'] === 5 + 16, 'as many as may wait are here');
    }));
});
