import {
  crossEntropy,
  distAutograd,
  manualSeed,
  optim,
  rand,
  rpcFunction,
  type Parameter,
  type RRef,
  type Tensor,
} from 'backwire';
import type { Net } from './net.ts';

/** Points in a square [n, 2], and whether each lies in the circle [n]. The data of a trainer never leave it. */
export function points(n: number): { x: Tensor; y: Tensor } {
  const x = rand([n, 2]).mul(2).sub(1);
  return { x, y: x.square().sum(1).lt(0.6).long() };
}

/** Trains the net, which is on the server, with data of this worker. Answers the mean loss of the last ten steps. */
export const train = rpcFunction(
  'circle/train',
  async (net: RRef<Net>, parameters: RRef<Parameter>[], seed: number, steps: number) => {
    manualSeed(seed);
    const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, parameters, { lr: 0.3 });
    const losses: number[] = [];
    for (let step = 0; step < steps; step++) {
      const { x, y } = points(64);
      await distAutograd.context(async (id) => {
        const loss = crossEntropy(await net.rpcSync().forward(x), y);
        await distAutograd.backward(id, [loss]); // the gradients stay on the server, in this context
        await optimizer.step(id); // and are applied there
        losses.push(loss.item());
      });
    }
    // The references came with the arguments: they are this worker's to give back.
    for (const reference of [optimizer, net, ...parameters]) reference.dispose();
    return losses.slice(-10).reduce((sum, loss) => sum + loss, 0) / 10;
  },
);
