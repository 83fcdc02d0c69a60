/** @file How calls are run: so many at once, once per key, what is served, and what extensions see. */
import { afterEach, describe, expect, it } from 'vitest';
import { rpcName, tensor, type Tensor } from '@backwire/tensor';
import { ambient, runWith } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import {
  callContext,
  remoteFunction,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcSync,
  type Extension,
  type RpcOptions,
} from '../src/index.ts';
import type { ExtensionHost, ExtensionInternals } from '../src/internal.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const echo = rpcFunction('dispatch/echo', (x: unknown) => x);
let running = 0;
let most = 0;
const busy = rpcFunction('dispatch/busy', async (ms: number) => {
  most = Math.max(most, ++running);
  await new Promise((resolve) => setTimeout(resolve, ms));
  running--;
});
const nested = rpcFunction('dispatch/nested', async (depth: number): Promise<number> =>
  depth === 0
    ? 0
    : 1 +
      Number(
        await rpcSync(callContext().caller, remoteFunction<(depth: number) => number>('dispatch/nested'), [depth - 1]),
      ),
);
let stuck = 0;
const forever = rpcFunction('dispatch/forever', () => {
  stuck++;
  return new Promise<void>(() => undefined);
});
const later = rpcFunction('dispatch/later', async (x: number) => {
  await new Promise((resolve) => setImmediate(resolve));
  return x;
});
let calls = 0;
const counted = rpcFunction('dispatch/counted', async (x: Tensor) => {
  calls++;
  await new Promise((resolve) => setTimeout(resolve, 30));
  return x.add(calls);
});
const freed: boolean[] = [];
let held: Tensor | undefined;
const scoped = rpcFunction(
  'dispatch/scoped',
  (x: Tensor) => {
    held = x;
    return x.add(1);
  },
  { scope: true },
);

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});
async function start(options: Partial<RpcOptions> | ((rank: number) => Partial<RpcOptions>) = {}): Promise<Cluster> {
  return (cluster = await startCluster(2, options));
}
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('handlers', () => {
  it('run so many at once', async () => {
    const { at } = await start({ maxConcurrentCalls: 3 });
    most = 0;
    await Promise.all(Array.from({ length: 20 }, () => at(0).run(() => rpcAsync('w1', busy, [5]))));
    expect(most).toBe(3);
    expect(running).toBe(0);
  });

  it('of one peer that never end leave slots to the others', async () => {
    cluster = await startCluster(3);
    const { at } = cluster;
    stuck = 0;
    const calls = Array.from({ length: 3_000 }, () => at(1).run(() => rpcAsync('w0', forever, [])));
    for (const each of calls) each.catch(() => undefined);
    await until(() => stuck === 896, 'seven eighths of the slots are taken');
    const began = performance.now();
    const echoes = Array.from({ length: 300 }, (_, i) =>
      at(2).run(() => rpcAsync('w0', later, [i], { timeoutMs: 20_000 })),
    );
    expect(await Promise.all(echoes)).toEqual(Array.from({ length: 300 }, (_, i) => i));
    expect(performance.now() - began).toBeLessThan(15_000);
    expect(stuck).toBe(896);
  });

  it('of a peer with thousands that wait leave the next turn to the others', async () => {
    cluster = await startCluster(3, { maxConcurrentCalls: 2 });
    const { at } = cluster;
    const order: number[] = [];
    const many = Array.from({ length: 400 }, () =>
      at(1)
        .run(() => rpcAsync('w0', busy, [2]))
        .then(() => order.push(1)),
    );
    await until(() => order.length > 5, 'the first are through');
    await at(2).run(() => rpcAsync('w0', busy, [2]));
    expect(order.length).toBeLessThan(200);
    await Promise.all(many);
  });

  it('give their slot back while they wait for calls of their own', async () => {
    const { at } = await start({ maxConcurrentCalls: 1 });
    const depths = await Promise.all(
      Array.from({ length: 10 }, () => at(0).run(() => rpcAsync('w1', nested, [6], { timeoutMs: 10_000 }))),
    );
    expect(depths).toEqual(Array.from({ length: 10 }, () => 6));
  });

  it('do not run when the caller left while they waited', async () => {
    const { at } = await start({ maxConcurrentCalls: 1 });
    const first = at(0).run(() => rpcAsync('w1', busy, [100]));
    const controller = new AbortController();
    calls = 0;
    const second = at(0).run(() => rpcAsync('w1', counted, [tensor([1])], { signal: controller.signal }));
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'the first runs');
    controller.abort();
    expect(rpcInfo(await failure(second))?.code).toBe('cancelled');
    await first;
    expect(await at(0).run(() => rpcSync('w1', echo, [1]))).toBe(1);
    expect(calls).toBe(0);
  });

  it('leave nothing behind when their caller takes them back, however often, while all slots are taken', async () => {
    const { at } = await start({ maxConcurrentCalls: 1 });
    let end = (): void => undefined;
    const hang = rpcFunction('dispatch/hang', () => new Promise<void>((resolve) => (end = resolve)));
    const hangs = at(0).run(() => rpcAsync('w1', hang));
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'the first runs');
    const { handlers } = (at(1) as unknown as { dispatcher: { handlers: { slots: { queued: number } } } }).dispatcher;
    for (let round = 0; round < 20; round++) {
      const impatient = new AbortController();
      const { signal } = impatient;
      const calls = Array.from({ length: 200 }, () => at(0).run(() => rpcAsync('w1', echo, ['x'], { signal })));
      await until(() => handlers.slots.queued === 200, 'all of them wait');
      impatient.abort();
      expect(await Promise.all(calls.map(async (call) => rpcInfo(await failure(call))?.code))).toEqual(
        calls.map(() => 'cancelled'),
      );
      await until(() => handlers.slots.queued === 0, 'none of them is kept');
    }
    end();
    await hangs;
    expect(await at(0).run(() => rpcSync('w1', echo, [1]))).toBe(1);
  });

  it('free arguments at their end when they ask for it', async () => {
    const { at } = await start();
    const y = await at(0).run(() => rpcSync('w1', scoped, [tensor([1, 2])]));
    expect(y.toArray()).toEqual([2, 3]);
    freed.push(held?.disposed === true);
    expect(freed).toEqual([true]);
  });

  it('run with nothing ambient but their own call', async () => {
    const { at } = await start();
    const look = rpcFunction('dispatch/look', () => [ambient().contextId, ambient().gradMode, ambient().waitAll]);
    expect(await at(0).run(() => runWith({ contextId: 5n, gradMode: false }, () => rpcSync('w1', look)))).toEqual([
      undefined,
      true,
      undefined,
    ]);
    // A link that was dialled inside a context must not carry it to what arrives later.
    expect(await at(0).run(() => rpcSync('w1', look))).toEqual([undefined, true, undefined]);
  });
});

