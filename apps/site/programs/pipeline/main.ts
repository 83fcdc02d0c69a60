import {
  concat,
  createRRef,
  distAutograd,
  initRpc,
  manualSeed,
  mseLoss,
  optim,
  randn,
  remote,
  shutdown,
  type RRef,
  type Tensor,
} from 'backwire';
import { Stage } from './stage.ts';

await initRpc({ name: ['master', 'stage1', 'stage2'][Number(process.env.RANK)]! });
if (process.env.RANK === '0') await train();
await shutdown();

async function train(): Promise<void> {
  using one = remote('stage1', Stage, [16, 64, 32]);
  using two = remote('stage2', Stage, [32, 64, 1]);
  const parameters = await Promise.all([one.rpcAsync().parameterRRefs(), two.rpcAsync().parameterRRefs()]);
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.Adam, parameters.flat(), { lr: 0.01 });

  manualSeed(7);
  const x = randn([128, 16]);
  const y = x.sum(1, true).relu();
  for (let step = 1; step <= 60; step++) {
    const loss = await distAutograd.context(async (id) => {
      const parts = await Promise.all(x.split(32).map((part) => through(one, two, part))); // four micro-batches
      const loss = mseLoss(concat(parts), y);
      await distAutograd.backward(id, [loss]);
      await optimizer.step(id);
      return loss.item();
    });
    if (step % 20 === 0) console.log(`step ${step}: loss ${loss.toFixed(3)}`);
  }
}

/** Sends a part through both stages. What the first computes goes to the second, not through here. */
async function through(one: RRef<Stage>, two: RRef<Stage>, part: Tensor): Promise<Tensor> {
  using input = createRRef(part);
  using middle = one.remote().forward(input); // resolves later: this is only a reference
  return await two.rpcAsync().forward(middle);
}
