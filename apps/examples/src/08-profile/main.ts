/**
 * @file A profile of a training step over two workers: what was called, what the other side did for it, and a trace of both.
 *
 *     backwire run --standalone --nproc-per-node 2 apps/examples/src/08-profile/main.ts --out trace.json
 */
import { parseArgs } from 'node:util';
import { manualSeed, mseLoss, nn, optim, randn } from '@backwire/tensor';
import { initRpc, shutdown } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { backward, context, distAutograd, DistributedOptimizer, RemoteModule } from '@backwire/dist-autograd';
import { profile, profiling, recordFunction } from '@backwire/profiler';

const { out } = parseArgs({ options: { out: { type: 'string', default: 'trace.json' } } }).values;
const rank = Number(process.env['RANK'] ?? 0);
const worldSize = Number(process.env['WORLD_SIZE'] ?? 1);
if (worldSize !== 2) {
  console.error('the profile is of two workers: backwire run --standalone --nproc-per-node 2 main.ts');
  process.exit(2);
}
await initRpc({ name: `worker${rank}`, rank, worldSize, extensions: [rrefs(), distAutograd(), profiling()] });

if (rank === 0) {
  manualSeed(0);
  const layer = await RemoteModule.create('worker1', nn.Linear, [64, 8]);
  const optimizer = await DistributedOptimizer.create(optim.SGD, await layer.remoteParameters(), { lr: 0.1 });
  const [x, y] = [randn([32, 64]), randn([32, 8])];
  const step = (): Promise<void> =>
    context(async (id) => {
      const loss = await recordFunction('forward', async () => mseLoss(await layer.forward(x), y));
      await recordFunction('backward', () => backward(id, [loss]));
      await recordFunction('step', () => optimizer.step(id));
    });
  await step();
  const { profile: found } = await profile(step, { recordShapes: true, profileMemory: true });
  console.log(found.keyAverages({ groupBy: 'name+node' }).table({ sortBy: 'total', limit: 15 }));
  await found.writeChromeTrace(out);
  console.log(`\nwritten: ${out}, for ui.perfetto.dev`);
}
await shutdown();
