/** @file A member that knows the secret and names what it should not: whatever the way, nothing runs that is not served. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { MessageType } from '@backwire/wire/internal';
import * as backwire from './index.ts';
import { giveCanaries, ran } from '../fuzz/canaries.ts';

const { distAutograd, optim, nn, profiler, remote, remoteFunction, rpcAsync, rpcInfo, rpcOneway, rpcStream, tensor } =
  backwire;

const echo = backwire.rpcFunction('hostile-member/echo', (x: unknown) => x);

const ownParameter = backwire.rpcFunction('hostile-member/parameter', () => tensor([1], { requiresGrad: true }));

/** What is left behind here is nobody's concern. */
const nothing = (): void => undefined;
const logger: backwire.Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** The victims, and the member that attacks them. */
let agents: backwire.RpcAgent[] = [];
let attacker: backwire.RpcAgent;
beforeAll(async () => {
  const options: Record<string, Partial<backwire.RpcOptions>> = {
    attacker: {},
    narrow: { serve: [giveCanaries, echo] },
    lending: { serve: [giveCanaries, echo], builtins: true },
    strict: { builtins: false },
    open: {},
  };
  const names = Object.keys(options);
  agents = await Promise.all(
    names.map((name, rank) =>
      backwire.createAgent({
        name,
        rank,
        worldSize: names.length,
        store: 'memory://hostile-member',
        transports: ['tcp'],
        security: { mode: 'hmac', secret: 'what every member knows' },
        logger,
        ...options[name],
      }),
    ),
  );
  attacker = agents[0] as backwire.RpcAgent;
});
afterAll(() => Promise.all(agents.map((agent) => agent.shutdown({ graceful: false }))));
beforeEach(() => void ran.splice(0));

/** Every way a name gets to a worker. All of them are allowed to fail. */
const ways: Record<string, (to: string, name: string, args: unknown[]) => Promise<unknown>> = {
  call: (to, name, args) => rpcAsync(to, remoteFunction(name), args),
  'call with a key': (to, name, args) => rpcAsync(to, remoteFunction(name), args, { idempotencyKey: `${to} ${name}` }),
  'one-way call': async (to, name, args) => {
    rpcOneway(to, remoteFunction(name), args);
    return rpcAsync(to, echo, ['after it']);
  },
  stream: async (to, name, args) => {
    for await (const item of rpcStream(to, remoteFunction<() => AsyncGenerator>(name), args as [])) return item;
    return undefined;
  },
  creation: (to, name, args) => remote(to, remoteFunction(name), args).confirmed(),
  'creation of an instance': (to, name, args) =>
    remote(to, backwire.remoteClass<new (...args: unknown[]) => object>(name), args).confirmed(),
  'call in a context': (to, name, args) =>
    distAutograd.context(() => rpcAsync(to, remoteFunction(name), [...args, tensor([1], { requiresGrad: true })])),
  'call in a profile': async (to, name, args) =>
    (await profiler.profile(() => rpcAsync(to, remoteFunction(name), args))).value,
  'message of the wrong type': (to, name, args) => {
    const host = attacker as ExtensionHost;
    const message = host.encodeCall(host.resolve(to), remoteFunction(name), args);
    return host.call(host.resolve(to), { ...message, type: MessageType.SCRIPT_CALL }, { raw: true });
  },
};

const attempt = (fn: () => Promise<unknown>): Promise<string> =>
  attacker.run(fn).then(
    () => 'it went through',
    (error: unknown) => rpcInfo(error)?.code ?? String(error),
  );

/** What names the canaries that are published, and what it takes to run them. */
const names = [
  'canary/Danger',
  'canary/Danger.open',
  'canary/SecretNet',
  'canary/secret-function',
  'canary/secret-stream',
];
const denied = new Set(['permission-denied']);

describe.each(['narrow', 'lending'])('a worker with a list of what it serves (%s)', (victim) => {
  it.each(Object.entries(ways))('refuses every other name: %s', async (way, send) => {
    const outcomes = await Promise.all(names.map((name) => attempt(() => send(victim, name, []))));
    expect(ran).toEqual([]);
    // Nobody answers a one-way call.
    if (way !== 'one-way call') expect(new Set(outcomes)).toEqual(denied);
  });

  it('refuses them as the names of an optimizer or a module', async () => {
    const parameters = [attacker.run(() => remote(victim, echo, [tensor([1])]))];
    for (const name of [...names, 'canary/SecretOptimizer']) {
      const tries = [
        attempt(() => rpcAsync(victim, remoteFunction('backwire/optimizer.create'), [name, parameters, []])),
        attempt(() => rpcAsync(victim, remoteFunction('backwire/remote-module.create'), [name, [], 'cpu'])),
      ];
      expect(new Set(await Promise.all(tries)), name).toEqual(denied);
    }
    expect(ran).toEqual([]);
  });
});

