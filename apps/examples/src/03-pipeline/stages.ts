/** @file The two halves of the model, each for a worker of its own. */
import { manualSeed, nn, rpcName, type Tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import { CLASSES, PIXELS } from '../shared/mnist.ts';

const WIDTH = 128;

/** Images [n, 784] to features [n, 128]. */
export class Features extends nn.Module {
  static readonly [rpcName] = 'examples/Features';
  readonly first: nn.Linear;
  readonly second: nn.Linear;

  constructor(seed: number) {
    super();
    manualSeed(seed);
    this.first = new nn.Linear(PIXELS, WIDTH);
    this.second = new nn.Linear(WIDTH, WIDTH);
  }

  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x).relu()).relu();
  }
}
rpcClass(Features, { methods: ['forward'] });

/** Features [n, 128] to logits [n, 10]. */
export class Classifier extends nn.Module {
  static readonly [rpcName] = 'examples/Classifier';
  readonly layer: nn.Linear;

  constructor(seed: number) {
    super();
    manualSeed(seed + 1);
    this.layer = new nn.Linear(WIDTH, CLASSES);
  }

  forward(x: Tensor): Tensor {
    return this.layer.forward(x);
  }
}
rpcClass(Classifier, { methods: ['forward'] });
