/** @file `RemoteModuleTest` and the same of three workers: modules of Python, made and used from here. */
import assert from 'node:assert/strict';
import { RemoteModule } from '@backwire/dist-autograd';
import { rpcAsync, rpcSync } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { ones, type Tensor, type nn } from '@backwire/tensor';
import { py, tupleOf } from '../../../src/index.ts';
import { MODULE_TEST } from '../functions/common.ts';
import type { Rank } from '../rank.ts';
import { equal, fails, mirrored, type Bodies } from './body.ts';

interface Remote {
  forward(x: Tensor, number: number, word?: string): [string, number, Tensor];
}
const inModules = <T>(name: string) => py<T>(`${MODULE_TEST}.${name}`);

/** Only rank 0 has a body in these tests. */
const driven =
  (run: (module: RemoteModule<never>, rank: Rank) => Promise<unknown>) =>
  async (rank: Rank): Promise<void> => {
    if (rank.rank !== 0) return;
    const made = await RemoteModule.create(
      `${rank.next()}/cpu`,
      inModules<Remote>('MyModule') as never,
      [1, py.kwargs({ first_kwarg: 2 })] as never,
    );
    await run(made, rank);
  };
const ARGS = (): unknown[] => [ones([1]), 2, '3'];
const forward = async (module: RemoteModule<never>, ...args: unknown[]): Promise<unknown[]> => [
  ...(await (module as unknown as { forward(...args: unknown[]): Promise<unknown[]> }).forward(...args)),
];
const forwarded = async (module: RemoteModule<never>): Promise<void> => {
  equal(await forward(module, ...ARGS()), ARGS().reverse());
};
/** Python's tuples are equal to lists of the same. */
const reversed = async (to: string, name: string, module: unknown): Promise<void> =>
  equal(
    [...(await rpcSync(to, inModules<(...args: unknown[]) => unknown[]>(name), [module, tupleOf(ARGS())]))],
    ARGS().reverse(),
  );
const attributes = (to: string, module: unknown): Promise<Map<string, unknown>> =>
  rpcSync(to, inModules<(module: unknown) => Map<string, unknown>>('remote_module_attributes'), [module]);

export const modules: Bodies = mirrored({
  test_bad_module: async (rank) => {
    if (rank.rank !== 0) return;
    const args = [1, py.kwargs({ first_kwarg: 2 })] as never;
    const made = RemoteModule.create(`${rank.next()}/cpu`, inModules<never>('BadModule'), args);
    await fails(made, /Expect `module_cls\(\*args, \*\*kwargs\)` returns an instance of <class nn\.Module>,/);
  },
  test_forward_async: driven(forwarded),
  test_forward_sync: driven(forwarded),
  test_forward_with_kwargs: driven(async (module) => {
    equal(await forward(module, ones([1]), 2, py.kwargs({ word: '3' })), ARGS().reverse());
  }),
  test_remote_parameters: driven(async (module) => {
    const params = await module.remoteParameters();
    equal(params.length, 1);
    assert.ok((await (params[0] as RRef<Tensor>).toHere()).allClose(ones([1])));
  }),
  test_train_eval: driven(async (module, rank) => {
    const training = inModules<(rref: unknown) => boolean>('get_remote_training_arg');
    for (const mode of [true, false]) {
      module.train(mode);
      // The mode goes out as a call of its own, without an answer to wait for.
      let found: unknown;
      for (let i = 0; i < 50 && found !== mode; i++)
        found = await rpcAsync(rank.next(), training, [module.getModuleRRef()]);
      equal(found, mode);
    }
  }),
  test_unsupported_methods: driven(async (module) => {
    assert.throws(() => module.parameters(), /Method ``parameters`` not supported for RemoteModule/);
    assert.throws(() => module.stateDict(), /Method ``stateDict`` not supported for RemoteModule/);
    assert.throws(() => module.zeroGrad(), /Method ``zeroGrad`` not supported for RemoteModule/);
  }),
  test_get_module_rref: driven(async (module) => {
    const rref: RRef<nn.Module> = module.getModuleRRef();
    const parameters = (await rref.toHere()).parameters();
    equal(parameters.length, 1);
    for (const parameter of parameters) equal(parameter.detach(), ones([1]));
  }),
  test_send_remote_module_with_a_new_attribute_not_pickled_over_the_wire: driven(async (module, rank) => {
    Object.assign(module, { new_attr: 1 });
    assert.equal((await attributes(rank.next(), module)).has('new_attr'), false);
  }),
  test_send_remote_module_over_the_wire: driven(async (module, rank) => {
    const found = await attributes(rank.next(2), module);
    const pickled = ['on', 'device', 'is_device_map_set', 'is_scriptable', 'generated_methods', 'module_rref'];
    equal([...found.keys()], [...pickled, 'forward_async', 'forward']);
    equal(
      pickled.slice(0, 4).map((name) => found.get(name)),
      ['worker1', 'cpu', false, false],
    );
    for (const name of ['remote_forward', 'remote_forward_async']) await reversed(rank.next(2), name, module);
  }),
  test_create_remote_module_from_module_rref: driven(async (module, rank) => {
    const init = py<(...args: unknown[]) => unknown>(
      'torch.distributed.nn.api.remote_module.RemoteModule.init_from_module_rref',
    );
    const other = await rpcSync(rank.next(2), init, [rank.next(2), module.getModuleRRef()]);
    await reversed(rank.next(1), 'remote_forward', module);
    await reversed(rank.next(2), 'remote_forward', other);
  }),
});
