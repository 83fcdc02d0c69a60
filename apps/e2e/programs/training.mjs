// A parameter server and a trainer: autograd through the calls, an optimiser where the parameters are.
import { distAutograd, initRpc, manualSeed, mseLoss, nn, optim, randn, shutdown } from 'backwire';

const rank = Number(process.env.RANK);
manualSeed(7);
await initRpc({ name: ['ps', 'trainer'][rank], rank, worldSize: 2 });
if (rank === 1) {
  const layer = await distAutograd.RemoteModule.create('ps/cpu', nn.Linear, [64, 64]);
  const parameters = await layer.remoteParameters();
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.Adam, parameters, { lr: 0.05 });
  const x = randn([128, 64]);
  const wanted = x.mul(2);
  const losses = [];
  for (let step = 0; step < 60; step++) {
    await distAutograd.context(async (id) => {
      const loss = mseLoss(await layer.forward(x), wanted);
      losses.push(loss.item());
      await distAutograd.backward(id, [loss]);
      await optimizer.step(id);
    });
  }
  console.log(`answer ${JSON.stringify([losses[0], losses.at(-1)])}`);
}
await shutdown();
