import { allGather, data, initRpc, mseLoss, nn, optim, processGroup, rpcAsync, shutdown } from 'backwire';
import { batch, COUNT } from './storage.ts';

await initRpc({ name: ['storage', 'trainer1', 'trainer2'][Number(process.env.RANK)]! });
if (process.env.RANK !== '0') await train();
await shutdown(); // the storage answers until the trainers are here, too

async function train(): Promise<void> {
  const trainers = { workers: ['trainer1', 'trainer2'] };
  const group = processGroup(trainers);
  const model = new nn.DistributedDataParallel(new nn.Linear(8, 1), { group });
  await model.synchronize(); // both begin with the weights of the first
  const optimizer = new optim.SGD(model.module.parameters(), { lr: 0.1 });

  // The data set is the numbers of the samples; a batch of them is fetched with one call.
  const numbers: data.Dataset<number> = { length: COUNT, get: (i) => i };
  const sampler = new data.DistributedSampler(numbers, { group }); // this trainer's half of them
  const loader = new data.DataLoader(numbers, {
    batchSize: 50,
    sampler,
    prefetch: 2, // two batches are on their way while the trainer works on a third
    collate: (rows) => rpcAsync('storage', batch, [rows]),
  });

  let seen = 0;
  let last = 0;
  for (let epoch = 0; epoch < 5; epoch++) {
    sampler.setEpoch(epoch); // another order, and other halves; the same epoch on every trainer
    for await (const [x, y] of loader) {
      const loss = mseLoss(model.forward(x), y);
      optimizer.zeroGrad();
      await model.backward(loss); // the mean of the gradients of both
      optimizer.step();
      seen += x.shape[0]!;
      last = loss.item();
    }
  }
  const counts = await allGather(seen, trainers);
  if (group.rank === 0) console.log([...counts.values()], last < 0.001);
}
