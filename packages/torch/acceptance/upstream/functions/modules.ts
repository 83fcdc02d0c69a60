/** @file Classes and functions of `remote_module_test`. */
import type { RemoteModule } from '@backwire/dist-autograd';
import { rpcClass } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { Parameter, nn, ones, rpcName, type Tensor } from '@backwire/tensor';
import { TorchDevice } from '../../../src/index.ts';
import { generatedMethods } from '../../../src/pickle/remote-modules.ts';
import { PyAttribute } from '../../../src/values/objects.ts';
import { MODULE_TEST, offer, tuple } from './common.ts';

class MyModule extends nn.Module {
  static readonly [rpcName] = `${MODULE_TEST}.MyModule`;
  readonly param1 = new Parameter(ones([1]));

  /** As Python's, whose third argument may come by name. */
  forward(x: Tensor, number: number, word: string | { word?: string } = 'default'): unknown {
    return tuple(typeof word === 'string' ? word : (word.word ?? 'default'), number, x);
  }
}
rpcClass(MyModule, { methods: ['forward'] });

class BadModule {
  static readonly [rpcName] = `${MODULE_TEST}.BadModule`;
}
rpcClass(BadModule, { methods: [] });

/** The interface of a scripted module: a name. */
class MyModuleInterface {
  static readonly [rpcName] = `${MODULE_TEST}.MyModuleInterface`;
}
rpcClass(MyModuleInterface, { methods: [] });

const forward = (module: RemoteModule<MyModule>, args: readonly unknown[]): Promise<unknown> =>
  module.forward(...(args as Parameters<MyModule['forward']>));

/** The `__dict__` of a RemoteModule that has come. */
function attributesOf(module: RemoteModule<MyModule>): Map<string, unknown> {
  const rref = module.getModuleRRef();
  const methods = generatedMethods.map(({ name }) => name);
  return new Map<string, unknown>([
    ['on', rref.ownerName()],
    ['device', module.remoteDevice.split('/')[1]],
    ['is_device_map_set', false],
    ['is_scriptable', false],
    ['generated_methods', generatedMethods],
    ['module_rref', rref],
    ...methods.map((name): [string, unknown] => [name, new PyAttribute(module, name)]),
  ]);
}

offer(MODULE_TEST, {
  remote_device: async (rref: RRef<nn.Module>) => {
    await rref.localValue();
    return new TorchDevice('cpu');
  },
  get_remote_training_arg: async (rref: RRef<nn.Module>) => (await rref.localValue()).training,
  create_scripted_module: () => new MyModule(),
  remote_forward: forward,
  // Its future is awaited there.
  remote_forward_async: forward,
  remote_module_attributes: (module: RemoteModule<MyModule>) => attributesOf(module),
});
