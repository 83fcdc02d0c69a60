import { distAutograd, initRpc, manualSeed, mseLoss, randn, remote, shutdown } from 'backwire';
import { Keeper } from './keeper.ts';

const [folder = '.'] = process.argv.slice(2);
await initRpc({ name: ['trainer', 'keeper'][Number(process.env.RANK)]! });
if (process.env.RANK === '0') await train(300);
await shutdown();

async function train(steps: number): Promise<void> {
  using keeper = remote('keeper', Keeper, [folder]);
  const done = await keeper.rpcSync().load();
  if (done > 0) console.log(`going on after step ${done}`);
  for (let step = done + 1; step <= steps; step++) {
    manualSeed(step); // the batch of a step is the same in every life
    const x = randn([32, 4]);
    const y = x.sum(1, true);
    const loss = await distAutograd.context(async (id) => {
      const loss = mseLoss(await keeper.rpcSync().forward(x), y);
      await distAutograd.backward(id, [loss]);
      await keeper.rpcSync().step(id);
      return loss.item();
    });
    if (step % 50 === 0) {
      await keeper.rpcSync().save(step);
      console.log(`step ${step}: loss ${loss.toFixed(6)}`);
    }
  }
}