describe('idempotency keys', () => {
  it('join the call that runs, and keep its outcome', async () => {
    const { at } = await start();
    calls = 0;
    const send = (): Promise<Tensor> =>
      at(0).run(() => rpcAsync('w1', counted, [tensor([10])], { idempotencyKey: 'k' }));
    const [a, b] = await Promise.all([send(), send()]);
    expect([a.toArray(), b.toArray(), calls]).toEqual([[11], [11], 1]);
    expect((await send()).toArray()).toEqual([11]);
    expect(calls).toBe(1);
    await at(0).run(() => rpcAsync('w1', counted, [tensor([10])], { idempotencyKey: 'other' }));
    expect(calls).toBe(2);
  });

  it('are refused inside an autograd context, and when they are no key', async () => {
    const { at } = await start();
    const inside = at(0).run(() =>
      runWith({ contextId: 1n }, () => rpcAsync('w1', echo, [1], { idempotencyKey: 'k' })),
    );
    expect(rpcInfo(await failure(inside))?.code).toBe('failed-precondition');
    expect(rpcInfo(await failure(at(0).run(() => rpcAsync('w1', echo, [1], { idempotencyKey: '' }))))?.code).toBe(
      'invalid-argument',
    );
  });
});

describe('what is served', () => {
  it('is narrowed by a list', async () => {
    const { at } = await start({ serve: [echo] });
    expect(await at(0).run(() => rpcSync('w1', echo, [1]))).toBe(1);
    const info = rpcInfo(await failure(at(0).run(() => rpcSync('w1', busy, [1]))));
    expect([info?.code, info?.executed]).toEqual(['permission-denied', 'no']);
  });

  it('may differ by agent', async () => {
    const { at } = await start();
    const one = Object.assign(() => 'one', { [rpcName]: 'dispatch/which' } as const);
    const two = Object.assign(() => 'two', { [rpcName]: 'dispatch/which' } as const);
    const off = at(0).register(one);
    at(1).register(two);
    expect(await at(0).run(() => rpcSync('w0', one))).toBe('one');
    expect(await at(0).run(() => rpcSync('w1', one))).toBe('two');
    expect(() => at(1).register(one)).toThrow('means something else');
    off();
    expect(rpcInfo(await failure(at(0).run(() => rpcSync('w0', one))))?.code).toBe('not-found');
  });

  it('has one meaning for a name', () => {
    const again = (): unknown => rpcFunction('dispatch/echo', () => 1);
    const place = String.raw`function '\w+' at test/dispatch\.test\.ts:\d+`;
    expect(again).toThrow(new RegExp(`'dispatch/echo' is already defined by ${place}; another body, ${place}, cannot`));
    expect(rpcFunction('dispatch/echo', echo)).toBe(echo);
    expect(() => rpcFunction('dispatch/second', echo)).toThrow("is already defined as 'dispatch/echo'");
    class Nameless {}
    expect(() => rpcClass(Nameless as never, { methods: [] })).toThrow('has no [rpcName] of its own');
    class Wrong {
      static readonly [rpcName] = 'dispatch/Wrong';
    }
    expect(() => rpcClass(Wrong, { methods: ['toString' as never] })).toThrow("has no method 'toString'");
    expect(() => rpcFunction('', () => 1)).toThrow('needs a name');
  });

  it.each(['then', 'toJSON', '_own'])('refuses a method that proxies hide: %s', (method) => {
    class Hidden {
      static readonly [rpcName] = 'dispatch/Hidden';
      then(): void {}
      toJSON(): void {}
      _own(): void {}
    }
    const text = `method '${method}' of class 'dispatch/Hidden' cannot be called from elsewhere`;
    expect(() => rpcClass(Hidden, { methods: [method as 'then'] })).toThrow(text);
  });
});

