/** @file Modules, methods of offered classes, profiles and operators among workers of torch groups, without torch. */
import { RemoteModule, backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { Parameter, add, nn, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { runWith } from '@backwire/tensor/internal';
import { encodeValue } from '@backwire/wire';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { tensorMethod } from '../src/operators/method.ts';
import { callOperator } from '../src/operators/call.ts';
import { overloadFor } from '../src/operators/choose.ts';
import { Recorder } from '../src/profiling/recorder.ts';
import { py } from '../src/py.ts';
import { TorchSize } from '../src/values/containers.ts';
import { PyName } from '../src/values/name.ts';
import { group, leave } from './group.ts';

class Offered {
  count = 1;
  add(n: number): number {
    return (this.count += n);
  }
  reset(): void {
    this.count = 0;
  }
}

const twice = rpcFunction('modules.twice', (x: Tensor) => add(x, x));
const onwards = rpcFunction('modules.onwards', (to: string, x: Tensor) => rpcSync(to, twice, [x]));

let agents: Agent[];
let me: Agent;
beforeAll(async () => {
  agents = await group(3);
  me = agents[0] as Agent;
}, 60_000);
afterAll(() => leave(agents));

it('makes modules on another worker, runs them, has their parameters and their gradients', async () => {
  await me.run(async () => {
    const linear = await RemoteModule.create('n1/cpu', nn.Linear, [3, 2, { bias: false }]);
    const [weight] = await linear.remoteParameters();
    const w = (await weight?.toHere()) as Tensor;
    expect([...w.shape]).toEqual([2, 3]);
    const x = tensor([[1, 2, 3]], { requiresGrad: true });
    await context(async (id) => {
      const y = await linear.forward(x);
      expect(y.allClose(x.matmul(w.transpose(0, 1)))).toBe(true);
      await backward(id, [y.sum()]);
      expect(getGradients(id).get(x)?.allClose(w.sum(0).unsqueeze(0))).toBe(true);
    });
    weight?.dispose();
    linear.getModuleRRef().dispose();
  });
});

const forwarded = rpcFunction('modules.forwarded', (module: RemoteModule<nn.Linear>, x: Tensor) => module.forward(x));
const parametersOf = rpcFunction('modules.parameters_of', (module: RemoteModule<nn.Linear>) =>
  module.remoteParameters(),
);
const itself = rpcFunction('modules.itself', (value: unknown) => value);

it('sends RemoteModules to other workers, who use the same module, and to the one that has it', async () => {
  await me.run(async () => {
    const linear = await RemoteModule.create('n1/cpu', nn.Linear, [3, 2]);
    const x = tensor([[1, 2, 3]]);
    const y = (await linear.forward(x)).toArray();
    for (const to of ['n2', 'n1', 'n0']) {
      expect((await rpcSync(to, forwarded, [linear, x])).toArray()).toEqual(y);
      const parameters = await rpcSync(to, parametersOf, [linear]);
      expect(parameters.map((each) => each.ownerName())).toEqual(['n1', 'n1']);
      for (const each of parameters) each.dispose();
      const [back, again] = (await rpcSync(to, itself, [[linear, linear]])) as RemoteModule<nn.Linear>[];
      expect(back).toBeInstanceOf(RemoteModule);
      expect(again).toBe(back);
      expect(back?.remoteDevice).toBe('n1/cpu');
      expect((await back!.forward(x)).toArray()).toEqual(y);
      back!.getModuleRRef().dispose();
    }
    expect(() => encodeValue(linear)).toThrow(
      'cannot send an instance of class TorchRRef at $<backwire.RemoteModule>.rref: RRefs of a torch group travel in its calls only',
    );
    linear.getModuleRRef().dispose();
    await expect(rpcSync('n2', forwarded, [linear, x])).rejects.toThrow(/has been deleted/);
  });
});

it('sends gradients through a RemoteModule that another worker was given', async () => {
  await me.run(async () => {
    const linear = await RemoteModule.create('n1/cpu', nn.Linear, [3, 1, { bias: false }]);
    const [weight] = await linear.remoteParameters();
    const x = tensor([[1, 2, 3]], { requiresGrad: true });
    await context(async (id) => {
      const y = await rpcSync('n2', forwarded, [linear, x]);
      await backward(id, [y.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual(((await weight?.toHere()) as Tensor).toArray());
    });
    weight?.dispose();
    linear.getModuleRRef().dispose();
  });
});

it('makes a RemoteModule of an RRef, as Python asks for it', async () => {
  await me.run(async () => {
    const path = 'torch.distributed.nn.api.remote_module._RemoteModule.init_from_module_rref';
    const init = (...args: unknown[]): Promise<unknown> => me.callPython('n2', path, args);
    const linear = await RemoteModule.create('n1/cpu', nn.Linear, [3, 2]);
    const rref = linear.getModuleRRef();
    const x = tensor([[1, 2, 3]]);
    for (const [place, device] of [
      ['n2', 'n1/cpu'],
      ['n2/cuda:0', 'n1/cuda:0'],
      ['rank:1/cpu', 'n1/cpu'],
      ['cuda:1', 'n1/cuda:1'],
    ]) {
      const other = (await init(place, rref)) as RemoteModule<nn.Linear>;
      expect(other.remoteDevice).toBe(device);
      if (device === 'n1/cpu') expect((await other.forward(x)).toArray()).toEqual((await linear.forward(x)).toArray());
      other.getModuleRRef().dispose();
    }
    await expect(init('n2', 5)).rejects.toThrow(/a RemoteModule of something that is no RRef/);
    await expect(init('n2', rref, 'Interface')).rejects.toThrow(/which this worker does not run/);
    for (const place of ['', 'n2/', '/cpu', 'n2/cpu/cpu', 5])
      await expect(init(place, rref)).rejects.toThrow(/Could not parse remote_device/);
    rref.dispose();
  });
});

class Scale extends nn.Module {
  static readonly [rpcName] = 'modules.Scale';
  readonly weight = new Parameter(tensor([2, 3]));
  readonly count = this.registerBuffer('count', tensor(4));
  forward(x: Tensor): Tensor {
    return x.mul(this.weight).add(this.count);
  }
}
rpcClass(Scale, { methods: ['forward'] });
class Around extends nn.Module {
  static readonly [rpcName] = 'modules.Around';
  readonly inner = new Scale();
  readonly layer: nn.Linear | null;
  constructor(layer: nn.Linear | null = null) {
    super();
    this.layer = layer;
  }
}
rpcClass(Around, { methods: [] });

it('sends modules of offered classes by value, and says what does not travel', async () => {
  await me.run(async () => {
    const around = new Around().eval();
    const copy = (await rpcSync('n1', itself, [around])) as Around;
    expect(copy).toBeInstanceOf(Around);
    expect(copy).not.toBe(around);
    expect([copy.training, copy.inner.training]).toEqual([false, false]);
    expect([...copy.stateDict().keys()]).toEqual(['inner.weight', 'inner.count']);
    expect(copy.inner.forward(tensor([1, 1])).toArray()).toEqual([6, 7]);
    await expect(rpcSync('n1', itself, [new Around(new nn.Linear(1, 1))])).rejects.toThrow(/no form for a Linear at/);
  });
});

it('says of what is no module that it is none, and of a class that torch does not have', async () => {
  await me.run(async () => {
    const relu = RemoteModule.create('n1/gpu:0', nn.ReLU, []);
    await expect(relu).rejects.toThrow(/there is no device 'gpu:0'/);
    await expect(RemoteModule.create('n1/cpu', nn.PositionalEncoding as never, [4] as never)).rejects.toThrow(
      /Python has no module class for 'nn.PositionalEncoding'/,
    );
  });
});

it('lets methods be called of a class that was offered', () => {
  const taken = me.offer('modules.Offered', Offered, ['add']);
  const object = new Offered();
  expect(me.offered.classOf(object)?.methods.has('add')).toBe(true);
  expect(me.offered.attribute(object, 'add')).toMatchObject({ name: 'add' });
  expect(me.offered.attribute(object, 'count')).toBeUndefined();
  taken();
  expect(me.offered.classOf(object)).toBeUndefined();
});

it.each([[5], [null], ['text'], [{}]])('offers no %j: it is no function and no class', (body) => {
  expect(() => me.offer('modules.nothing', body as never)).toThrow(
    /what is offered as 'modules.nothing' is a function or a class, got /,
  );
  expect(() => me.offered.definition('modules.nothing')).toThrow(/modules.nothing/);
});

it('calls methods of a class that was offered through an RRef, and no others', async () => {
  const taken = (agents[1] as Agent).offer('modules.Offered', Offered, ['add']);
  await me.run(async () => {
    const counter = remote('n1', py<Offered & { reset(): void }>('modules.Offered'));
    expect(await counter.rpcSync().add(4)).toBe(5);
    expect(await counter.rpcAsync().add(1)).toBe(6);
    await expect(counter.rpcSync().reset()).rejects.toThrow(/no attribute 'reset' that peers may call/);
    counter.dispose();
  });
  taken();
});

it("knows torch's modules by the names that they have there", () => {
  expect(me.offered.find('torch.nn.modules.linear', 'Linear')).toBeInstanceOf(PyName);
  expect(me.offered.find('torch.nn.modules.conv', 'Linear')).toBeUndefined();
});

it('answers methods of tensors as Python has them', async () => {
  const x = tensor([
    [1, 2],
    [3, 4],
  ]);
  expect(tensorMethod(x, 'size', [], new Map())).toEqual({ value: TorchSize.of(2, 2) });
  expect((tensorMethod(x, 'view', [1, 4], new Map())?.value as Tensor).toArray()).toEqual([[1, 2, 3, 4]]);
  expect((tensorMethod(x, 'add', [1], new Map([['alpha', 2]]))?.value as Tensor).toArray()).toEqual([
    [3, 4],
    [5, 6],
  ]);
  expect(tensorMethod(x, 'no_such_method', [], new Map())).toBeUndefined();
  const there: RRef<Tensor> = me.run(() => remote('n1', add, [x, 0]));
  expect((await there.rpcSync().view([4])).toArray()).toEqual([1, 2, 3, 4]);
  there.dispose();
});

it.each([
  ['aten::add', [2, 3], 5],
  ['aten::mul', [2, 3], 6],
  ['aten::sub', [2, 3], -1],
])('has %s of numbers', (name, args, expected) => {
  const { schema, values } = overloadFor(name, args, new Map());
  expect(callOperator(schema, values)).toBe(expected);
});

it('splits tensors, and multiplies many', () => {
  const run = (name: string, args: readonly unknown[]): unknown => {
    const { schema, values } = overloadFor(name, args, new Map());
    return callOperator(schema, values);
  };
  const parts = run('aten::split', [tensor([1, 2, 3]), 2]) as Tensor[];
  expect(parts.map((part) => part.toArray())).toEqual([[1, 2], [3]]);
  const a = tensor([
    [1, 2],
    [3, 4],
  ]);
  expect((run('aten::linalg_multi_dot', [[a, a, a]]) as Tensor).toArray()).toEqual([
    [37, 54],
    [81, 118],
  ]);
});

it('brings what other workers did into a profile, over two hops', async () => {
  const recorder = new Recorder({ node: me.id, shapes: true, memory: false });
  await me.run(() => runWith({ profile: recorder }, () => rpcSync('n1', onwards, ['n2', tensor([1, 2])])));
  const events = recorder.finish();
  const names = events.map(({ name }) => name).filter((name) => name !== '');
  const call = 'rpc_sync#onwards(n0 -> n1)';
  const inner = `${call}#remote_op: rpc_sync#twice(n1 -> n2)`;
  expect(names).toEqual(['__start_profile', call, inner, `${inner}#remote_op: aten::add`, '__stop_profile']);
  expect(events.find(({ name }) => name.endsWith('aten::add'))).toMatchObject({ node: 2, shapes: [[2], [2]] });
});

it('has a shape for each argument of an operator that is called by schema, as torch has', async () => {
  const recorder = new Recorder({ node: me.id, shapes: true, memory: false });
  await me.run(() =>
    runWith({ profile: recorder }, async () => {
      await rpcSync('n1', add, [tensor([1, 2]), tensor([3, 4])]);
      await rpcSync('n1', add, [tensor([1, 2]), 3]);
    }),
  );
  const shapes = recorder.finish().filter(({ name }) => name.endsWith('aten::add'));
  // The alpha of additions is a number, too.
  expect(shapes.map((event) => event.shapes)).toEqual([
    [[2], [2], []],
    [[2], [], []],
  ]);
});
