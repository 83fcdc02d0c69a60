import { createRRef, getWorkerInfos, initRpc, manualSeed, noGrad, rpcAsync, shutdown } from 'backwire';
import { Net } from './net.ts';
import { points, train } from './trainer.ts';

const rank = Number(process.env.RANK);
await initRpc({ name: rank === 0 ? 'server' : `trainer${rank}` });

if (rank === 0) {
  manualSeed(0);
  const net = new Net();
  using shared = createRRef(net); // a reference, not a copy: the trainers call this net
  const parameters = net.parameters().map((parameter) => createRRef(parameter));

  const trainers = getWorkerInfos().filter(({ name }) => name.startsWith('trainer'));
  const losses = await Promise.all(
    trainers.map(({ name, id }) => rpcAsync(name, train, [shared, parameters, id, 150], { timeoutMs: 0 })),
  );
  for (const reference of parameters) reference.dispose();

  const { x, y } = points(1_000);
  const right = noGrad(() => net.forward(x).argMax(1).eq(y).to('float32').mean().item());
  console.log(`${trainers.length} trainers, loss ${losses.map((loss) => loss.toFixed(2)).join(' ')}`);
  console.log(`${(100 * right).toFixed(1)} % of new points are right`);
}
await shutdown();
