import { errorMatching, shown } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { rpcClass, RpcError, rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { manualSeed, memory, nn, noGrad, ones, type Parameter, rpcName, tensor, Tensor } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { expectClean, leaf, useAgents } from '../test/agents.ts';
import { backward, context, getGradients, RemoteModule } from './index.ts';
import { parseRemoteDevice } from './remote-device.ts';

const { at, agents } = useAgents('remote-module', 3, { onLeak: 'throw' });

class Greeter extends nn.Module {
  static readonly [rpcName] = 'remote-module/Greeter';
  readonly weight: Parameter;
  readonly inner = new nn.Linear(2, 2);
  private readonly word: string;
  constructor(value: number, { word = 'default' }: { word?: string } = {}) {
    super();
    this.word = word;
    this.weight = new nn.Linear(1, 1, { bias: false }).weight;
    noGrad(() => this.weight.copy_(tensor([[value]])));
  }
  forward(x: Tensor, count: number, options: string | { word?: string } = {}): [string, number, Tensor] {
    const word = typeof options === 'string' ? options : options.word;
    return [word ?? this.word, count, x.mul(this.training ? 1 : -1)];
  }
}
rpcClass(Greeter, { methods: ['forward'] });

const seen: Tensor[] = [];
class Scoped extends nn.Module {
  static readonly [rpcName] = 'remote-module/Scoped';
  forward(x: Tensor): Tensor {
    const doubled = x.mul(2);
    seen.push(x, doubled);
    return doubled.add(1);
  }
}
rpcClass(Scoped, { methods: ['forward'], scope: true });

class NoModule {
  static readonly [rpcName] = 'remote-module/NoModule';
  readonly is: unknown;
  constructor(first?: number, named?: { second: number }) {
    this.is = [first, named];
  }
}
rpcClass(NoModule, { methods: [] });

class Inherits extends nn.Linear {
  override forward(x: Tensor): Tensor {
    return super.forward(x).neg();
  }
}

describe('RemoteModule', () => {
  it('forwards arguments and results', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', Greeter, [1, { word: 'made with it' }]);
      const pending = module.forward(ones([2]), 3, '3');
      expect(pending).toBeInstanceOf(Promise);
      // Another one, awaited at once, while that is under way.
      expect(parts(await module.forward(ones([1]), 2, '4'))).toEqual(['4', 2, shown(ones([1]))]);
      expect(parts(await pending)).toEqual(['3', 3, shown(ones([2]))]);
      // The constructor took what was named for it.
      expect(parts(await module.forward(ones([2]), 3))).toEqual(['made with it', 3, shown(ones([2]))]);
      expect(module.remoteDevice).toBe('w1/cpu');
    }));

  it('runs in a scope where its class wants one', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', Scoped, []);
      expect((await module.forward(ones([2]))).toArray()).toEqual([3, 3]);
      expect(seen.map(({ disposed }) => disposed)).toEqual([true, true]);
      // Its results, too, once they are sent; and a context has what its backward pass needs.
      const [plain, x] = [ones([2]), leaf([2], 1)];
      const { tensors } = memory();
      for (let i = 0; i < 5; i++) (await module.forward(plain)).dispose();
      await expect.poll(() => memory().tensors).toBeLessThanOrEqual(tensors);
      await context(async (id) => {
        await backward(id, [(await module.forward(x)).sum()]);
        expect(getGradients(id).get(x)?.toArray()).toEqual([2, 2]);
      });
      seen.splice(0);
    }));

  it('forwards named arguments as an object, and takes the defaults where none is given', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', Greeter, [1, { word: 'made with it' }]);
      const plain = await RemoteModule.create('w1', Greeter, [1]);
      for (const [callee, options, expected] of [
        [module, [{ word: '3' }], '3'],
        [module, [{}], 'made with it'],
        [module, [], 'made with it'],
        [plain, [{ word: '3' }], '3'],
        [plain, [], 'default'],
      ] as const) {
        const pending = callee.forward(ones([1]), 2, ...options);
        const awaited = await callee.forward(ones([1]), 2, ...options);
        for (const result of [awaited, await pending]) expect(parts(result)).toEqual([expected, 2, shown(ones([1]))]);
      }
    }));

  it('may be named by rank, by worker alone, or by device alone', () =>
    at(0, async () => {
      const devices = ['rank:2/cpu', 'rank:2', 'w1', 'cpu'];
      const modules = await Promise.all(devices.map((device) => RemoteModule.create(device, nn.Linear, [2, 1])));
      expect(modules.map((module) => module.remoteDevice)).toEqual(['w2/cpu', 'w2/cpu', 'w1/cpu', 'w0/cpu']);
    }));

  it.each(['w1/cpu/3', '', '/cpu', 'w1/', 'w1/tpu', 'w1/cpu:1:2'])('refuses the device %j', async (device) => {
    const refusal = errorMatching(RpcError, {
      code: 'invalid-argument',
      message: `Could not parse remote_device: ${device}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'`,
    });
    expect(() => parseRemoteDevice(device)).toThrow(refusal);
    await at(0, () => expect(RemoteModule.create(device, nn.Linear, [2, 1])).rejects.toThrow(refusal));
  });

  it('names a device that there is not, and says that arguments are a list', () =>
    at(0, async () => {
      const create = (device: string, args: unknown) =>
        RemoteModule.create(device, nn.Linear, args as [number, number]);
      await expect(create('w1/cuda:0', [2, 1])).rejects.toThrow("a device is 'cpu' or 'gpu:N', not 'cuda:0'");
      await expect(create('w1/cpu', undefined)).rejects.toThrow(
        'RemoteModule.create() takes the arguments of the constructor as a list, got undefined',
      );
    }));

  it('refuses a class without a name of its own, which would become the one it extends', () =>
    at(0, () =>
      expect((async () => RemoteModule.create('w1/cpu', Inherits, [2, 1]))()).rejects.toThrow(
        "class 'Inherits' has no name of its own, only that of 'nn.Linear'",
      ),
    ));

  it('refuses a worker that is not there, a device that is not there, and a class that is no module', () =>
    at(0, async () => {
      for (const [place, code, message] of [
        ['nobody/cpu', 'not-found', 'could not find destination name nobody'],
        ['w1/gpu:0', 'failed-precondition', "'gpu:0' is not available"],
      ] as const)
        await expect(RemoteModule.create(place, nn.Linear, [2, 1])).rejects.toThrow(
          errorMatching(RpcError, { code, message }),
        );
      // Each time.
      for (let i = 0; i < 2; i++)
        await expect(RemoteModule.create('w1/cpu', NoModule as never, [1, { second: 2 }] as never)).rejects.toThrow(
          errorMatching(RpcError, {
            code: 'invalid-argument',
            message:
              'Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an instance of NoModule.',
          }),
        );
    }));

  it('lists its parameters, and those inside unless told not to', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', Greeter, [1, { word: 'made with it' }]);
      const [all, own] = await Promise.all([module.remoteParameters(), module.remoteParameters(false)]);
      expect([all.length, own.length]).toEqual([3, 1]);
      expect(all.every((rref) => rref.ownerName() === 'w1')).toBe(true);
      const here = (rrefs: readonly RRef<Tensor>[]): Promise<unknown[]> =>
        Promise.all(rrefs.map(async (rref) => shown(await rref.toHere())));
      const made = shown(tensor([[1]]));
      expect(await here(own)).toEqual([made]);
      const there = await rpcSync('w1', parametersOf, [module.getModuleRRef()]);
      expect(await here(all)).toEqual([made, ...there.slice(1)]);
      expect(there.map((each) => (each as { shape: unknown }).shape)).toEqual([[1, 1], [2, 2], [2]]);
      for (const rref of [...all, ...own]) rref.dispose();
    }));

  it('gives its RRef, and can be made of one', () =>
    at(0, async () => {
      const first = await RemoteModule.create('w1', Greeter, [7, { word: 'made with it' }]);
      const rref = first.getModuleRRef();
      expect([rref.ownerName(), rref.isOwner()]).toEqual(['w1', false]);
      expect(first.getModuleRRef()).toBe(rref);
      const parameters = await Promise.all((await first.remoteParameters()).map((parameter) => parameter.toHere()));
      expect(await rpcSync('w1', parametersOf, [rref])).toEqual(parameters.map(shown));
      expect(shown(parameters[0]!)).toEqual(shown(tensor([[7]])));
      // PyTorch brings a copy of the module; here it stays where it is.
      await expect(rref.toHere()).rejects.toThrow(
        errorMatching(TypeError, { message: 'cannot send an instance of class Greeter' }),
      );
      const second = await RemoteModule.fromModuleRRef('w1/cpu', rref);
      for (const handle of [second, first])
        expect(parts(await handle.forward(ones([2]), 3))).toEqual(['made with it', 3, shown(ones([2]))]);
      const wrong = remote('w1', NoModule);
      await expect(RemoteModule.fromModuleRRef('w1/cpu', wrong as never)).rejects.toThrow(
        'returns an instance of NoModule',
      );
      wrong.dispose();
    }));

  it('switches between training and evaluation', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', Greeter, [1]);
      const sign = async (): Promise<unknown> => (await module.forward(ones([1]), 1))[2].toArray();
      expect(await sign()).toEqual([1]);
      expect(module.eval()).toBe(module);
      expect(await sign()).toEqual([-1]);
      expect(module.train().training).toBe(true);
      expect(await sign()).toEqual([1]);
      new nn.Sequential(module, new nn.Linear(1, 1)).eval();
      expect(await sign()).toEqual([-1]);
    }));

  it.each(['w1', 'w0'])('runs each call on %s in the mode in force when it was made, awaited or not', (owner) =>
    at(0, async () => {
      const module = await RemoteModule.create(owner, Greeter, [1]);
      const methods = module.getModuleRRef().rpcSync();
      const large = ones([100_000]);
      for (let i = 0; i < 10; i++) {
        const results = [true, false].flatMap((mode) => {
          module.train(mode);
          return [module.forward(large, 1), methods.forward(ones([1]), 1), module.forward(ones([1]), 1)];
        });
        const signs = (await Promise.all(results)).map(([, , x]) => x.mean().item());
        expect(signs).toEqual([1, 1, 1, -1, -1, -1]);
      }
      // In a context, too.
      const recorded = await context(() => {
        const training = module.train().forward(leaf([1], 1), 1);
        return Promise.all([training, module.eval().forward(leaf([1], 1), 1)]);
      });
      expect(recorded.map(([, , x]) => x.toArray())).toEqual([[1], [-1]]);
    }),
  );

  it('can be made of the RRef of a module on a third worker, for the other two to use', () =>
    at(0, async () => {
      const first = await RemoteModule.create('w1', Greeter, [1]);
      // PyTorch's test names the worker that makes it, which is not where the module is.
      for (const device of ['w2', 'w1', 'w1/cpu']) {
        const second = await rpcSync('w2', makeOfRRef, [device, first.getModuleRRef()]);
        expect(second).toBeInstanceOf(RemoteModule);
        expect(second.remoteDevice).toBe('w1/cpu');
        const results = [
          await rpcSync('w1', greet, [first, ones([1]), 2, '3']),
          await rpcSync('w2', greet, [second, ones([1]), 2, '3']),
        ];
        for (const result of results) expect(parts(result)).toEqual(['3', 2, shown(ones([1]))]);
      }
    }));

  it('knows which mode it is in there, by its RRef', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', Greeter, [1]);
      for (const mode of [true, false, true]) {
        if (mode) module.train();
        else module.eval();
        expect(await rpcSync('w1', isTraining, [module.getModuleRRef()])).toBe(mode);
      }
    }));

  it('supports of what modules can do here only what it says', () =>
    at(0, async () => {
      const real = await RemoteModule.create('w1', Greeter, [1]);
      const module = real as unknown as Record<string, (...args: unknown[]) => unknown>;
      const before = await rpcSync('w1', parametersOf, [real.getModuleRRef()]);
      // As PyTorch's test calls those that there are.
      for (const [name, ...args] of [
        ['registerBuffer', 'buffer', ones([5])],
        ['apply', () => undefined],
        // No function: nothing is done to it, whatever it is.
        ['apply', ones([3, 3])],
        ['float'],
        ['double'],
        ['bfloat16'],
        ['to', 'cpu'],
        ['to', 'cpu', { dtype: 'int32' }],
        ['to', 'float64'],
        ['registerForwardPreHook', () => undefined],
        ['registerForwardHook', () => undefined],
        ['stateDict'],
        ['loadStateDict', new Map()],
        ['loadStateDict', {}],
        ['parameters'],
        ['namedParameters'],
        ['buffers'],
        ['namedBuffers'],
        ['namedChildren'],
        ['modules'],
        ['namedModules'],
        ['requiresGrad_'],
        ['zeroGrad'],
      ] as const)
        expect(() => module[name]!(...args)).toThrow(notSupported(name));
      const names = Object.getOwnPropertyNames(nn.Module.prototype).filter(
        (name) => name !== 'constructor' && !PRIVATE.includes(name),
      );
      const refused = names.filter((name) => {
        if (typeof module[name] !== 'function') return false;
        try {
          module[name]();
          return false;
        } catch (error) {
          expect(error).toEqual(notSupported(name));
          return true;
        }
      });
      expect(names.filter((name) => !refused.includes(name)).toSorted()).toEqual(['eval', 'toString', 'train']);
      expect(String(real)).toBe("RemoteModule('w1/cpu')");
      for (const name of ['parameters', 'namedParameters'])
        expect(() => module[name]!()).toThrow(notSupported(name, ' Please use ``remoteParameters`` instead.'));
      // No hook was taken, and nothing there has changed.
      real.train();
      expect(parts(await real.forward(ones([1]), 2))).toEqual(['default', 2, shown(ones([1]))]);
      expect(await rpcSync('w1', parametersOf, [real.getModuleRRef()])).toEqual(before);
    }));

  it.each(['parameters', 'namedParameters', 'namedChildren', 'stateDict', 'loadStateDict', 'registerBuffer'] as const)(
    'does not support %s, and says so',
    (method) =>
      at(0, async () => {
        const module = (await RemoteModule.create('w1', nn.Linear, [1, 1])) as unknown as Record<string, () => unknown>;
        expect(() => module[method]!()).toThrow(notSupported(method));
      }),
  );

  it('is no layer with parameters to the module around it', () =>
    at(0, async () => {
      const [there, here] = [await RemoteModule.create('w1', nn.Linear, [2, 2]), new nn.Linear(2, 1)];
      const outer = new nn.Sequential(there, here);
      expect(outer.namedParameters().map(([name]) => name)).toEqual(['1.weight', '1.bias']);
      expect(outer.namedModules().map(([name]) => name)).toEqual(['', '0', '1']);
      expect(outer.double().parameters().map(({ dtype }) => dtype)).toEqual(['float64', 'float64']); // prettier-ignore
      expect([
        outer.buffers(),
        outer
          .requiresGrad_(false)
          .parameters()
          .some((p) => p.requiresGrad),
      ]).toEqual([[], false]);
      outer.zeroGrad();
      // As in PyTorch: what has to be done to every module cannot be done to one elsewhere. It says where to.
      const elsewhere = (name: string) =>
        notSupported(
          name,
          ` The module is elsewhere: a function on worker 'w1' that is given getModuleRRef() can call (await rref.localValue()).${name}(); of a module around it, ask each part by itself.`,
        );
      expect(() => outer.apply(() => undefined)).toThrow(elsewhere('apply'));
      expect(() => outer.stateDict()).toThrow(elsewhere('stateDict'));
      expect(await rpcSync('w1', stateNames, [there.getModuleRRef()])).toEqual([...here.stateDict().keys()]);
    }));

  it('travels in calls without what programs put on it', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', nn.Linear, [2, 1]);
      const keys = Object.keys(module);
      Object.assign(module, { extra: 'mine' });
      const x = ones([1, 2]);
      const expected = shown(await module.forward(x));
      // Its owner, to which PyTorch's test sends it, a third worker, and this one.
      for (const to of ['w1', 'w2', 'w0']) {
        const [out, fields] = await rpcSync(to, useModule, [module, x]);
        expect([keys, Object.keys(module)]).toEqual([fields, [...fields, 'extra']]);
        expect(shown(out)).toEqual(expected);
      }
    }));

  it('travels in calls, with all that a fresh one has, and works from there', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', nn.Linear, [2, 1]);
      const x = ones([1, 2]);
      const here = await RemoteModule.create('w1', nn.Linear, [2, 1]);
      const greeter = await RemoteModule.create('w1', Greeter, [1]);
      const freshGreeter = await RemoteModule.create('w1', Greeter, [1]);
      for (const to of ['w2', 'w1']) {
        const [out, fields, device] = await rpcSync(to, useModule, [module, x]);
        expect(shown(out)).toEqual(shown(await module.forward(x)));
        expect(fields).toEqual(Object.keys(here));
        expect(device).toBe('w1/cpu');
        expect(await rpcSync(to, fieldsOf, [greeter])).toEqual([Object.keys(freshGreeter), 'w1', 'w1/cpu', true]);
        // Awaited where it was sent, or handed on while it is under way.
        for (const way of [greet, greetLater])
          expect(parts(await rpcSync(to, way, [greeter, ones([1]), 2, '3']))).toEqual(['3', 2, shown(ones([1]))]);
      }
    }));

  it('cannot be serialised but in a call', () =>
    at(0, async () => {
      const module = await RemoteModule.create('w1', nn.Linear, [2, 1]);
      expect(() => JSON.stringify(module)).toThrow(
        errorMatching(RpcError, {
          code: 'failed-precondition',
          message: /^Cannot serialize RemoteModule: RemoteModule can only be serialized when using RPC/,
        }),
      );
      expect(() => encodeValue(module)).toThrow(
        errorMatching(TypeError, {
          message:
            'cannot send an instance of class RRefHandle at $<backwire.RemoteModule>.rref: RRefs travel in arguments and results of calls only, of an agent with the extension rrefs()',
        }),
      );
    }));

  it('records gradients on its worker', async () => {
    await at(0, async () => {
      manualSeed(3);
      const module = await RemoteModule.create('w1', nn.Linear, [2, 1]);
      await context(async (id) => {
        const x = leaf([1, 2], 2);
        await backward(id, [(await module.forward(x)).sum()]);
        const weight = (await (await module.remoteParameters())[0]!.toHere()).toArray();
        expect(getGradients(id).get(x)?.toArray()).toEqual(weight);
        expect(await rpcSync('w1', gradients, [id])).toEqual(expect.arrayContaining([[[2, 2]], [1]]));
      });
    });
    await expectClean(agents);
  });
});

