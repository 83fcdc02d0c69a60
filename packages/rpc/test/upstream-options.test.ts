/** @file PyTorch's RPC tests about options, futures and what may not travel, as near as TypeScript comes to them. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import {
  allGather,
  createAgent,
  initRpc,
  processGroup,
  RemoteError,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcStream,
  rpcSync,
  shutdown,
  type AnyFn,
  type Extension,
  type RpcAgent,
  type RpcOptions,
} from '../src/index.ts';
import { memoryStore } from '../src/stores/memory.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

/** A value that takes its methods along, because both sides have its class. */
class Account {
  readonly sum: number;
  constructor(sum: number) {
    this.sum = sum;
  }
  after(interest: number): number {
    return this.sum * (1 + interest);
  }
}
registerValueType({
  name: 'upstream-options/Account',
  match: Account,
  encode: ({ sum }) => sum,
  decode: (plain) => new Account(plain as number),
});

const echo = rpcFunction('upstream-options/echo', (x: unknown) => x);
const afterInterest = rpcFunction('upstream-options/after', (account: Account, interest: number) =>
  account.after(interest),
);
const promiseInside = rpcFunction('upstream-options/promiseInside', () => ({ later: Promise.resolve(1) }));
const twice = rpcFunction('upstream-options/twice', (x: Tensor) => x.mul(2));
const fail = rpcFunction('upstream-options/fail', (): void => {
  throw new RangeError('of the user');
});
const list = rpcFunction('upstream-options/list', () => 5);
const generator = rpcFunction('upstream-options/generator', function* () {
  yield 1;
});

