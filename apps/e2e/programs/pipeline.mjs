// A model in two stages on two workers, trained by a third through both of them.
import { distAutograd, initRpc, manualSeed, mseLoss, nn, optim, randn, shutdown } from 'backwire';

const rank = Number(process.env.RANK);
await initRpc({ name: ['trainer', 'front', 'back'][rank], rank, worldSize: 3 });
if (rank === 0) {
  manualSeed(7);
  const front = await distAutograd.RemoteModule.create('front/cpu', nn.Linear, [8, 16]);
  const back = await distAutograd.RemoteModule.create('back/cpu', nn.Linear, [16, 4]);
  const parameters = (await Promise.all([front.remoteParameters(), back.remoteParameters()])).flat();
  const owners = parameters.map((parameter) => parameter.ownerName());
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.Adam, parameters, { lr: 0.02 });
  const x = randn([64, 8]);
  const wanted = x.narrow(1, 0, 4).mul(2);
  const losses = [];
  for (let step = 0; step < 80; step++) {
    await distAutograd.context(async (id) => {
      // Two halves of the batch are under way at once.
      const halves = await Promise.all(
        [0, 32].map(async (at) => back.forward(await front.forward(x.narrow(0, at, 32)))),
      );
      const loss = halves.map((y, i) => mseLoss(y, wanted.narrow(0, 32 * i, 32))).reduce((sum, part) => sum.add(part));
      losses.push(loss.item());
      await distAutograd.backward(id, [loss]);
      await optimizer.step(id);
    });
  }
  console.log(`answer ${JSON.stringify([owners, losses[0], losses.at(-1)])}`);
}
await shutdown();