/** Wraps every call in a message of its own type, hears of header entries, and sends control. */
function wrapping(log: string[]): Extension {
  return {
    name: 'wrapping',
    attach(agent) {
      const host = agent as ExtensionHost;
      const internals: ExtensionInternals = {
        wraps: [MessageType.RUN_WITH_PROFILING_REQ],
        controls: new Map([
          [
            MessageType.AUTOGRAD_ABORT,
            (from, payload) => void log.push(`${host.name} control ${from.name} ${payload.length}`),
          ],
        ]),
        delivered: (from, entry) => {
          log.push(`${host.name} delivered ${from.name} ${entry[0] ?? -1}`);
          return () => void log.push(`${host.name} done`);
        },
        undelivered: (to, entry) => void log.push(`${host.name} undelivered ${to.name} ${entry[0] ?? -1}`),
      };
      return {
        ...internals,
        request: (call) => {
          if (ambient().contextId === undefined) return call;
          const { id, payload, tensors } = call.message;
          const inner = new Uint8Array(payload.length + 2);
          new DataView(inner.buffer).setUint16(0, call.message.type);
          inner.set(payload, 2);
          const message: Message = { type: MessageType.RUN_WITH_PROFILING_REQ, id, payload: inner, tensors };
          return { ...call, message, settled: () => void log.push(`${host.name} settled`) } as typeof call;
        },
        serve: async (call, next) => {
          const { payload, tensors, id } = call.message;
          const type = new DataView(payload.buffer, payload.byteOffset).getUint16(0);
          const reply = await runWith({ contextId: 7n }, () =>
            next({ ...call, message: { type, id, payload: payload.subarray(2), tensors } }),
          );
          log.push(`${host.name} served`);
          return { ...reply, type: MessageType.RUN_WITH_PROFILING_RESP };
        },
        response: (_from, reply) =>
          reply.type === MessageType.RUN_WITH_PROFILING_RESP ? { ...reply, type: MessageType.PYTHON_RET } : reply,
        values: [
          {
            tag: 'marked',
            match: (value) => value instanceof Marked,
            encode: (value, _to, addHeader?: (entry: Uint8Array) => void) => {
              addHeader?.(Uint8Array.of((value as Marked).n));
              return (value as Marked).n;
            },
            decode: (plain) => new Marked(plain as number),
          },
        ],
      };
    },
  };
}
class Marked {
  readonly n: number;
  constructor(n: number) {
    this.n = n;
  }
}

