import { nn, rpcClass, rpcName, type Tensor } from 'backwire';

/** Logits [n, 2] of points [n, 2]. */
export class Net extends nn.Module {
  static readonly [rpcName] = 'circle/Net';
  readonly hidden = new nn.Linear(2, 32);
  readonly output = new nn.Linear(32, 2);

  forward(x: Tensor): Tensor {
    // Another trainer may change the parameters before this one's backward pass needs them: it gets those that were used.
    const weight = this.output.weight.clone();
    return this.hidden.forward(x).relu().matmul(weight.transpose(0, 1)).add(this.output.bias!);
  }
}
rpcClass(Net, { methods: ['forward'] });
