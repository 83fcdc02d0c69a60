/** @file RemoteModules and modules between stock torch and a worker of ours. Skipped without a Python with torch. */
import { RemoteModule } from '@backwire/dist-autograd';
import { rpcClass, rpcFunction, rpcSync, type AnyFn } from '@backwire/rpc';
import { Parameter, nn, ones, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import { py } from '../src/py.ts';
import { Describer } from './describe.ts';
import { Python, withTorch, torchVersion } from './python.ts';

class Scale extends nn.Module {
  static readonly [rpcName] = 'nets.Scale';
  readonly weight = new Parameter(tensor([2, 3]));
  readonly bias: Parameter | null = null;
  readonly count = this.registerBuffer('count', tensor(4));
  readonly label: string = 'from node';

  forward(x: Tensor): Tensor {
    return x.mul(this.weight).add(this.count);
  }
}
rpcClass(Scale, { methods: ['forward'] });
class Net extends nn.Module {
  static readonly [rpcName] = 'nets.Net';
  readonly first: Scale = new Scale();
}
rpcClass(Net, { methods: [] });

type Module = RemoteModule<nn.Module & nn.Callable<[Tensor], Tensor>>;
const forward = (module: Module, x: Tensor): Promise<Tensor> => module.forward(x);
const place = (module: Module): string => `${module.remoteDevice} ${module instanceof RemoteModule}`;
const kept: Module[] = [];
const functions: Readonly<Record<string, AnyFn>> = {
  forward,
  place,
  same: (value: unknown) => value,
  keep: (module: Module) => void kept.push(module),
  in_lists: (modules: Module[]) => modules[0] === modules[1],
  state_of: (net: Net) => [net instanceof Net, net.training, net.first.label, [...net.stateDict().keys()]],
  weighted: (net: Net, x: Tensor) => net.first.forward(x),
  new_net: () => new Net().eval(),
};
for (const [name, fn] of Object.entries(functions))
  rpcFunction(`remotes.${name}`, (...args: never[]): unknown => fn(...args));

describe.skipIf(torchVersion === undefined)(`${withTorch}, and modules`, () => {
  let node: Agent;
  let first: Python;
  const pythons: Python[] = [];

  beforeAll(async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const stubs = Object.keys(functions).map((name) => `remotes.${name}`);
    const started = ['py0', 'py2'].map((name, i) => Python.start({ name, rank: 2 * i, size: 3, init, stubs }));
    pythons.push(...started.map(({ python }) => python));
    first = pythons[0] as Python;
    const options = { name: 'node', rank: 1, worldSize: 3, initMethod: init, trustNetwork: true };
    [node] = await Promise.all([member(options), ...started.map(({ ready }) => ready)]);
    for (const python of pythons) await python.run('import nets; from torch.distributed.nn import RemoteModule');
  }, 120_000);

  afterAll(async () => {
    for (const module of kept) module.getModuleRRef().dispose();
    await first.run('model.kept.clear()');
    const ends = pythons.map((python) => python.end());
    await node.shutdown({ timeoutMs: 30_000, onLeak: 'throw' });
    expect(await Promise.all(ends)).toEqual([0, 0]);
  }, 60_000);

  const run = (...lines: string[]): Promise<string> => first.run(lines.join('\n'));
  const text = (value: unknown): string => new Describer().value(value);

  it.each(['py0', 'node', 'py2'])('a RemoteModule on %s that Python sends runs there', async (owner) => {
    await run(`model.kept['m'] = m = RemoteModule('${owner}/cpu', nets.Scale)`);
    expect(await run(`rpc.rpc_sync('node', remotes.place, (m,))`)).toBe(text(`${owner}/cpu true`));
    expect(await run(`rpc.rpc_sync('node', remotes.forward, (m, torch.ones(2))).tolist() == [6., 7.]`)).toBe('True');
    expect(await run(`rpc.rpc_sync('node', m.forward, (torch.ones(2),)).tolist() == [6., 7.]`)).toBe('True');
    expect(await run(`rpc.rpc_sync('node', remotes.in_lists, ([m, m],))`)).toBe('True');
  });

  it('a RemoteModule comes back to Python as one, which works there, and so do its methods', async () => {
    await run(`back, again, method = rpc.rpc_sync('node', remotes.same, ([m, m, m.forward],))`);
    expect(await run(`(type(back) is RemoteModule, back is again, back.on, back.device, back.is_scriptable)`)).toBe(
      '(True, True, "py2", "cpu", False)',
    );
    expect(await run(`back.forward(torch.ones(2)).tolist() == [6., 7.]`)).toBe('True');
    expect(await run(`back.forward_async(torch.ones(2)).wait().tolist() == [6., 7.]`)).toBe('True');
    expect(await run(`method(torch.ones(2)).tolist() == [6., 7.]`)).toBe('True');
    expect(await run(`[p.to_here().tolist() for p in back.remote_parameters()] == [[2., 3.]]`)).toBe('True');
  });

  it('a RemoteModule that was kept works when its maker has let go of it', async () => {
    await run(`rpc.rpc_sync('node', remotes.keep, (m,))`, `model.kept.clear()`, `del m, back, again, method`);
    const [module] = kept;
    expect((await node.run(() => forward(module!, ones([2])))).toArray()).toEqual([6, 7]);
    const parameters = await node.run(() => module!.remoteParameters());
    expect((await parameters[0]?.toHere())?.toArray()).toEqual([2, 3]);
    for (const each of parameters) each.dispose();
  });

  it('a RemoteModule that node made and sends works in Python, on the worker that has it and on another', async () => {
    await node.run(async () => {
      const module = await RemoteModule.create(
        'py2/cpu',
        py<typeof Scale>('nets.Scale') as unknown as typeof Scale,
        [],
      );
      for (const to of ['py0', 'py2']) {
        const call = py<(m: unknown, x: Tensor) => Tensor>('model.forwarded');
        expect((await rpcSync(to, call, [module, ones([2])])).toArray()).toEqual([6, 7]);
      }
      const back = await rpcSync('py0', py<(m: unknown) => Module>('model.same'), [module]);
      expect(place(back)).toBe('py2/cpu true');
      expect((await forward(back, ones([2]))).toArray()).toEqual([6, 7]);
      for (const each of [module as unknown as Module, back]) each.getModuleRRef().dispose();
    });
  });

  it('modules travel by value, both ways', async () => {
    expect(await run(`rpc.rpc_sync('node', remotes.state_of, (nets.Net(),))`)).toBe(
      '[True, False, "scale", ["first.weight", "first.count", "again.weight", "again.count"]]',
    );
    expect(await run(`rpc.rpc_sync('node', remotes.weighted, (nets.Net(), torch.ones(2))).tolist() == [6., 7.]`)).toBe(
      'True',
    );
    await run(`net = rpc.rpc_sync('node', remotes.new_net)`);
    expect(await run(`(type(net) is nets.Net, net.training, net.first.label, net.first.bias)`)).toBe(
      '(True, False, "from node", None)',
    );
    expect(await run(`[(n, p.tolist()) for n, p in net.named_parameters()] == [('first.weight', [2., 3.])]`)).toBe(
      'True',
    );
    expect(await run(`list(net.state_dict())`)).toBe('["first.weight", "first.count"]');
    // Hooks are called: torch has its dicts for them.
    expect(await run(`net.first(torch.ones(2)).tolist() == [6., 7.]`)).toBe('True');
  });

  it.each([
    [`nn.Linear(1, 1)`, /a 'Linear' does not travel by value: send its state_dict\(\), or an RRef to it/],
    [`hooked`, /a module with hooks, which are code/],
  ])('%s is refused', async (value, message) => {
    await run(`hooked = nets.Net()`, `hooked.first.register_forward_hook(model.same)`);
    await expect(run(`rpc.rpc_sync('node', remotes.same, (${value},))`)).rejects.toThrow(message);
  });
});
