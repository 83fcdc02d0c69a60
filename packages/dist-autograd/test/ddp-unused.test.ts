/** @file Replicas in contexts of which a pass needs some parameters only. */
import { processGroup } from '@backwire/rpc';
import { createRRef } from '@backwire/rref';
import { nn, optim, Parameter, ones, type Tensor } from '@backwire/tensor';
import { expect, it } from 'vitest';
import { expectClean, useAgents } from './agents.ts';
import { backward, context, DistributedOptimizer, getGradients } from '../src/index.ts';

const { agents, at } = useAgents('ddp-unused', 2);

class Heads extends nn.Module {
  readonly heads = new nn.ParameterList([0, 1, 2].map(() => new Parameter(ones([2]))));
  forward(which: readonly number[]): Tensor {
    const terms = which.map((i) => (this.parameters()[i] as Tensor).sum());
    return terms.reduce((sum, term) => sum.add(term));
  }
}

it('have gradients of what any worker needs, and an optimizer leaves the others as they are', async () => {
  const found = await Promise.all(
    [0, 1].map((rank) =>
      at(rank, async () => {
        const model = new nn.DistributedDataParallel(new Heads(), { group: processGroup() });
        const optimizer = await DistributedOptimizer.create(
          optim.SGD,
          model.parameters().map((p) => createRRef(p)),
          { lr: 1, weightDecay: 1 },
        );
        // The last is needed by one, the first by both, the other by none.
        const sizes = await context(async (id) => {
          await backward(id, [model.forward(rank === 0 ? [0] : [0, 2])]);
          const gradients = getGradients(id);
          await optimizer.step(id);
          return model.parameters().map((p) => gradients.get(p)?.toArray());
        });
        return [sizes, model.parameters().map((p) => p.toArray())];
      }),
    ),
  );
  const gradients = [[1, 1], undefined, [0.5, 0.5]];
  const values = [
    [-1, -1],
    [1, 1],
    [-0.5, -0.5],
  ];
  expect(found).toEqual([
    [gradients, values],
    [gradients, values],
  ]);
  await expectClean(agents);
});