describe('extensions', () => {
  it('wrap and unwrap, with ambient state and results intact', async () => {
    const log: string[] = [];
    const { at } = await start({ extensions: [wrapping(log)] });
    const look = rpcFunction('dispatch/context', (x: Tensor) => [
      ambient().contextId,
      callContext().caller.name,
      x.mul(2),
    ]);
    const answer = (await at(0).run(() => runWith({ contextId: 1n }, () => rpcSync('w1', look, [tensor([4])])))) as [
      bigint,
      string,
      Tensor,
    ];
    expect([answer[0], answer[1], answer[2].toArray()]).toEqual([7n, 'w0', [8]]);
    expect(log).toEqual(['w1 served', 'w0 settled']);
    expect(await at(0).run(() => rpcSync('w1', echo, ['plain']))).toBe('plain');
  });

  it('hear of header entries once, whatever becomes of the call', async () => {
    const log: string[] = [];
    const { at } = await start({ extensions: [wrapping(log)] });
    const back = (await at(0).run(() => rpcSync('w1', echo, [new Marked(3)]))) as Marked;
    expect(back).toBeInstanceOf(Marked);
    expect(log).toEqual(['w1 delivered w0 3', 'w1 done', 'w0 delivered w1 3', 'w0 done']);
    log.length = 0;
    await failure(at(0).run(() => rpcSync('w1', { [rpcName]: 'x' } as never, [new Marked(4)] as never)));
    const missing = Object.assign(() => 0, { [rpcName]: 'dispatch/missing' } as const);
    await failure(at(0).run(() => rpcSync('w1', missing as never, [new Marked(5)] as never)));
    expect(log).toEqual(['w1 delivered w0 5', 'w1 done']);
    log.length = 0;
    await failure(at(0).run(() => rpcSync('w1', echo, [[new Marked(6), () => 0]])));
    expect(log).toEqual(['w0 undelivered w1 6']);
    log.length = 0;
    expect(() => at(0).run(() => rpcOneway('w1', echo, [[new Marked(7), () => 0]]))).toThrow(TypeError);
    expect(log).toEqual(['w0 undelivered w1 7']);
  });

  it('hear that a one-way call is over once it was handed over, or could not be', async () => {
    const log: string[] = [];
    const { at } = await start({ extensions: [wrapping(log)] });
    const oneway = (value: unknown): void =>
      at(0).run(() => runWith({ contextId: 1n }, () => rpcOneway('w1', echo, [value])));
    oneway(1);
    expect(log).toEqual(['w0 settled']);
    await until(() => log.length === 2, 'it was served');
    expect(() => oneway([new Marked(8), () => 0])).toThrow(TypeError);
    expect(log.slice(2)).toEqual(['w0 undelivered w1 8']);
  });

  it('take back what a result with an idempotency key must not hold', async () => {
    const log: string[] = [];
    const { at } = await start({ extensions: [wrapping(log)] });
    const make = rpcFunction('dispatch/make-marked', () => new Marked(9));
    const error = await failure(at(0).run(() => rpcAsync('w1', make, [], { idempotencyKey: 'marked' })));
    expect(rpcInfo(error)?.code).toBe('failed-precondition');
    expect(log).toEqual(['w1 undelivered w0 9']);
  });

  it('send control in order with calls', async () => {
    const log: string[] = [];
    const { at } = await start({ extensions: [wrapping(log)] });
    const host = at(0) as ExtensionHost;
    const note = rpcFunction('dispatch/note', (i: number) => void log.push(`call ${i}`));
    for (let i = 0; i < 3; i++) {
      at(0).run(() => rpcOneway('w1', note, [i]));
      host.control(host.resolve('w1'), MessageType.AUTOGRAD_ABORT, new Uint8Array(i));
    }
    await until(() => log.length === 6, 'all arrived');
    expect(log).toEqual(['call 0', 'w1 control w0 0', 'call 1', 'w1 control w0 1', 'call 2', 'w1 control w0 2']);
    host.control(host.self, MessageType.AUTOGRAD_ABORT, new Uint8Array(9));
    await until(() => log.length === 7, 'to itself too');
    expect(log[6]).toBe('w0 control w0 9');
    expect([...host.extensionsOf(host.resolve('w1'))]).toEqual(['wrapping']);
  });
});
