import { crossEntropy, distAutograd, initRpc, nn, optim, shutdown, tensor } from 'backwire';

await initRpc({ name: ['trainer', 'server'][Number(process.env.RANK)]! });

if (process.env.RANK === '0') {
  // Two layers that live on the server, and references to their parameters.
  const first = await distAutograd.RemoteModule.create('server', nn.Linear, [2, 16]);
  const second = await distAutograd.RemoteModule.create('server', nn.Linear, [16, 2]);
  const params = [...(await first.remoteParameters()), ...(await second.remoteParameters())];
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.Adam, params, { lr: 0.05 });

  // Exclusive or: the classes of four points.
  const x = tensor([
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
  ]);
  const y = tensor([0n, 1n, 1n, 0n]);

  for (let step = 1; step <= 100; step++) {
    const loss = await distAutograd.context(async (id) => {
      const hidden = (await first.forward(x)).relu();
      const loss = crossEntropy(await second.forward(hidden), y);
      await distAutograd.backward(id, [loss]); // back through both calls
      await optimizer.step(id); // on the server
      return loss.item();
    });
    if (step % 25 === 0) console.log(`step ${step}: loss ${loss.toFixed(3)}`);
  }
  const answers = (await second.forward((await first.forward(x)).relu())).argMax(1);
  console.log(answers.toArray());
}
await shutdown();