describe.each(['narrow', 'lending', 'strict', 'open'])('objects of worker %s', (victim) => {
  const members = ['step', 'forward', 'parameters', 'train', 'secret', 'open', 'constructor', '__proto__'];

  it('have no methods but those that are published and served', async () => {
    const canaries = await attacker.run(() => rpcAsync(victim, giveCanaries));
    for (const [at, rref] of canaries.entries()) {
      const proxies = [rref.rpcSync(), rref.rpcAsync()] as unknown as Record<string, () => Promise<unknown>>[];
      for (const method of members) {
        for (const proxy of proxies) await attempt(async () => proxy[method]?.());
        await attempt(() => rpcAsync(victim, remoteFunction('backwire.rref/invoke'), [rref, method, []]));
        const made = rref.remote() as unknown as Record<string, () => backwire.RRef<unknown>>;
        await attempt(async () => made[method]?.().confirmed());
      }
      const asModule = ['check', 'forward', 'parameters', 'train'].map((name) => `backwire/remote-module.${name}`);
      for (const name of asModule) await attempt(() => rpcAsync(victim, remoteFunction(name), [rref, []]));
      await attempt(() => rpcAsync(victim, remoteFunction('backwire/remote-module.check'), [rref, 'cpu']));
      await attempt(() => rpcAsync(victim, remoteFunction('backwire/optimizer.step'), [rref, 1n]));
      const module = attempt(() => distAutograd.RemoteModule.fromModuleRRef(`${victim}/cpu`, rref as never));
      // Those that are published, where all that is published is served.
      const isServed = (victim === 'strict' || victim === 'open') && at === 1;
      expect((await module) === 'it went through', `a module of ${at}`).toBe(isServed);
    }
    for (const rref of canaries) rref.dispose();
    const served = victim === 'strict' || victim === 'open' ? ['Danger.', 'SecretNet.', 'SecretOptimizer.'] : [];
    expect(ran.filter((what) => !served.some((prefix) => what.startsWith(prefix)))).toEqual([]);
    expect(ran).not.toContain('SecretNet.secret');
    expect(ran.includes('Danger.step')).toBe(served.length > 0);
  });
});

describe('a worker that serves all that is defined', () => {
  it.each(['strict', 'open'])(
    'makes an optimizer of optimizers only, a module of modules only (%s)',
    async (victim) => {
      const parameters = [attacker.run(() => remote(victim, echo, [tensor([1])]))];
      const create = (kind: string, ...args: unknown[]): Promise<string> =>
        attempt(() => rpcAsync(victim, remoteFunction(`backwire/${kind}.create`), args));
      for (const name of ['canary/Danger', 'canary/SecretNet', 'canary/secret-function'])
        expect(await create('optimizer', name, parameters, []), name).toBe('invalid-argument');
      for (const name of ['canary/Danger', 'canary/SecretOptimizer', 'canary/secret-function'])
        expect(await create('remote-module', name, [], 'cpu'), name).toBe('invalid-argument');
      for (const name of [
        'nn.Module',
        'optim.Optimizer',
        'nn.__proto__',
        'optim.constructor',
        'constructor',
        '__proto__',
      ])
        expect(await create('remote-module', name, [], 'cpu'), name).toBe('not-found');
      expect(ran).toEqual([]);
    },
  );

  it('steps an optimizer, not what looks like one', async () => {
    const [danger] = await attacker.run(() => rpcAsync('open', giveCanaries));
    for (const local of [danger, 5, null, { step: 1 }, [danger]]) {
      for (const [name, ...more] of [['step'], ['gradientNorms', 2], ['scaleGradients', 1]] as const) {
        const asked = remoteFunction(`backwire/optimizer.${name}`);
        expect(await attempt(() => rpcAsync('open', asked, [local, 1n, ...more])), name).toBe('decode-error');
      }
    }
    const create = remoteFunction('backwire/optimizer.create');
    const groups = [[{ params: [danger] }], [{ params: [tensor([1])] }], [{ params: 'ab' }], [{ params: [[]] }]];
    for (const params of [[danger], [tensor([1])], [{}], 'ab', [[]], ...groups])
      expect(await attempt(() => rpcAsync('open', create, ['optim.SGD', params, [{ lr: 1 }]]))).toMatch(
        /invalid-argument|decode-error/,
      );
    expect(ran).toEqual([]);
  });

  it('changes the options of an optimizer to what it takes, and nothing else', async () => {
    const parameter = attacker.run(() => remote('open', ownParameter));
    const local = attacker.run(() =>
      remote('open', remoteFunction('backwire/optimizer.create'), ['optim.SGD', [parameter], [{ lr: 1 }]]),
    );
    await local.confirmed();
    const step = (changes: unknown): Promise<string> =>
      attempt(() => rpcAsync('open', remoteFunction('backwire/optimizer.step'), [local, 1n, changes]));
    for (const changes of [5, 'ab', {}, [5], ['ab'], [[]]]) expect(await step(changes)).toBe('decode-error');
    const names = ['params', 'constructor', '__proto__', 'step', 'initialLr'];
    for (const name of names) {
      const change = Object.defineProperty({}, name, { value: 1, enumerable: true });
      expect(await step([change]), name).toBe('remote-error');
    }
    for (const change of [[], [null, null], [{ lr: 'x' }], [{ lr: -1 }], [{ lr: Number.NaN }]])
      expect(await step(change)).toBe('remote-error');
    expect(await step([{ lr: 0.5 }])).toBe('it went through');
    for (const rref of [parameter, local]) rref.dispose();
  });
});

