// Whom the page calls. Says where the group meets, and stays until it is told to stop.
import {
  add,
  distAutograd,
  initRpc,
  nn,
  optim,
  profiler,
  remote,
  rpcFunction,
  rpcSync,
  shutdown,
  tensor,
} from 'backwire';

rpcFunction('scale', (x, by) => x.mul(by));
// What a page answers though its program names none of it: a bundler that left out what defines it would be found here.
rpcFunction('call-back', async (page) => {
  const sum = await rpcSync(page, add, [tensor([1, 2]), 1]);
  const kept = remote(page, add, [tensor([1, 2]), 1]);
  const total = await kept.rpcSync().sum();
  const module = await distAutograd.RemoteModule.create(page, nn.Linear, [2, 1]);
  const parameters = await module.remoteParameters();
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, parameters, { lr: 1 });
  const x = tensor([[3, 4]]);
  const before = (await module.forward(x)).item();
  await distAutograd.context(async (id) => {
    await distAutograd.backward(id, [(await module.forward(x)).sum()]);
    await optimizer.step(id);
  });
  const step = before - (await module.forward(x)).item();
  const watch = remote(page, profiler.ServerProfiler, [{}]);
  await watch.rpcSync().enter();
  await rpcSync(page, add, [tensor([1]), 1]);
  await watch.rpcSync().exit();
  const profiled = (await watch.rpcSync().table()).includes('aten::add');
  for (const reference of [kept, watch, ...parameters]) reference.dispose();
  return [...sum.toArray(), total.item(), Math.round(step), profiled];
});
await initRpc({
  name: 'worker',
  membership: 'dynamic',
  transports: ['unix', 'ws'],
  security: { mode: 'hmac', secret: process.env.SECRET },
});
console.log('ready');
process.stdin.once('end', () => void shutdown({ graceful: false }).then(() => process.exit())).resume();
