/** @file Faults on purpose: what becomes of requests, answers and control that fail or are held back, and which names there are. */
import { countInjectedFaults, errorMatching, type InjectedFaults } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { add, tensor, type Tensor } from '@backwire/tensor';
import { getRpcErrorType, type MessageType as Type } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import { FAULTY_TYPES } from '../src/session/fault-injection.ts';
import {
  barrier,
  createAgent,
  getRpcTimeoutMs,
  rpcAsync,
  rpcFunction,
  RpcError,
  rpcOneway,
  rpcStream,
  rpcSync,
  setRpcTimeoutMs,
  type Extension,
  type FaultInjection,
  type RpcOptions,
  type WorkerInfo,
} from '../src/index.ts';
import type { ExtensionHost, ExtensionInternals } from '../src/internal.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

let ran: unknown[] = [];
const echo = rpcFunction('faults/echo', (x: unknown) => {
  ran.push(x);
  return x;
});
const fail = rpcFunction('faults/fail', (text: string): number => {
  throw new RangeError(text);
});
const shared = tensor([1, 2]);
const lend = rpcFunction('faults/lend', () => shared, { scope: true });
let closed = 0;
const items = rpcFunction('faults/items', function* (count: number) {
  try {
    for (let i = 0; i < count; i++) yield i;
  } finally {
    closed++;
  }
});

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
  ran = [];
});
/** Two workers, of which the one of `rank` has the faults. */
async function start(rank: number, faults: FaultInjection, extension?: Extension): Promise<Cluster['at']> {
  cluster = await startCluster(2, (own) => ({
    ...(own === rank ? { faults } : {}),
    ...(extension === undefined ? {} : { extensions: [extension] }),
  }));
  return cluster.at;
}
/**
 * Four workers with these faults, each of which does `fn`, all at once, and which then end in order, as in PyTorch's tests; `next` is the
 * rank after its own, and the last argument counts what became of its own sends, by type.
 */
