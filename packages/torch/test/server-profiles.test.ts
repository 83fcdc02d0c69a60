/** @file Profiles of all that a worker serves, which another one opens: torch's `_server_process_global_profile`. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { add, mul, sub, tensor, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { createTorchAgent } from '../src/join.ts';
import { py } from '../src/py.ts';
import type { PyInstance } from '../src/values/objects.ts';
import { group, leave } from './group.ts';
import { Python, torchVersion, withTorch } from './python.ts';

interface Profile {
  readonly process_global_function_events: readonly (readonly PyInstance[])[] | undefined;
  key_averages(): PyInstance;
}

const Profile = py<Profile>('torch.distributed.rpc.server_process_global_profiler._server_process_global_profile');
type Methods = Readonly<Record<string, (...args: readonly unknown[]) => Promise<unknown>>>;
// Proxies have no such methods in their types: programs here have no use for them.
const methodsOf = (profile: RRef<Profile>): Methods => profile.rpcSync();
const enter = (profile: RRef<Profile>): Promise<unknown> => methodsOf(profile)['__enter__']!();
const exit = (profile: RRef<Profile>): Promise<unknown> => methodsOf(profile)['__exit__']!(null, null, null);
const stateOf = (instance: PyInstance): ReadonlyMap<string, unknown> => instance.state as ReadonlyMap<string, unknown>;

/** Names and shapes of the operations of each request that had some. */
const eventsOf = rpcFunction('profiles.events', async (rref: RRef<Profile>) => {
  const { process_global_function_events: requests } = await rref.localValue();
  return requests?.map((events) =>
    events.map((event) => {
      const [id, name, thread, start, end] = event.args as [number, string, number, number, number];
      expect([event.type.path, event.made]).toEqual(['torch.autograd.profiler_util.FunctionEvent', 'call']);
      expect([id > 0, thread, start > 0, end >= start]).toEqual([true, 1, true, true]);
      const state = stateOf(event);
      return [name, state.get('node_id'), state.get('input_shapes')];
    }),
  );
});
const averagesOf = rpcFunction('profiles.averages', async (rref: RRef<Profile>) => {
  const list = (await rref.localValue()).key_averages();
  expect([list.type.path, list.made]).toEqual(['torch.autograd.profiler_util.EventList', 'call']);
  return (list.args[0] as PyInstance[]).map((each) => {
    const state = stateOf(each);
    const [total, own] = [state.get('cpu_time_total') as number, state.get('self_cpu_time_total') as number];
    expect([each.type.path, total >= own, own >= 0]).toEqual([
      'torch.autograd.profiler_util.FunctionEventAvg',
      true,
      true,
    ]);
    return [state.get('key'), state.get('count')];
  });
});
const twice = rpcFunction('profiles.twice', (x: Tensor) => add(x, x));
const onwards = rpcFunction('profiles.onwards', (to: string, x: Tensor) => rpcSync(to, twice, [x]));

let agents: Agent[];
let me: Agent;
beforeAll(async () => {
  agents = await group(3);
  me = agents[0] as Agent;
}, 60_000);
afterAll(() => leave(agents));

it('has what was served while it was open, and so has one that was opened around it', async () => {
  await me.run(async () => {
    const [x, y] = [tensor([1, 2]), tensor([3])];
    const make = (): RRef<Profile> => remote('n1', Profile, [py.kwargs({ record_shapes: true })]);
    await rpcSync('n1', mul, [x, y]);
    const outer = make();
    await enter(outer);
    await rpcSync('n1', add, [x, y]);
    const inner = make();
    await enter(inner);
    await rpcSync('n1', sub, [x, y]);
    await rpcSync('n2', mul, [x, y]);
    await exit(inner);
    await rpcSync('n1', add, [x, x]);
    await exit(outer);
    await rpcSync('n1', mul, [x, y]);
    const [added, subtracted] = [[['aten::add', -1, [[2], [1], []]]], [['aten::sub', -1, [[2], [1], []]]]];
    expect(await rpcSync('n1', eventsOf, [inner])).toEqual([subtracted]);
    expect(await rpcSync('n1', eventsOf, [outer])).toEqual([added, subtracted, [['aten::add', -1, [[2], [2], []]]]]);
    expect(await rpcSync('n1', averagesOf, [inner])).toEqual([['aten::sub', 1]]);
    expect(await rpcSync('n1', averagesOf, [outer])).toEqual([
      ['aten::add', 2],
      ['aten::sub', 1],
    ]);
    inner.dispose();
    outer.dispose();
  });
});

it('has what other workers did for what was served, under the name of the call', async () => {
  await me.run(async () => {
    const profile = remote('n1', Profile);
    await enter(profile);
    await rpcSync('n1', onwards, ['n2', tensor([1])]);
    await exit(profile);
    const call = 'rpc_sync#twice(n1 -> n2)';
    expect(await rpcSync('n1', eventsOf, [profile])).toEqual([
      [
        [call, -1, []],
        [`${call}#remote_op: aten::add`, 2, []],
      ],
    ]);
    profile.dispose();
  });
});

it('is entered once, is asked when it is over, and does nothing where it is not enabled', async () => {
  await me.run(async () => {
    const profile = remote('n1', Profile);
    await enter(profile);
    await expect(enter(profile)).rejects.toThrow('autograd profiler traces are not reentrant');
    await expect(rpcSync('n1', averagesOf, [profile])).rejects.toThrow("Profiler didn't finish running");
    await exit(profile);
    const off = remote('n1', Profile, [false]);
    await enter(off);
    await rpcSync('n1', add, [tensor([1]), tensor([2])]);
    await exit(off);
    expect(await rpcSync('n1', eventsOf, [off])).toBeNull();
    profile.dispose();
    off.dispose();
  });
});

describe.skipIf(torchVersion === undefined)(withTorch, () => {
  it('opens one here, and reads what it has as its own', { timeout: 120_000 }, async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const { python, ready } = Python.start({ name: 'py', rank: 0, size: 2, init });
    const place = { name: 'node', rank: 1, worldSize: 2, initMethod: init, initTimeoutMs: 60_000 };
    const [node] = await Promise.all([createTorchAgent({ ...place, trustNetwork: true }), ready]);
    await python.run(`
profile = rpc.remote('node', rpc._server_process_global_profile, kwargs={'record_shapes': True})
profile.rpc_sync().__enter__()
for _ in range(3): rpc.rpc_sync('node', torch.add, (torch.ones(2), 1))
profile.rpc_sync().__exit__(None, None, None)
averages = profile.rpc_sync().key_averages()`);
    expect(await python.run('[(each.key, each.count, each.node_id) for each in averages]')).toBe(
      '[("aten::add", 3, -1)]',
    );
    expect(await python.run('averages[0].cpu_time_total >= averages[0].self_cpu_time_total > 0')).toBe('True');
    expect(await python.run("averages.table(sort_by='cpu_time_total')")).toMatch(/Number of Calls|# of Calls/);
    const failing = python.run('profile.rpc_sync().__enter__()');
    await expect(failing).rejects.toThrow(/autograd profiler traces are not reentrant/);
    await python.run('del profile');
    const left = python.end();
    await node.shutdown({ timeoutMs: 20_000 });
    expect(await left).toBe(0);
  });
});
