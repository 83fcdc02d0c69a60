/** @file PyTorch's RPC tests about options, futures and what may not travel, as near as TypeScript comes to them. */
import { errorMatching, freePort, shown } from '@backwire/testing';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { add, ones, tensor, type Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import type { Agent } from '../src/agent/agent.ts';
import {
  allGather,
  barrier,
  createAgent,
  getWorkerInfo,
  initRpc,
  processGroup,
  RemoteError,
  RpcError,
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
  type Security,
} from '../src/index.ts';
import { serveStore } from '../src/stores/embedded-server.ts';
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
const promised = rpcFunction('upstream-options/promised', () => Promise.resolve(1));
const promiseInside = rpcFunction('upstream-options/promiseInside', (settles: boolean) => ({
  later: settles ? Promise.resolve(1) : new Promise<number>(() => undefined),
}));
const twice = rpcFunction('upstream-options/twice', (x: Tensor) => x.mul(2));
const fail = rpcFunction('upstream-options/fail', (): void => {
  throw new RangeError('of the user');
});
const list = rpcFunction('upstream-options/list', () => 5);
const whoAmI = rpcFunction('upstream-options/who', () => [getWorkerInfo().name, getWorkerInfo().id]);
const generator = rpcFunction('upstream-options/generator', function* () {
  yield 1;
});

const open: RpcAgent[] = [];
let cluster: Cluster | undefined;
let stores = 0;
afterEach(async () => {
  vi.restoreAllMocks();
  const together = cluster?.agents ?? [];
  cluster = undefined;
  await Promise.all([
    ...together.map((agent) => agent.shutdown({ timeoutMs: 8_000, onLeak: 'throw' })),
    ...open.splice(0).map((agent) => agent.shutdown({ graceful: false })),
  ]);
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

/** Runs `fn` on each of four workers at once; `to` is the one after it. */
async function onEach(
  fn: (to: string) => Promise<void>,
  options: Partial<RpcOptions> | ((rank: number) => Partial<RpcOptions>) = {},
): Promise<void> {
  const started = await startCluster(4, options);
  cluster = started;
  await Promise.all(started.agents.map((agent, rank) => agent.run(() => fn(`w${(rank + 1) % 4}`))));
}

describe('what an agent is made of', () => {
  it('an extension is registered once by name, and starts with the agent', async () => {
    const attached: string[] = [];
    const custom = (): Extension => ({ name: 'custom', attach: ({ name }) => (attached.push(name), {}) });
    const store = newStore();
    const four = (extensions: () => Extension[]): Promise<RpcAgent>[] =>
      [0, 1, 2, 3].map((rank) =>
        createAgent({ name: `w${rank}`, rank, worldSize: 4, store, extensions: extensions() }),
      );
    const refusal = errorMatching(RpcError, {
      code: 'invalid-argument',
      message: /^two extensions are named 'custom'/,
    });
    const refused = await Promise.all(four(() => [custom(), custom()]).map(failure));
    expect(refused).toEqual([refusal, refusal, refusal, refusal]);
    expect(attached).toEqual([]);
    // In the same store: those that were refused have left nothing there.
    open.push(...(await Promise.all(four(() => [custom()]))));
    expect(attached.toSorted()).toEqual(['w0', 'w1', 'w2', 'w3']);
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

  it('a group of workers that reduces tensors comes first, then another that calls, of the same workers, on one store', async () => {
    const store = newStore();
    const group = async (name: string): Promise<RpcAgent[]> => {
      const agents = await Promise.all(
        [0, 1, 2, 3].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 4, store, group: name })),
      );
      open.push(...agents);
      return agents;
    };
    const first = await group('collective');
    const reduced = async (): Promise<unknown[]> => {
      const sums = first.map((agent, i) => agent.run(() => processGroup().allReduce(tensor([i + 1]))));
      return (await Promise.all(sums)).map((sum) => sum.toArray());
    };
    expect(await reduced()).toEqual([[10], [10], [10], [10]]);
    const second = await group('calls');
    const sums = second.map((agent, i) => agent.run(() => rpcSync(`w${(i + 1) % 4}`, add, [ones([2, 2]), 1])));
    for (const sum of await Promise.all(sums)) expect(shown(sum)).toEqual(shown(ones([2, 2]).add(1)));
    await Promise.all(first.map((agent) => agent.run(() => barrier())));
    expect(await reduced()).toEqual([[10], [10], [10], [10]]);
    await Promise.all([...second, ...first].map((agent) => agent.shutdown({ onLeak: 'throw' })));
  });

  it('the only member of its group calls itself, at once and later', async () => {
    const agent = await alone();
    await agent.run(async () => {
      const x = tensor([1, 2]);
      expect((await rpcSync('w0', twice, [x])).toArray()).toEqual([2, 4]);
      expect((await rpcAsync('w0', twice, [x])).toArray()).toEqual([2, 4]);
    });
  });

  it.each([
    ['one store', false],
    ['one store at tcp://', true],
  ])('a second agent of the same name and rank in %s is refused while the first lives', async (_, atPort) => {
    const store = atPort ? `tcp://127.0.0.1:${await freePort()}` : newStore();
    const refusal = (message: string) => errorMatching(RpcError, { code: 'failed-precondition', message });
    // Each is the process's own once: after it has left, the names are free, so all of it is done again in one store.
    for (const ownRank of [0, 1, 2, 3]) {
      const all = [0, 1, 2, 3].map((rank) => ({ name: `w${rank}`, rank, worldSize: 4, store }));
      const own = all[ownRank]!;
      const joining = initRpc(own);
      const peers = await Promise.all(all.filter(({ rank }) => rank !== ownRank).map((other) => createAgent(other)));
      open.push(...peers);
      open.push(await joining);
      await expect(initRpc(own)).rejects.toThrow(refusal('RPC is already initialized'));
      const again = all.map((taken) => failure(createAgent({ ...taken, initTimeoutMs: atPort ? 1_000 : 300 })));
      const notUnique = all.map(({ name }) => refusal(`RPC worker name ${name} is not unique`));
      // At the port the first rank serves the store.
      const taken = errorMatching(RpcError, { code: 'unavailable', message: /^Address already in use/ });
      expect(await Promise.all(again)).toEqual(atPort ? [taken, ...notUnique.slice(1)] : notUnique);
      for (const peer of peers) {
        expect(await rpcSync(peer.name, echo, [peer.id])).toBe(peer.id);
        expect(await peer.run(() => rpcSync(`w${(peer.id + 1) % 4}`, echo, [store]))).toBe(store);
      }
      const leaving = { onLeak: 'throw' } as const;
      await Promise.all([shutdown(leaving), ...peers.map((peer) => peer.shutdown(leaving))]);
    }
  });

  it.each([
    ['transports that are no list', { transports: 'tcp' }, "transports is a list, got string 'tcp'"],
    ['a word for security', { security: 'psk' }, "the options of security are an object, got 'psk'"],
    ['a word for limits', { limits: 'none' }, "the options of limits are an object, got 'none'"],
    ['a list for faults', { faults: [] }, ': faults are an object, got a list'],
    ['a number for deviceMaps', { deviceMaps: 5 }, ': deviceMaps are an object, got 5'],
    ['a number for a store', { store: 5 }, 'store is an address or a store, got 5, which has no set()'],
    ['no logger', { logger: { warn: () => 0 } }, 'logger is an object such as console, got an object of class Object'],
    ['null for a logger', { logger: null }, 'logger is an object such as console, got null, which has no debug()'],
  ])('is not made of %s', async (_, wrong, words) => {
    const options = { name: 'w0', rank: 0, worldSize: 1, store: newStore(), ...wrong } as unknown as RpcOptions;
    for (const make of [initRpc, createAgent])
      await expect(make(options)).rejects.toThrow(errorMatching(TypeError, { message: words }));
  });

  /** Options of a kind that no agent knows. */
  class Unknown {
    readonly initMethod = 'file:///somewhere';
  }

  it('options of an unknown class do not say what to start', async () => {
    for (const [make, name] of [
      [initRpc, 'initRpc'],
      [createAgent, 'createAgent'],
    ] as const) {
      const given = (options: unknown): Promise<RpcAgent> => make(options as RpcOptions);
      const message = `${name}: unknown option 'initMethod'; it takes name`;
      await expect(given(new Unknown())).rejects.toThrow(
        errorMatching(RpcError, { code: 'invalid-argument', message }),
      );
      for (const [options, got] of [
        ['w0', "'w0'"],
        [5, '5'],
        [[], 'a list'],
        [null, 'null'],
      ]) {
        const words = `the options of ${name} are an object, got ${String(got)}`;
        await expect(given(options)).rejects.toThrow(errorMatching(TypeError, { message: words }));
      }
    }
    await expect(alone({ store: new Unknown() as unknown as string })).rejects.toThrow(
      errorMatching(TypeError, { message: 'store is an address or a store, got an object of class Unknown' }),
    );
  });

  it('options of one kind of security are refused for another', async () => {
    for (const [security, words] of [
      [
        { mode: 'psk', key: 'k', cert: 'c', ca: 'a' },
        "security of mode 'psk': unknown option 'key'; it takes mode, secret",
      ],
      [
        { mode: 'mtls', secret: 'sixteen bytes and more' },
        "'mtls': unknown option 'secret'; it takes mode, key, cert, ca",
      ],
      [new Unknown(), 'security.mode is one of psk, hmac, mtls, none; none was given'],
    ] as const) {
      const options = {
        name: 'w0',
        rank: 0,
        worldSize: 1,
        store: newStore(),
        security: security as unknown as Security,
      };
      for (const make of [initRpc, createAgent])
        await expect(make(options)).rejects.toThrow(
          errorMatching(RpcError, { code: 'invalid-argument', message: words }),
        );
    }
  });

  it.each([
    ['psk', 'tls'],
    ['hmac', 'tcp'],
  ] as const)('security of mode %s means that transport tcp is %s', async (mode, transport) => {
    const security = { mode, secret: 'a secret for tests only' } as const;
    await onEach(
      async (to) => {
        expect((await rpcSync(to, twice, [tensor([1, 2])])).toArray()).toEqual([2, 4]);
      },
      { transports: ['tcp'], security },
    );
    for (const agent of cluster!.agents) {
      const kinds = (agent as Agent).members
        .list()
        .flatMap(({ link }) => (link === undefined ? [] : [link.connection.kind]));
      expect(kinds.length).toBeGreaterThanOrEqual(2);
      expect(new Set(kinds)).toEqual(new Set([transport]));
    }
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
    ['a kind of store', { name: 'w', store: 'env://' }, /'env:\/\/' names no kind of store; there are memory:/],
  ])('is told what is missing: %s', async (_what, options, text) => {
    await expect(createAgent(options as RpcOptions)).rejects.toThrow(
      errorMatching(RpcError, { code: 'invalid-argument', message: text }),
    );
  });

  it.each([
    ['of a size', { worldSize: 4 }],
    ['without a size', {}],
  ])('in a group %s a rank may be left out: the store gives the next', async (_, size) => {
    const folder = await mkdtemp(join(tmpdir(), 'upstream-options-'));
    const server = await serveStore({ port: 0 });
    vi.stubEnv('MASTER_ADDR', '127.0.0.1');
    vi.stubEnv('MASTER_PORT', String(server.port));
    try {
      // The last is a store that only the environment names.
      const stores = [newStore(), pathToFileURL(folder).href, `tcp://127.0.0.1:${server.port}`, undefined];
      for (const [i, store] of stores.entries()) {
        const given = {
          group: `ranks-${i}`,
          initTimeoutMs: 20_000,
          ...(store === undefined ? {} : { store }),
          ...size,
        };
        const agents = await Promise.all(['a', 'b', 'c', 'd'].map((name) => createAgent({ name, ...given })));
        open.push(...agents);
        expect(agents.map(({ id }) => id).sort()).toEqual([0, 1, 2, 3]);
        for (const agent of agents) {
          for (const { name, id } of agents) {
            const found = agent.run(() => rpcSync(id, whoAmI));
            expect(await found).toEqual([name, id]);
          }
        }
        await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
      }
    } finally {
      vi.unstubAllEnvs();
      await server.close();
      await rm(folder, { recursive: true });
    }
  });
});

describe('what travels and what does not', () => {
  it.each([1.5, NaN, Infinity, -0.1])('nothing travels to the id %d, which is none', async (id) => {
    cluster = await startCluster(2);
    const first = cluster.at(0);
    const words = `Cannot get WorkerInfo from name ${id}`;
    const refusal = errorMatching(RpcError, { code: 'invalid-argument', message: words });
    await expect(first.run(() => rpcSync(id, echo, [1]))).rejects.toThrow(refusal);
    expect(() => first.run(() => getWorkerInfo(id))).toThrow(refusal);
    expect(() => first.run(() => rpcOneway(id, echo, [1]))).toThrow(refusal);
  });

  it('an instance of a registered class takes its method along', async () => {
    cluster = await startCluster(2);
    expect(await cluster.at(0).run(() => rpcSync('w1', afterInterest, [new Account(100), 0.5]))).toBe(150);
  });

  it.each([
    ['rpcSync', rpcSync],
    ['rpcAsync', rpcAsync],
  ])('a promise inside of a result is refused by %s: only the result itself may be one', (_name, call) =>
    onEach(async (to) => {
      const made = (fn: AnyFn, args: unknown[] = []): Promise<unknown> =>
        (call as AnyFn)(to, fn, args) as Promise<unknown>;
      const message = 'cannot send an instance of class Promise at $.later: await it';
      // Refused at once, whether it settles or, as PyTorch's, never does.
      for (const settles of [true, false]) {
        const error = await failure(made(promiseInside, [settles]));
        expect(error).toEqual(errorMatching(TypeError, { message }));
        expect(rpcInfo(error)).toEqual(
          errorMatching(RemoteError, { code: 'remote-error', peer: { name: to }, message }),
        );
      }
      expect(await made(promised)).toBe(1);
    }),
  );

  it('arguments that the function cannot use fail on the callee, as what it threw, with its stack', () =>
    onEach(async (to) => {
      const error = await failure(rpcSync(to, twice as unknown as typeof list));
      expect(error).toEqual(errorMatching(TypeError, { message: /^Cannot read properties of undefined/ }));
      const remote = rpcInfo(error) as RemoteError;
      expect([remote.remoteName, remote.executed, remote.peer?.name]).toEqual(['TypeError', 'yes', to]);
      expect(remote.remoteStack).toContain('upstream-options.test');
      expect((await rpcSync(to, twice, [tensor([1])])).toArray()).toEqual([2]);
      // One too many is nothing to a function of JavaScript.
      expect(await (rpcSync as AnyFn)(to, list, [10])).toBe(5);
    }));

  it('what a user function throws is told to its caller and to nobody else; one that nobody waits for is logged', async () => {
    const lines: unknown[][] = [[], [], [], []];
    await onEach(
      async (to) => {
        await expect(rpcAsync(to, fail)).rejects.toThrow(new RangeError('of the user'));
      },
      (rank) => {
        const note = (about: object, text: string): void => void lines[rank]!.push([text, about]);
        return { logger: { debug: () => undefined, info: () => undefined, warn: note, error: note } };
      },
    );
    expect(lines).toEqual([[], [], [], []]);
    for (const agent of cluster!.agents) agent.run(() => rpcOneway(`w${(agent.id + 1) % 4}`, fail));
    await until(() => lines.every(({ length }) => length > 0), 'it is logged');
    const error = new RangeError('of the user');
    expect(lines).toEqual(
      [3, 0, 1, 2].map((from) => [
        ['a one-way call failed', { error, from: `w${from}`, name: 'upstream-options/fail' }],
      ]),
    );
  });

  it('the default logger warns of it on the console, with the stack of the function', async () => {
    const written = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const { agents } = (cluster = await startCluster(4));
    for (const agent of agents) agent.run(() => rpcOneway(`w${(agent.id + 1) % 4}`, fail));
    await until(() => written.mock.calls.length >= 4, 'it is written');
    const line = /^\[backwire (w\d)\] a one-way call failed .*RangeError: of the user.*upstream-options\.test/;
    const writers = written.mock.calls.map(([text]) => line.exec(String(text))?.[1]);
    expect(writers.toSorted()).toEqual(['w0', 'w1', 'w2', 'w3']);
  });

  it.each([
    ['rpcSync', rpcSync],
    ['rpcAsync', rpcAsync],
  ])('a function of the wrong kind is refused: a generator by %s, a value by rpcStream', (_name, call) =>
    onEach(async (to) => {
      const refusal = (message: string) =>
        errorMatching(RpcError, { code: 'failed-precondition', executed: 'yes', peer: { name: to }, message });
      await expect((call as AnyFn)(to, generator)).rejects.toThrow(refusal('a generator is called with rpcStream()'));
      const items = rpcStream(to, list as unknown as typeof generator);
      await expect(items.next()).rejects.toThrow(refusal('rpcStream() wants a function that returns an iterable'));
    }),
  );
});

describe('a gathering that not all come to', () => {
  /** How a gathering that all four come to fails on each. They do not end together, since what is held back here would hold that up. */
  async function gatherAtAll(timeoutMs: number, options: (rank: number) => Partial<RpcOptions>): Promise<Error[]> {
    const { agents } = await startCluster(4, options);
    open.push(...agents);
    return Promise.all(agents.map((agent, rank) => agent.run(() => failure(allGather(rank, { timeoutMs })))));
  }

  it('ends for the one that leads it and for those that follow, each saying who is missing', async () => {
    cluster = await startCluster(4);
    const failed = await Promise.all(
      [0, 1, 2].map((rank) => cluster!.at(rank).run(() => failure(allGather(rank, { timeoutMs: 1_500 })))),
    );
    const message = "Followers ['w3'] timed out in _all_gather after 1.50 seconds";
    for (const error of failed) expect(error).toEqual(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
  });

  it('ends where all have come and what the others bring is slow: the one that leads says who is late, they that they ran out of time', async () => {
    const slow = { faults: { delayMs: { PYTHON_CALL: 4_000 } } };
    const failed = await gatherAtAll(100, (rank) => (rank === 0 ? {} : slow));
    const late = (message: string) => errorMatching(RpcError, { code: 'deadline-exceeded', message });
    // Those that follow wait two seconds longer, for an answer that says who is missing; their time is that of the program all the same.
    const follower = late('RPC ran for more than set timeout (100 ms)');
    expect(failed).toEqual([
      late("Followers ['w1', 'w2', 'w3'] timed out in _all_gather after 0.10 seconds"),
      ...[follower, follower, follower],
    ]);
  });

  it('ends for each by its own time where all have come, and the one that leads is slow to answer', async () => {
    const slow = { faults: { delayMs: { PYTHON_RET: 4_000 } } };
    const failed = await gatherAtAll(200, (rank) => (rank === 0 ? slow : {}));
    const message = 'RPC ran for more than set timeout (200 ms)';
    const late = errorMatching(RpcError, { code: 'deadline-exceeded', message });
    expect(failed).toEqual([late, late, late, late]);
  });
});