async function onFour(
  options: Partial<RpcOptions>,
  fn: (rank: number, next: number, at: Cluster['at'], own: InjectedFaults) => Promise<void>,
): Promise<void> {
  const counts = [0, 1, 2, 3].map(() => countInjectedFaults());
  cluster = await startCluster(4, (rank) => ({ ...options, logger: counts[rank]!.logger }));
  const { at, agents } = cluster;
  await Promise.all(counts.map((own, rank) => at(rank).run(() => fn(rank, (rank + 1) % 4, at, own))));
  await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
}
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );
function isIntentional(error: unknown, type: string, executed: 'no' | 'yes'): void {
  const message = `Send attempt failed intentionally for ${type}`;
  expect(error).toEqual(errorMatching(RpcError, { code: 'unavailable', executed, message }));
  expect(getRpcErrorType(error)).toBe('intentional-failure');
}
async function timesOut(call: Promise<unknown>, ms: number): Promise<void> {
  const late = await failure(call);
  const message = `RPC ran for more than set timeout (${ms} ms)`;
  expect(late).toEqual(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
  expect(getRpcErrorType(late)).toBe('timeout');
}
const injected = (at: Cluster['at'], rank: number): unknown => at(rank).debugInfo()['agent.injected_faults'];

const got: [type: string, byte: number, by: number][] = [];
/** What came to a worker. */
const heardBy = (rank: number) => got.filter(([, , by]) => by === rank).map(([type, byte]) => [type, byte]);
const { RREF_FORK_REQUEST, RREF_CHILD_ACCEPT, RREF_USER_DELETE, CLEANUP_AUTOGRAD_CONTEXT_REQ, RREF_ACK } = MessageType;
const types = {
  RREF_FORK_REQUEST,
  RREF_CHILD_ACCEPT,
  RREF_USER_DELETE,
  CLEANUP_AUTOGRAD_CONTEXT_REQ,
  RREF_ACK,
} as const;
/** Those that PyTorch's agents send again, and how often it lets each fail. */
const sentAgain = Object.entries(types).filter(([name]) => name !== 'RREF_ACK');
const THREE_EACH = Object.fromEntries(sentAgain.map(([name]) => [name, 3]));
const listening: Extension = {
  name: 'listening',
  attach({ id }): ExtensionInternals {
    const hear =
      (type: string) =>
      (_from: WorkerInfo, payload: Uint8Array): void =>
        void got.push([type, payload[0] ?? -1, id]);
    return { controls: new Map(Object.entries(types).map(([name, type]) => [type as Type, hear(name)])) };
  },
};
const tell = (at: Cluster['at'], type: Type, byte: number, from = 0, to = 1): void => {
  const host = at(from) as ExtensionHost;
  host.control(host.resolve(to), type, Uint8Array.of(byte));
};

describe('a request', () => {
  it('that fails did not run, as often as was said, and then goes', async () => {
    const at = await start(0, { failFirst: { PYTHON_CALL: 2 } });
    for (let i = 0; i < 2; i++)
      isIntentional(await failure(at(0).run(() => rpcSync('w1', echo, [1]))), 'PYTHON_CALL', 'no');
    expect(await at(0).run(() => rpcSync('w1', echo, [7]))).toBe(7);
    expect([ran, injected(at, 0), injected(at, 1)]).toEqual([[7], 2, 0]);
  });

  it('that is held back comes late, or times out', async () => {
    const at = await start(0, { delayMs: { PYTHON_CALL: 60 } });
    const before = performance.now();
    expect(await at(0).run(() => rpcSync('w1', echo, [1]))).toBe(1);
    expect(performance.now() - before).toBeGreaterThanOrEqual(55);
    const message = 'RPC ran for more than set timeout (10 ms)';
    await expect(at(0).run(() => rpcSync('w1', echo, [2], { timeoutMs: 10 }))).rejects.toThrow(
      errorMatching(RpcError, { code: 'deadline-exceeded', message }),
    );
    expect(ran).toEqual([1]);
  });

  it('that is held back by its type comes as late as was said, and holds no other up', () => {
    got.length = 0;
    // The failures of control are those that PyTorch's agent has unless it is told otherwise.
    const faults = { failFirst: THREE_EACH, delayMs: { SCRIPT_CALL: 100 } };
    return onFour({ faults, extensions: [listening] }, async (rank, next, at, { failed, held }) => {
      const took = async (call: () => Promise<unknown>): Promise<number> => {
        const before = performance.now();
        await call();
        return performance.now() - before;
      };
      await took(() => rpcSync(next, echo, [1]));
      const [plain, late]: [number[], number[]] = [[], []];
      for (let i = 0; i < 5; i++) plain.push(await took(() => rpcSync(next, echo, [1])));
      for (let i = 0; i < 3; i++) late.push(await took(() => rpcSync(next, add, [tensor(1), 1])));
      expect(Math.min(...plain)).toBeLessThan(95);
      expect(Math.min(...late)).toBeGreaterThanOrEqual(95);
      // Once and not twice, nor by what else is held back.
      expect(Math.min(...late)).toBeLessThan(195);
      // Neither answers nor errors nor control.
      await expect(rpcSync(next, fail, ['a'])).rejects.toThrow(new RangeError('a'));
      for (const type of Object.values(types)) tell(at, type, 1, rank, next);
      await until(() => heardBy(next).length >= 5, 'all five came');
      expect(held).toEqual(new Map([['SCRIPT_CALL', 3]]));
      expect(failed).toEqual(new Map(Object.entries(THREE_EACH)));
    });
  });

  it('that is a tensor operation held back times out or not, by the time it is given', () =>
    onFour({ faults: { failFirst: {}, delayMs: { SCRIPT_CALL: 100 } } }, async (_rank, next, _at, { failed, held }) => {
      const args = [tensor(1), tensor(2)] as const;
      expect(getRpcTimeoutMs()).toBe(60_000);
      for (const call of [rpcSync, rpcAsync]) await timesOut(call(next, add, [...args], { timeoutMs: 20 }), 20);
      expect((await rpcAsync(next, add, [...args])).item()).toBe(3);
      setRpcTimeoutMs(5);
      await timesOut(rpcAsync(next, add, [...args]), 5);
      expect((await rpcAsync(next, add, [...args], { timeoutMs: 0 })).item()).toBe(3);
      setRpcTimeoutMs(60_000);
      expect([failed, held]).toEqual([new Map(), new Map([['SCRIPT_CALL', 5]])]);
    }));

  it('that is held back sends what its arguments were when it was made', async () => {
    const at = await start(0, { delayMs: { PYTHON_CALL: 40 } });
    const [x, y, gone] = [tensor([1, 2]), tensor([3, 4]), tensor([5])];
    const list = [x];
    const sum = at(0).run(() => rpcSync('w1', echo, [[list, y, gone, new Uint8Array(9_000).fill(7)]]));
    gone.dispose();
    y.add_(100);
    list.push(y);
    const [rest, second, third, bytes] = (await sum) as [Tensor[], Tensor, Tensor, Uint8Array];
    expect([rest.map((t) => t.toArray()), second.toArray(), third.toArray()]).toEqual([[[1, 2]], [3, 4], [5]]);
    expect([bytes.length, bytes[8_999]]).toEqual([9_000, 7]);
  });

  it('that wants no answer fails and is held back likewise', async () => {
    const at = await start(0, { failFirst: { PYTHON_CALL: 1 }, delayMs: { PYTHON_CALL: 40 } });
    let error: unknown;
    try {
      at(0).run(() => rpcOneway('w1', echo, [1]));
    } catch (thrown) {
      error = thrown;
    }
    isIntentional(error, 'PYTHON_CALL', 'no');
    const before = performance.now();
    at(0).run(() => rpcOneway('w1', echo, [2]));
    await until(() => ran.length > 0, 'it ran');
    expect(performance.now() - before).toBeGreaterThanOrEqual(35);
    expect(ran).toEqual([2]);
  });
});

describe('an answer', () => {
  it('that fails is replaced by that failure, which says that the call ran', async () => {
    const at = await start(1, { failFirst: { PYTHON_RET: 2 } });
    for (let i = 0; i < 2; i++)
      isIntentional(await failure(at(0).run(() => rpcSync('w1', echo, [i]))), 'PYTHON_RET', 'yes');
    expect(await at(0).run(() => rpcSync('w1', echo, [2]))).toBe(2);
    expect([ran, injected(at, 1)]).toEqual([[0, 1, 2], 2]);
  });

  it('that is an error fails too', async () => {
    const at = await start(1, { failFirst: { EXCEPTION: 1 }, delayMs: { EXCEPTION: 40 } });
    isIntentional(await failure(at(0).run(() => rpcSync('w1', fail, ['a']))), 'EXCEPTION', 'yes');
    const before = performance.now();
    await expect(at(0).run(() => rpcSync('w1', fail, ['b']))).rejects.toThrow(new RangeError('b'));
    expect(performance.now() - before).toBeGreaterThanOrEqual(35);
  });

  it('that is held back is what the value was, and its call is open until it has left', async () => {
    const at = await start(1, { delayMs: { PYTHON_RET: 60 } });
    const before = performance.now();
    const lent = at(0).run(() => rpcSync('w1', lend));
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'it is being answered');
    shared.add_(10);
    expect((await lent).toArray()).toEqual([1, 2]);
    expect(performance.now() - before).toBeGreaterThanOrEqual(55);
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 0, 'it is over');
    const message = 'RPC ran for more than set timeout (15 ms)';
    await expect(at(0).run(() => rpcSync('w1', echo, [2], { timeoutMs: 15 }))).rejects.toThrow(
      errorMatching(RpcError, { code: 'deadline-exceeded', message }),
    );
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 0, 'nobody waits for it');
  });

  it('that is one of a stream ends it, or holds all up in order', async () => {
    const at = await start(1, { failFirst: { PYTHON_RET: 1 }, delayMs: { PYTHON_RET: 15 } });
    const read = (): Promise<number[]> =>
      at(0).run(async () => {
        const got: number[] = [];
        for await (const item of rpcStream('w1', items, [3])) got.push(item);
        return got;
      });
    closed = 0;
    isIntentional(await failure(read()), 'PYTHON_RET', 'yes');
    await until(() => closed === 1, 'the generator heard of it');
    const before = performance.now();
    expect(await read()).toEqual([0, 1, 2]);
    expect(performance.now() - before).toBeGreaterThanOrEqual(40);
  });
});

