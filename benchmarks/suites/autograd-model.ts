/** @file Half of the model that the suite of distributed autograd trains: two linear layers. */
import { rpcClass } from '@backwire/rpc';
import { nn, rpcName, type Tensor } from '@backwire/tensor';

export class Mlp extends nn.Module {
  static readonly [rpcName] = 'bench/Mlp';
  readonly first: nn.Linear;
  readonly second: nn.Linear;
  constructor(width: number, out: number) {
    super();
    this.first = new nn.Linear(width, width);
    this.second = new nn.Linear(width, out);
  }
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x).relu());
  }
}
rpcClass(Mlp, { methods: ['forward'] });
