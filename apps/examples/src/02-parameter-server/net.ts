/** @file The model, which lives on the server. */
import { manualSeed, nn, rpcName, type Tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import { CLASSES, PIXELS } from '../shared/mnist.ts';

const HIDDEN = 128;

/** Two layers: 784 pixels, 128 hidden units, 10 digits. */
export class Net extends nn.Module {
  static readonly [rpcName] = 'examples/Net';
  readonly hidden: nn.Linear;
  readonly output: nn.Linear;

  /** The same `seed` gives the same weights. */
  constructor(seed: number) {
    super();
    manualSeed(seed);
    this.hidden = new nn.Linear(PIXELS, HIDDEN);
    this.output = new nn.Linear(HIDDEN, CLASSES);
  }

  /** Logits [n, 10] of images [n, 784]. */
  forward(x: Tensor): Tensor {
    // Another trainer may step the parameters before this one comes back with its gradients. These have to be of the weights that
    // were used, so backward gets a copy of the weights it needs: those of the second layer.
    const weight = this.output.weight.clone();
    const logits = this.hidden.forward(x).relu().matmul(weight.transpose(0, 1));
    return this.output.bias === null ? logits : logits.add(this.output.bias);
  }

  /** The parameters and their names. */
  weights(): [string, Tensor][] {
    return this.namedParameters().map(([name, parameter]) => [name, parameter.detach()]);
  }
}
// In a scope, so that the images of a batch are freed with what backward has saved of them: left to the collector, each batch would land in
// fresh memory.
rpcClass(Net, { methods: ['forward', 'weights'], scope: true });