describe('control', () => {
  it.each([0, 1, 3, 7])('that fails %i times comes in order all the same, once', async (times) => {
    got.length = 0;
    const at = await start(0, { failFirst: { RREF_FORK_REQUEST: times } }, listening);
    for (let i = 0; i < 3; i++) {
      tell(at, types.RREF_FORK_REQUEST, i);
      tell(at, types.RREF_ACK, i);
    }
    await until(() => got.length >= 6, 'all six came');
    expect(got.map(([, byte]) => byte)).toEqual([0, 0, 1, 1, 2, 2]);
    expect(injected(at, 0)).toBe(times);
    expect(await at(0).run(() => rpcSync('w1', echo, [1]))).toBe(1);
    expect(got).toHaveLength(6);
  });

  /** Those that PyTorch's agent has unless it is told otherwise, but shorter. */
  const delayMs = { PYTHON_CALL: 60, SCRIPT_CALL: 60 };

  it('of the four types that are sent again fails three times each, and calls are held back, where that is asked for', () => {
    got.length = 0;
    const options = { faults: { failFirst: THREE_EACH, delayMs }, maxConcurrentCalls: 8, extensions: [listening] };
    return onFour(options, async (rank, next, at, { failed, held }) => {
      expect(at(rank).debugInfo()['agent.max_concurrent_calls']).toBe(8);
      expect(getRpcTimeoutMs()).toBe(60_000);
      for (const [, type] of sentAgain) tell(at, type, type & 0xff, rank, next);
      await until(() => heardBy(next).length >= 4, 'all four came');
      const came = sentAgain.map(([name, type]) => [name, type & 0xff]);
      expect(heardBy(next)).toEqual(came);
      expect(failed).toEqual(new Map(Object.entries(THREE_EACH)));
      tell(at, types.RREF_ACK, 5, rank, next);
      await until(() => heardBy(next).length >= 5, 'what is not sent again came');
      expect([injected(at, rank), held.size]).toEqual([12, 0]);
      for (const [type, call] of [
        ['PYTHON_CALL', () => rpcSync(next, echo, [1])],
        ['SCRIPT_CALL', () => rpcSync(next, add, [tensor(1), 1])],
      ] as const) {
        const before = performance.now();
        await call();
        expect(performance.now() - before).toBeGreaterThanOrEqual(55);
        expect([...held].at(-1)).toEqual([type, 1]);
      }
      // Nothing else failed or was held back, and all came once.
      expect([held.size, injected(at, rank), failed]).toEqual([2, 14, new Map(Object.entries(THREE_EACH))]);
      expect(heardBy(next)).toEqual([...came, ['RREF_ACK', 5]]);
    });
  });

  it('of the types that are named fails, and nothing else', () => {
    got.length = 0;
    const faults = { failFirst: { RREF_FORK_REQUEST: 3, RREF_CHILD_ACCEPT: 3 }, delayMs };
    return onFour({ faults, extensions: [listening] }, async (rank, next, at, { failed, held }) => {
      const expected = new Map<string, number>();
      for (const name of [
        'RREF_USER_DELETE',
        'RREF_FORK_REQUEST',
        'RREF_CHILD_ACCEPT',
        'CLEANUP_AUTOGRAD_CONTEXT_REQ',
        'RREF_ACK',
      ] as const) {
        if (name in faults.failFirst) expected.set(name, 3);
        tell(at, types[name], 1, rank, next);
        await until(() => heardBy(next).at(-1)?.[0] === name, `${name} came`);
        expect(await rpcSync(next, echo, [name])).toBe(name);
        expect(failed).toEqual(expected);
      }
      expect(heardBy(next)).toHaveLength(5);
      expect((await rpcSync(next, add, [tensor(1), 1])).item()).toBe(2);
      expect(failed).toEqual(new Map(Object.entries(faults.failFirst)));
      expect(Object.fromEntries(held)).toEqual({ PYTHON_CALL: 5, SCRIPT_CALL: 1 });
    });
  });

  it.each<FaultInjection>([{}, { failFirst: {} }, { failFirst: {}, delayMs: {} }, { failFirst: {}, delayMs }])(
    'fails nowhere with %j',
    (faults) => {
      got.length = 0;
      return onFour({ faults, extensions: [listening] }, async (rank, next, at, { failed, held }) => {
        for (const type of Object.values(types)) tell(at, type, 1, rank, next);
        for (let i = 0; i < 10; i++) expect(await rpcSync(next, echo, [i])).toBe(i);
        expect((await rpcSync(next, add, [tensor(1), 1])).item()).toBe(2);
        const late = Object.keys(faults.delayMs ?? {}).length > 0 ? { PYTHON_CALL: 10, SCRIPT_CALL: 1 } : {};
        expect([heardBy(next).length, failed.size, Object.fromEntries(held)]).toEqual([5, 0, late]);
      });
    },
  );

  it('that is held back comes late, and what is behind it waits', async () => {
    got.length = 0;
    const at = await start(0, { delayMs: { RREF_FORK_REQUEST: 50 } }, listening);
    const before = performance.now();
    tell(at, types.RREF_FORK_REQUEST, 1);
    tell(at, types.RREF_ACK, 2);
    await until(() => got.length === 2);
    expect(performance.now() - before).toBeGreaterThanOrEqual(45);
    expect(got.map(([, byte]) => byte)).toEqual([1, 2]);
  });

  it('that is still held when its agent ends goes before the goodbye', async () => {
    got.length = 0;
    const at = await start(0, { delayMs: { RREF_FORK_REQUEST: 600_000 } }, listening);
    tell(at, types.RREF_FORK_REQUEST, 1);
    tell(at, types.RREF_ACK, 2);
    await Promise.all([at(0).shutdown(), at(1).shutdown()]);
    expect(got.map(([, byte]) => byte)).toEqual([1, 2]);
  });
});