describe('what the tensor package defines', () => {
  const uses: Record<string, (to: string) => Promise<unknown>> = {
    operation: (to) => rpcAsync(to, backwire.add, [tensor([1]), 1]),
    'operation that creates': (to) => remote(to, backwire.add, [tensor([1]), 1]).confirmed(),
    'class of nn': (to) => remote(to, nn.Linear, [1, 1]).confirmed(),
    module: (to) => distAutograd.RemoteModule.create(`${to}/cpu`, nn.Linear, [1, 1]),
    optimizer: async (to) => {
      const weight = remote(to, echo, [tensor([1], { requiresGrad: true })]) as backwire.RRef<backwire.Tensor>;
      return distAutograd.DistributedOptimizer.create(optim.SGD, [weight], { lr: 0.1 });
    },
    'operation of a tensor that lives there': (to) =>
      (remote(to, echo, [tensor([1])]) as backwire.RRef<backwire.Tensor>).rpcSync().add(1),
  };

  it.each(Object.entries(uses))('is served unless it is switched off: %s', async (_, use) => {
    const outcomes = await Promise.all(['open', 'lending', 'strict', 'narrow'].map((to) => attempt(() => use(to))));
    expect(outcomes).toEqual(['it went through', 'it went through', 'permission-denied', 'permission-denied']);
  });

  it('is served as far as the list names it', async () => {
    const store = 'memory://hostile-member-listed';
    const serve = [echo, backwire.add, nn.Linear, optim.SGD];
    const pair = await Promise.all(
      ['caller', 'listed'].map((name, rank) =>
        backwire.createAgent({ name, rank, worldSize: 2, store, logger, ...(rank === 1 ? { serve } : {}) }),
      ),
    );
    try {
      const outcome = (fn: () => Promise<unknown>): Promise<unknown> =>
        (pair[0] as backwire.RpcAgent).run(fn).then(
          () => 'it went through',
          (error: unknown) => rpcInfo(error)?.code,
        );
      const { operation, module, optimizer } = uses as Record<string, (to: string) => Promise<unknown>>;
      for (const use of [operation, module, optimizer])
        expect(await outcome(() => use!('listed'))).toBe('it went through');
      const other = [
        () => rpcAsync('listed', backwire.mul, [tensor([1]), 1]),
        () => distAutograd.RemoteModule.create('listed/cpu', nn.ReLU, []),
        () =>
          distAutograd.DistributedOptimizer.create(
            optim.Adam,
            [remote('listed', echo, [tensor([1], { requiresGrad: true })]) as backwire.RRef<backwire.Tensor>],
            {},
          ),
      ];
      for (const use of other) expect(await outcome(use)).toBe('permission-denied');
    } finally {
      await Promise.all(pair.map((agent) => agent.shutdown({ graceful: false })));
    }
  });
});
