/** @file Classes and functions of `remote_module_test`. */
import { rpcClass } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { Parameter, nn, ones, rpcName, type Tensor } from '@backwire/tensor';
import { TorchDevice } from '../../../src/index.ts';
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

offer(MODULE_TEST, {
  remote_device: async (rref: RRef<nn.Module>) => {
    await rref.localValue();
    return new TorchDevice('cpu');
  },
  get_remote_training_arg: async (rref: RRef<nn.Module>) => (await rref.localValue()).training,
  create_scripted_module: () => new MyModule(),
});