/** A result, its tensors as they are compared. */
const parts = (result: readonly unknown[]): unknown[] =>
  result.map((part) => (part instanceof Tensor ? shown(part) : part));
const notSupported = (name: string, more = '') =>
  errorMatching(RpcError, {
    code: 'invalid-argument',
    message: `Method \`\`${name}\`\` not supported for RemoteModule.${more}`,
  });
/** Of `nn.Module`, and no business of programs. */
const PRIVATE = [
  'findParameters',
  'listParameters',
  'parameterEntries',
  'ownParameters',
  'ownModules',
  'listChildren',
  'moduleEntries',
  'collectState',
  'fields',
];
const parametersOf = rpcFunction('remote-module/parameters-of', async (rref: RRef<nn.Module>) =>
  (await rref.localValue()).parameters().map(shown),
);
const stateNames = rpcFunction('remote-module/state-names', async (rref: RRef<nn.Module>) => [
  ...(await rref.localValue()).stateDict().keys(),
]);
const isTraining = rpcFunction(
  'remote-module/is-training',
  async (rref: RRef<nn.Module>) => (await rref.localValue()).training,
);
const makeOfRRef = rpcFunction('remote-module/make-of-rref', (device: string, rref: RRef<Greeter>) =>
  RemoteModule.fromModuleRRef(device, rref),
);
const greet = rpcFunction(
  'remote-module/greet',
  async (module: RemoteModule<Greeter>, x: Tensor, count: number, word: string) => {
    const result = await module.forward(x, count, word);
    return result;
  },
);
const greetLater = rpcFunction(
  'remote-module/greet-later',
  (module: RemoteModule<Greeter>, x: Tensor, count: number, word: string) => module.forward(x, count, word),
);
const fieldsOf = rpcFunction('remote-module/fields-of', (module: RemoteModule<Greeter>) => [
  Object.keys(module),
  module.getModuleRRef().ownerName(),
  module.remoteDevice,
  module.training,
]);
const gradients = rpcFunction('remote-module/gradients', (id: bigint) =>
  [...getGradients(id)].map(([, g]) => g.toArray()),
);
const useModule = rpcFunction(
  'remote-module/use',
  async (module: RemoteModule<nn.Linear>, x: Tensor): Promise<[Tensor, string[], string]> => [
    await module.forward(x),
    Object.keys(module),
    module.remoteDevice,
  ],
);
