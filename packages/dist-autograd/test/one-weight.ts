/** @file The module of PyTorch's tests of distributed optimizers, and the ways by which their programs reach it. */
import { rpcAsync, rpcClass, rpcFunction } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { manualSeed, rand, rpcName, type Tensor } from '@backwire/tensor';

/** PyTorch's module: one weight, the same in every process. */
export class MyModule {
  static readonly [rpcName] = 'one-weight/MyModule';
  readonly w: Tensor;
  constructor(requiresGrad = true) {
    manualSeed(0);
    this.w = Object.assign(rand([3, 3]), { requiresGrad });
  }
  forward(t: Tensor): Tensor {
    return this.w.matmul(t);
  }
  weight(): Tensor {
    return this.w;
  }
}
rpcClass(MyModule, { methods: ['forward', 'weight'] });

/** How PyTorch's programs reach a module: by functions that take its reference (`remote_method`, `rpc_async_method`), and by its proxies. */
export interface Way {
  weightRRef(module: RRef<MyModule>): RRef<Tensor>;
  weight(module: RRef<MyModule>): Promise<Tensor>;
  forward(module: RRef<MyModule>, t: Tensor): Promise<Tensor>;
}
const weightOf = rpcFunction('one-weight/weightOf', async (module: RRef<MyModule>) => (await module.localValue()).w);
const forwardOf = rpcFunction('one-weight/forwardOf', async (module: RRef<MyModule>, t: Tensor) =>
  (await module.localValue()).forward(t),
);
export const BY_FUNCTIONS: Way = {
  weightRRef: (module) => remote(module.owner(), weightOf, [module]),
  weight: (module) => rpcAsync(module.owner(), weightOf, [module]),
  forward: (module, t) => rpcAsync(module.owner(), forwardOf, [module, t]),
};
export const BY_PROXIES: Way = {
  weightRRef: (module) => module.remote().weight(),
  weight: (module) => module.rpcAsync().weight(),
  forward: (module, t) => module.rpcAsync().forward(t),
};
