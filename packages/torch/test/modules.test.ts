/** @file Modules, methods of offered classes, profiles and operators among workers of torch groups, without torch. */
import { RemoteModule, backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { add, nn, tensor, type Tensor } from '@backwire/tensor';
import { runWith } from '@backwire/tensor/internal';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { TorchAgent } from '../src/agent.ts';
import { tensorMethod } from '../src/operators/method.ts';
import { callOperator } from '../src/operators/call.ts';
import { overloadFor } from '../src/operators/choose.ts';
import { Recorder } from '../src/profiling/recorder.ts';
import { TorchSize } from '../src/values/containers.ts';
import { PyName } from '../src/values/name.ts';
import { group, leave } from './group.ts';

class Offered {
  count = 1;
  add(n: number): number {
    return (this.count += n);
  }
}

const twice = rpcFunction('modules.twice', (x: Tensor) => add(x, x));
const onwards = rpcFunction('modules.onwards', (to: string, x: Tensor) => rpcSync(to, twice, [x]));

let agents: TorchAgent[];
let me: TorchAgent;
beforeAll(async () => {
  agents = await group(3);
  me = agents[0] as TorchAgent;
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