describe('a group whose calls and answers are all held back', () => {
  const serving: Extension = { name: 'serving', attach: () => ({ serve: (call, next) => next(call) }) };

  it.each([
    ['', []],
    [', with an extension that serves every message', [serving]],
  ])('meets, and shuts down in order%s', async (_, extensions) => {
    cluster = await startCluster(3, { faults: { delayMs: { PYTHON_CALL: 20, PYTHON_RET: 20 } }, extensions });
    const { agents } = cluster;
    await Promise.all(agents.map((agent) => agent.run(() => barrier({ timeoutMs: 5_000 }))));
    expect(await agents[1]!.run(() => rpcSync('w0', echo, [1]))).toBe(1);
    // The program's one call, and none of the meetings by which the group finds out that it is quiet.
    expect(agents.map((agent) => agent.metrics().calls_sent)).toEqual([0, 1, 0]);
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 5_000, onLeak: 'throw' })));
  });
});

describe('the names', () => {
  let refusals = 0;

  it('are those of the messages that agents send', () => {
    const others = Object.keys(MessageType).filter((name) => !(FAULTY_TYPES as readonly string[]).includes(name));
    expect(others.sort()).toEqual([
      'BYE',
      'CLEANUP_AUTOGRAD_CONTEXT_RESP',
      'DRAIN',
      'REPORT',
      'SCRIPT_RREF_FETCH_CALL',
      'SCRIPT_RREF_FETCH_RET',
      'UNKNOWN',
    ]);
  });

  it.each([
    [{ failFirst: { BYE: 1 } }, 'no agent sends a message of type BYE'],
    [{ delayMs: { UNKNOWN: 1 } }, 'no agent sends a message of type UNKNOWN'],
    [
      { failFirst: { NO_SUCH_TYPE: 1 } },
      "no message type is named 'NO_SUCH_TYPE'; they are named as in docs/protocol.md, such as 'PYTHON_CALL'",
    ],
    [{ failFirst: { PYTHON_CAL: 1 } as never }, "no message type is named 'PYTHON_CAL'; did you mean 'PYTHON_CALL'?"],
    [{ failFirst: { constructor: 1 } as never }, "no message type is named 'constructor'"],
    [{ failFirst: { PYTHON_CALL: 1.5 } }, 'PYTHON_CALL is a whole number from 0, got 1.5'],
    [{ failFirst: { PYTHON_CALL: -1 } }, 'PYTHON_CALL is a whole number from 0, got -1'],
    [
      { delayMs: { PYTHON_CALL: Infinity } },
      'PYTHON_CALL is a number of milliseconds from 0 to 2147483647, got Infinity',
    ],
    [
      { delayMs: { PYTHON_CALL: 2 ** 31 } },
      'PYTHON_CALL is a number of milliseconds from 0 to 2147483647, got 2147483648',
    ],
    [{ delayMs: { PYTHON_CALL: NaN } }, 'PYTHON_CALL is a number of milliseconds from 0 to 2147483647, got NaN'],
    [
      { delayMs: { PYTHON_CALL: '5' } as never },
      "PYTHON_CALL is a number of milliseconds from 0 to 2147483647, got '5'",
    ],
    [{ failFirst: 5 as never }, 'faults: failFirst is an object with a whole number from 0 by type of message, got 5'],
    [
      { failFirst: null as never },
      'faults: failFirst is an object with a whole number from 0 by type of message, got null',
    ],
    [
      { delayMs: ['PYTHON_CALL'] as never },
      'faults: delayMs is an object with a number of milliseconds from 0 to 2147483647 by type of message, got a list',
    ],
  ])('that are none, or of no use, are refused: %j', async (faults, words) => {
    // Of two: it does not wait for the other, and the other never sees it.
    const store = `memory://faults-${refusals++}`;
    await expect(createAgent({ name: 'w0', rank: 0, worldSize: 2, store, faults })).rejects.toThrow(words);
  });
});
