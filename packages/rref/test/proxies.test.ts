/** Methods of remote values: promises, streams, RRefs of results, and everything that must not call anybody. */
import { inspect } from 'node:util';
import { errorMatching } from '@backwire/testing';
import { rpcAsync, rpcClass, RpcError, rpcFunction, rpcSync, waitAll } from '@backwire/rpc';
import { ones, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { agent, callsSent, counters, eventually, onAll, withGroup } from './group.ts';
import { sessionOf } from '../src/extension.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';

class Counter {
  static readonly [rpcName] = 'proxies/Counter';
  /** Ended streams, by name. */
  static ended: string[] = [];
  n: number;
  readonly log: number[] = [];
  constructor(start = 0) {
    this.n = start;
  }
  add(by: number): number {
    this.log.push(by);
    return (this.n += by);
  }
  async addLater(by: number): Promise<number> {
    await new Promise((resolve) => setTimeout(resolve, 10));
    return this.add(by);
  }
  seen(): number[] {
    return this.log;
  }
  fail(): never {
    throw new RangeError(`counter at ${this.n}`);
  }
  *upTo(to: number): Generator<number> {
    try {
      for (let i = this.n; i < to; i++) yield i;
    } finally {
      Counter.ended.push('upTo');
    }
  }
  async *ticks(): AsyncGenerator<number> {
    try {
      for (let i = 0; ; i++) {
        await Promise.resolve();
        yield i;
      }
    } finally {
      Counter.ended.push('ticks');
    }
  }
  self(): Counter {
    return this;
  }
  secret(): string {
    return 'not published';
  }
  static twice(x: number): number {
    return 2 * x;
  }
}
rpcClass(Counter, { methods: ['add', 'addLater', 'seen', 'fail', 'upTo', 'ticks', 'self'], statics: ['twice'] });

interface Untyped {
  nope(): Promise<unknown>;
  secret(): Promise<unknown>;
  twice(x: number): Promise<number>;
  constructor: unknown;
  toString: unknown;
}
const untyped = (proxy: object): Untyped => proxy as unknown as Untyped;

describe.each([
  { owner: 'w1', where: 'on another worker' },
  { owner: 'w0', where: 'on this worker' },
])('methods of a value $where', ({ owner }) => {
  it('run there, one after the other, and keep its state', () =>
    withGroup(2, async () => {
      const counter = remote(owner, Counter, [10]);
      expect(await counter.rpcSync().add(1)).toBe(11);
      expect(await counter.rpcAsync().addLater(2)).toBe(13);
      expect(await counter.remote().add(3).toHere()).toBe(16);
      expect(await counter.remote().addLater(4).toHere()).toBe(20);
      const proxy = counter.rpcAsync();
      const sent = [1, 2, 3, 4, 5].map((by) => proxy.add(by));
      expect(await Promise.all(sent)).toEqual([21, 23, 26, 30, 35]);
      expect(await counter.rpcSync().seen()).toEqual([1, 2, 3, 4, 1, 2, 3, 4, 5]);
    }));

  it('stream when they are generators', () =>
    withGroup(2, async () => {
      Counter.ended = [];
      const counter = remote(owner, Counter, [2]);
      const items: number[] = [];
      for await (const item of counter.rpcSync().upTo(6)) items.push(item);
      expect(items).toEqual([2, 3, 4, 5]);
      for await (const tick of counter.rpcAsync().ticks()) if (tick === 3) break;
      await eventually(() => Counter.ended.length === 2, 'both generators ended');
      expect(Counter.ended).toEqual(['upTo', 'ticks']);
    }));

  it('serve tensors', () =>
    withGroup(2, async () => {
      const rref: RRef<Tensor> = owner === 'w0' ? createRRef(ones([2])) : await rpcSync('w1', makeOnes);
      expect((await rref.rpcSync().add(tensor([1, 2]))).toArray()).toEqual([2, 3]);
      expect((await rref.rpcAsync().mul(3)).toArray()).toEqual([3, 3]);
      expect((await rref.remote().sum().toHere()).item()).toBe(2);
    }));

  it('fail with what they threw, or because there is no such method', () =>
    withGroup(2, async () => {
      const counter = remote(owner, Counter, [7]);
      await expect(counter.rpcSync().fail()).rejects.toThrow(new RangeError('counter at 7'));
      await expect(counter.rpcAsync().fail()).rejects.toThrow(new RangeError('counter at 7'));
      await expect(counter.remote().fail().toHere()).rejects.toThrow(new RangeError('counter at 7'));
      const proxy = untyped(counter.rpcSync());
      await expect(proxy.nope()).rejects.toThrow("type object 'proxies/Counter' has no attribute 'nope'");
      await expect(proxy.nope()).rejects.toThrow(TypeError);
      await expect(untyped(counter.rpcAsync()).nope()).rejects.toThrow("has no attribute 'nope'");
      const kept = untyped(counter.remote()).nope() as unknown as RRef<unknown>;
      await expect(kept.toHere()).rejects.toThrow("has no attribute 'nope'");
      await expect(proxy.secret()).rejects.toThrow("has no attribute 'secret'");
      expect(await proxy.twice(4)).toBe(8);
      const plain = owner === 'w0' ? createRRef({ push: 1 }) : await rpcSync('w1', makePlain);
      await expect(untyped(plain.rpcSync()).nope()).rejects.toThrow("type object 'Object' has no attribute 'nope'");
    }));
});

const makeOnes = rpcFunction('proxies/ones', () => createRRef(ones([2])));
const makePlain = rpcFunction('proxies/plain', () => createRRef({ push: 1 }));
const addVia = rpcFunction('proxies/add-via', (counter: RRef<Counter>, by: number) => counter.rpcSync().add(by));

describe('a proxy', () => {
  it('calls nobody when it is printed, compared, awaited, returned or made into JSON', () =>
    withGroup(2, async (agents) => {
      const counter = remote('w1', Counter);
      await counter.confirmed();
      const before = Number(callsSent(agent(agents, 0)));
      for (const proxy of [counter.rpcSync(), counter.rpcAsync(), counter.remote()]) {
        const { constructor, toString } = untyped(proxy);
        expect([
          constructor,
          toString,
          (proxy as { then?: unknown }).then,
          (proxy as { toJSON?: unknown }).toJSON,
        ]).toEqual([undefined, undefined, undefined, undefined]);
        expect(await Promise.resolve(proxy)).toBe(proxy);
        expect(JSON.stringify(proxy)).toBe('{}');
        inspect(proxy, { showProxy: false });
        expect(Object.keys(proxy)).toEqual([]);
        expect(Symbol.toPrimitive in proxy).toBe(false);
      }
      inspect(counter);
      expect(callsSent(agent(agents, 0))).toBe(before);
    }));

  it('is good for many calls, and takes options for all of them', () =>
    withGroup(2, async () => {
      const counter = remote('w1', Counter);
      const proxy = counter.rpcAsync({ timeoutMs: 1_000 });
      for (let i = 1; i <= 5; i++) expect(await proxy.add(1)).toBe(i);
      const aborted = counter.rpcSync({ signal: AbortSignal.abort(new Error('enough')) });
      await expect(aborted.add(1)).rejects.toMatchObject({ code: 'cancelled' });
      expect(await proxy.add(0)).toBe(5);
    }));

  it('reaches a value that is still being made, in one round trip', () =>
    withGroup(3, async () => {
      const counter = remote('w1', SlowCounter, [5]);
      const [sum, via] = await Promise.all([
        counter.rpcSync().add(1),
        rpcAsync('w2', addVia, [counter as unknown as RRef<Counter>, 2]),
      ]);
      expect([sum, via].sort()).toEqual([6, 8].sort());
    }));

  it('waits for a value whose making needs the only place for a handler', () =>
    withGroup(
      3,
      async () => {
        // Held back, so that the method of w2 is there first.
        const counter = remote('w1', Counter, [5]);
        expect(await rpcAsync('w2', addVia, [counter, 2], { timeoutMs: 10_000 })).toBe(7);
      },
      (rank) =>
        rank === 0 ? { faults: { delayMs: { PYTHON_REMOTE_CALL: 60 } } } : rank === 1 ? { maxConcurrentCalls: 1 } : {},
    ));

  it('is collected by waitAll, whose first error wins and leaves nothing unhandled', () =>
    withGroup(2, async () => {
      const counter = remote('w1', Counter);
      await waitAll(() => {
        for (let i = 0; i < 4; i++) void counter.rpcAsync().addLater(1);
      });
      expect(await counter.rpcSync().add(0)).toBe(4);
      await expect(
        waitAll(() => {
          void counter.rpcAsync().addLater(1);
          void counter.rpcAsync().fail();
        }),
      ).rejects.toThrow('counter at');
    }));
});

class SlowCounter {
  static readonly [rpcName] = 'proxies/SlowCounter';
  private readonly made: Promise<Counter>;
  constructor(start: number) {
    this.made = new Promise((resolve) => setTimeout(() => resolve(new Counter(start)), 30));
  }
  async add(by: number): Promise<number> {
    return (await this.made).add(by);
  }
}
rpcClass(SlowCounter, { methods: ['add'] });

describe('the answer of a method', () => {
  it('can be awaited for the generator it streams', () =>
    withGroup(2, async () => {
      const counter = remote('w1', Counter, [1]);
      const stream = await (counter.rpcSync().upTo(3) as unknown as Promise<AsyncGenerator<number>>);
      const items: number[] = [];
      for await (const item of stream) items.push(item);
      expect(items).toEqual([1, 2]);
    }));

  it('that does not stream cannot be iterated', () =>
    withGroup(2, async () => {
      const counter = remote('w1', Counter, [1]);
      const iterate = async (): Promise<void> => {
        for await (const _ of counter.rpcSync().add(1) as unknown as AsyncIterable<number>) continue;
      };
      await expect(iterate()).rejects.toThrow("method 'add' does not stream; await it instead");
    }));

  it('passes the failure of a method on to who iterates', () =>
    withGroup(2, async () => {
      const counter = remote('w1', Counter, [1]);
      const iterate = async (): Promise<void> => {
        for await (const _ of counter.rpcSync().fail() as unknown as AsyncIterable<number>) continue;
      };
      await expect(iterate()).rejects.toThrow('counter at 1');
    }));

  it('ends a stream that nobody came for when its caller leaves', async () => {
    Counter.ended = [];
    await withGroup(2, async (agents) => {
      const counter = remote('w1', Counter, [1]);
      // The call is made, its items are not asked for: the stream waits at the owner.
      const session = sessionOf(agent(agents, 1));
      const stream = new Counter(0).ticks();
      await stream.next();
      session.streams.park(0, stream);
      expect(session.streams.size).toBe(1);
      expect(() => session.streams.take(0, 1)).toThrow('no stream waits under this ticket');
      await counter.rpcSync().add(1);
    });
    await eventually(() => Counter.ended.includes('ticks'), 'the parked generator ended');
  });
});

describe('type names', () => {
  it('are asked for once and then known', () =>
    withGroup(2, async (agents) => {
      const counter = remote('w1', Counter, [1]);
      expect(await counter.typeName()).toBe('proxies/Counter');
      const before = callsSent(agent(agents, 0));
      expect(await counter.typeName()).toBe('proxies/Counter');
      expect(counter.typeName()).toBe(counter.typeName());
      expect(await counter.typeName({ timeoutMs: 1 })).toBe('proxies/Counter');
      expect(callsSent(agent(agents, 0))).toBe(before);
      // What is known is no way around what is refused.
      await expect(counter.typeName({ timeout: 1 } as never)).rejects.toMatchObject({ code: 'invalid-argument' });
      const message = /^the options of typeName\(\) are/;
      for (const wrong of [null, 5])
        await expect(counter.typeName(wrong as never)).rejects.toThrow(errorMatching(TypeError, { message }));
      counter.dispose();
      await expect(counter.typeName()).rejects.toThrow(
        errorMatching(RpcError, { code: 'rref-released', message: /deleted/ }),
      );
    }));

  it('that are asked for ten times at once are one question', () =>
    withGroup(2, async (agents) => {
      const counter = remote('w1', Counter, [1]);
      await counter.confirmed();
      const before = callsSent(agent(agents, 0));
      const asked = Array.from({ length: 10 }, () => counter.typeName());
      for (const each of asked) expect(each).toBe(asked[0]);
      expect(new Set(await Promise.all(asked))).toEqual(new Set(['proxies/Counter']));
      expect(callsSent(agent(agents, 0))).toBe(before + 1);
      counter.dispose();
    }));

  it('are asked for anew after a failure', () =>
    withGroup(2, async () => {
      const counter = remote('w1', Counter, [1]);
      await counter.confirmed();
      const late = AbortSignal.abort(new Error('enough'));
      await expect(counter.typeName({ signal: late })).rejects.toMatchObject({ code: 'cancelled' });
      expect(await counter.typeName()).toBe('proxies/Counter');
      counter.dispose();
    }));

  it('need no call on the owner', () =>
    onAll(4, async (_at, self) => {
      const before = callsSent(self);
      const types = await Promise.all(
        [
          createRRef(1),
          createRRef('x'),
          createRRef([1]),
          createRRef(null),
          createRRef(ones([1])),
          createRRef(new Counter()),
          createRRef(createRRef(1)),
        ].map((rref) => (rref as RRef<unknown>).typeName()),
      );
      expect(types).toEqual(['number', 'string', 'Array', 'null', 'Tensor', 'proxies/Counter', 'RRef']);
      expect(callsSent(self)).toBe(before);
    }));

  it('wait for a value that takes long to make', () =>
    onAll(4, async (at) => {
      expect(await remote(at('w1'), makeSlowly, [30]).typeName()).toBe('proxies/Counter');
      expect(await remote(at('w1'), addSlowly, [ones([2]), 30]).typeName()).toBe('Tensor');
    }));

  it('fail as the function failed that was to make the value', () =>
    onAll(4, async (at) => {
      const broken = remote(at('w1'), breakDown, []);
      for (let i = 0; i < 2; i++) {
        const asked = broken.typeName();
        expect(asked).toBeInstanceOf(Promise);
        await expect(asked).rejects.toThrow(new EvalError('broken'));
      }
    }));
});

const makeSlowly = rpcFunction('proxies/slowly', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return new Counter();
});
const addSlowly = rpcFunction('proxies/add-slowly', async (x: Tensor, ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return x.add(1);
});
const breakDown = rpcFunction('proxies/break', (): number => {
  throw new EvalError('broken');
});

it('keeps nothing of finished calls', () =>
  withGroup(2, async (agents) => {
    const counter = remote('w1', Counter);
    await Promise.all(Array.from({ length: 50 }, () => counter.rpcAsync().add(1)));
    counter.dispose();
    await eventually(() => counters(agent(agents, 1))['num_owner_rrefs'] === 0);
  }));
