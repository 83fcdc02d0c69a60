/** @file Classes and functions of `dist_optimizer_test`. */
import { rpcClass, rpcFunction } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { mm, optim, rpcName, tensor, type Parameter, type Tensor } from '@backwire/tensor';
import { OPTIMIZER_TEST, call, offer } from './common.ts';

/** What torch's generator draws with the seed 0: the first nine floats. */
export const DRAWN = [
  [0.49625658988952637, 0.7682217955589294, 0.08847743272781372],
  [0.13203048706054688, 0.30742281675338745, 0.6340786814689636],
  [0.4900934100151062, 0.8964447379112244, 0.455627977848053],
];

class MyModule {
  static readonly [rpcName] = `${OPTIMIZER_TEST}.MyModule`;
  readonly w: Tensor;

  constructor(requiresGrad = true) {
    this.w = tensor(DRAWN, { requiresGrad });
  }

  forward(t1: Tensor): Tensor {
    return mm(this.w, t1);
  }

  get_w(): Tensor {
    return this.w;
  }
}
rpcClass(MyModule, { methods: ['forward', 'get_w'] });
rpcFunction(`${OPTIMIZER_TEST}.MyModule.forward`, (self: MyModule, t1: Tensor) => self.forward(t1));
rpcFunction(`${OPTIMIZER_TEST}.MyModule.get_w`, (self: MyModule) => self.get_w());

class FailingOptimizer extends optim.Optimizer {
  static readonly [rpcName] = `${OPTIMIZER_TEST}.FailingOptimizer`;

  override step(): never {
    throw new RangeError('Error running optimizer.');
  }

  protected override slotNames = [];

  protected override update(): void {
    // Never comes to it.
  }
}
rpcClass(FailingOptimizer, { methods: [] });

class OptimizerFailingOnConstructor extends optim.Optimizer {
  static readonly [rpcName] = `${OPTIMIZER_TEST}.OptimizerFailingOnConstructor`;

  constructor(params: readonly Parameter[]) {
    super(params);
    throw new RangeError('Error creating optimizer.');
  }

  protected override slotNames = [];

  protected override update(): void {
    // There is none.
  }
}
rpcClass(OptimizerFailingOnConstructor, { methods: [] });

offer(OPTIMIZER_TEST, {
  _call_method: async (method: unknown, rref: RRef<unknown>, ...args: unknown[]) =>
    call(method, await rref.localValue(), ...args),
});