const open: RpcAgent[] = [];
let cluster: Cluster | undefined;
let stores = 0;
afterEach(async () => {
  vi.restoreAllMocks();
  await cluster?.close();
  cluster = undefined;
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
const newStore = (): string => `memory://upstream-options-${stores++}`;
async function alone(options: Partial<RpcOptions> = {}): Promise<RpcAgent> {
  const agent = await createAgent({ name: 'w0', rank: 0, worldSize: 1, store: newStore(), ...options });
  open.push(agent);
  return agent;
}
const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('no failure'),
    (error: unknown) => error as Error,
  );
describe('what an agent is made of', () => {
  it('an extension is registered once by name, and starts with the agent', async () => {
    const attached: string[] = [];
    const custom = (): Extension => ({ name: 'custom', attach: ({ name }) => (attached.push(name), {}) });
    const error = await failure(alone({ extensions: [custom(), custom()] }));
    expect(error.message).toContain("two extensions are named 'custom'");
    attached.length = 0;
    await alone({ extensions: [custom()], store: newStore() });
    expect(attached).toEqual(['w0']);
  });

  it('a store of the program is used as it is, and left open', async () => {
    const store = memoryStore();
    const agent = await alone({ store });
    expect(await agent.run(() => rpcSync('w0', echo, ['by its own store']))).toBe('by its own store');
    await agent.shutdown();
    await store.set('still', Uint8Array.of(1));
    expect(await store.get('still')).toEqual(Uint8Array.of(1));
    await store.close();
  });

  it('a group of workers that reduces tensors comes first, then the default agent of another group, on one store', async () => {
    const store = newStore();
    const first = await Promise.all(
      [0, 1].map((rank) => createAgent({ name: `p${rank}`, rank, worldSize: 2, store, group: 'collective' })),
    );
    open.push(...first);
    const sums = await Promise.all(first.map((agent, i) => agent.run(() => processGroup().allReduce(tensor([i + 1])))));
    expect(sums.map((sum) => sum.toArray())).toEqual([[3], [3]]);
    await initRpc({ name: 'w0', rank: 0, worldSize: 1, store });
    expect(await rpcSync('w0', echo, ['and RPC'])).toBe('and RPC');
    const again = await Promise.all(first.map((agent) => agent.run(() => processGroup().allReduce(tensor([1])))));
    expect(again.map((sum) => sum.toArray())).toEqual([[2], [2]]);
    await shutdown();
  });

  it('the only member of its group calls itself, at once and later', async () => {
    const agent = await alone();
    await agent.run(async () => {
      const x = tensor([1, 2]);
      expect((await rpcSync('w0', twice, [x])).toArray()).toEqual([2, 4]);
      expect((await rpcAsync('w0', twice, [x])).toArray()).toEqual([2, 4]);
    });
  });

  it('a second agent of the same name and rank in one store is refused while the first lives', async () => {
    const store = newStore();
    await initRpc({ name: 'w0', rank: 0, worldSize: 1, store });
    expect((await failure(initRpc({ name: 'w0', rank: 0, worldSize: 1, store }))).message).toContain(
      'RPC is already initialized',
    );
    const error = await failure(createAgent({ name: 'w0', rank: 0, worldSize: 1, store, initTimeoutMs: 300 }));
    expect(rpcInfo(error)?.code).toBe('failed-precondition');
    expect(error.message).toContain('RPC worker name w0 is not unique');
    await shutdown();
    // After it has left, the name is free: init, shutdown, init in one store.
    await initRpc({ name: 'w0', rank: 0, worldSize: 1, store });
    expect(await rpcSync('w0', echo, ['again'])).toBe('again');
    await shutdown();
  });

  it.each([
    [
      'a store',
      { name: 'w', rank: 0, worldSize: 2 },
      /no store was given, and MASTER_ADDR and MASTER_PORT do not name one/,
    ],
    [
      'a size',
      { name: 'w', rank: 0, membership: 'static', store: 'memory://x' },
      /membership 'static' needs a worldSize/,
    ],
    ['a port', { name: 'w', store: 'tcp://127.0.0.1' }, /'tcp:\/\/127\.0\.0\.1' is not tcp:\/\/host:port/],
  ])('is told what is missing: %s', async (_what, options, text) => {
    expect((await failure(createAgent(options as RpcOptions))).message).toMatch(text);
  });

  it('fails on purpose as often as it was told, for the types it was told, and else never', async () => {
    const faulty = await alone({ faults: { failFirst: { PYTHON_CALL: 3 }, delayMs: { SCRIPT_CALL: 5 } } });
    await faulty.run(async () => {
      for (let i = 0; i < 3; i++)
        expect((await failure(rpcSync('w0', echo, [i]))).message).toContain('failed intentionally for PYTHON_CALL');
      expect(await rpcSync('w0', echo, [3])).toBe(3);
    });
    await expect(alone({ faults: { failFirst: { NO_SUCH_TYPE: 1 } } })).rejects.toThrow(
      "no message type is named 'NO_SUCH_TYPE'",
    );
    const sound = await alone({ faults: {} });
    await sound.run(async () => {
      for (let i = 0; i < 10; i++) expect(await rpcSync('w0', echo, [i])).toBe(i);
    });
  });
});

describe('what travels and what does not', () => {
  it('an instance of a registered class takes its method along', async () => {
    cluster = await startCluster(2);
    expect(await cluster.at(0).run(() => rpcSync('w1', afterInterest, [new Account(100), 0.5]))).toBe(150);
  });

  it.each([
    ['rpcSync', rpcSync],
    ['rpcAsync', rpcAsync],
  ])('a promise inside of a result is refused by %s: only the result itself may be one', async (_name, call) => {
    cluster = await startCluster(2);
    const error = await cluster.at(0).run(() => failure((call as AnyFn)('w1', promiseInside) as Promise<unknown>));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(/Promise/);
    expect(rpcInfo(error)).toBeInstanceOf(RemoteError);
  });

  it('arguments that the function cannot use fail on the callee, as what it threw, with its stack', async () => {
    cluster = await startCluster(2);
    await cluster.at(0).run(async () => {
      const error = await failure(rpcSync('w1', twice as unknown as typeof list));
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(/undefined/);
      const remote = rpcInfo(error) as RemoteError;
      expect([remote.remoteName, remote.executed, remote.peer?.name]).toEqual(['TypeError', 'yes', 'w1']);
      expect(remote.remoteStack).toContain('upstream-options.test');
      expect((await rpcSync('w1', twice, [tensor([1])])).toArray()).toEqual([2]);
    });
  });

  it('what a user function throws is told to its caller and to nobody else; one that nobody waits for is logged', async () => {
    const lines: string[] = [];
    const note = (_: object, text: string): void => void lines.push(text);
    const logger = { debug: () => undefined, info: () => undefined, warn: note, error: note };
    cluster = await startCluster(2, { logger });
    await cluster.at(0).run(async () => {
      const error = await failure(rpcSync('w1', fail));
      expect([error instanceof RangeError, error.message]).toEqual([true, 'of the user']);
      expect(lines).toEqual([]);
      rpcOneway('w1', fail);
      await until(() => lines.length > 0, 'it is logged');
      expect(lines).toEqual(['a one-way call failed']);
    });
  });

  it('the default logger writes it to stderr, with the stack of the function', async () => {
    const written = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    cluster = await startCluster(2);
    cluster.at(0).run(() => rpcOneway('w1', fail));
    await until(() => written.mock.calls.length > 0, 'it is written');
    expect(String(written.mock.calls[0]?.[0])).toMatch(
      /\[backwire w1\] a one-way call failed .*RangeError: of the user.*upstream-options\.test/,
    );
  });

  it.each([
    ['rpcSync', rpcSync],
    ['rpcAsync', rpcAsync],
  ])('a function of the wrong kind is refused: a generator by %s, a value by rpcStream', async (_name, call) => {
    cluster = await startCluster(2);
    await cluster.at(0).run(async () => {
      const one = await failure((call as AnyFn)('w1', generator) as Promise<unknown>);
      expect(one.message).toContain('a generator is called with rpcStream()');
      const items = rpcStream('w1', list as unknown as typeof generator);
      expect((await failure(items.next())).message).toMatch(/iterable|generator/);
    });
  });
});

describe('a gathering that not all come to', () => {
  it('ends for the one that leads it and for those that follow, each saying who is missing', async () => {
    cluster = await startCluster(3);
    const [leader, follower] = await Promise.all(
      [0, 1].map((rank) => cluster!.at(rank).run(() => failure(allGather(rank, { timeoutMs: 200 })))),
    );
    expect([rpcInfo(leader)?.code, rpcInfo(follower)?.code]).toEqual(['deadline-exceeded', 'deadline-exceeded']);
    for (const error of [leader, follower])
      expect(error?.message).toContain("Followers ['w2'] timed out in _all_gather after 0.20 seconds");
  });
});
