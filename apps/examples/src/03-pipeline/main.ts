/**
 * @file A model over two workers: the master sends micro-batches through both halves, one behind the other, and trains all of it.
 *
 *     backwire run --standalone --nproc-per-node 3 apps/examples/src/03-pipeline/main.ts --batches 100
 */
import { parseArgs } from 'node:util';
import { concat, crossEntropy, fromBytes, nn, noGrad, optim, tensor, type Tensor } from '@backwire/tensor';
import { initRpc, shutdown } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { backward, context, distAutograd, DistributedOptimizer, RemoteModule } from '@backwire/dist-autograd';
import { profiling } from '@backwire/profiler';
import { type Batch, batchOf, PIXELS, readDigits } from '../shared/mnist.ts';
import { generator, permutation } from '../shared/random.ts';
import { Classifier, Features } from './stages.ts';

const BATCH = 128;
/** While the second worker has one of these, the first works on the next. */
const MICRO_BATCHES = 4;
const TEST_DIGITS = 2_000;

const { batches, seed, lr } = parseArgs({
  options: {
    batches: { type: 'string', default: '100' },
    seed: { type: 'string', default: '0' },
    lr: { type: 'string', default: '0.002' },
  },
}).values;
const rank = Number(process.env['RANK'] ?? 0);
const worldSize = Number(process.env['WORLD_SIZE'] ?? 1);
if (worldSize !== 3) {
  console.error('the pipeline needs three workers: backwire run --standalone --nproc-per-node 3 main.ts');
  process.exit(2);
}
const name = rank === 0 ? 'master' : `stage${rank}`;
await initRpc({ name, rank, worldSize, extensions: [rrefs(), distAutograd(), profiling()] });
if (rank === 0) await train(Number(batches), Number(seed), Number(lr));
await shutdown();

async function train(count: number, seedNumber: number, rate: number): Promise<void> {
  const features = await RemoteModule.create('stage1', Features, [seedNumber]);
  const classifier = await RemoteModule.create('stage2', Classifier, [seedNumber]);
  const model = new nn.Sequential(features, classifier);
  const parameters = [...(await features.remoteParameters()), ...(await classifier.remoteParameters())];
  const optimizer = await DistributedOptimizer.create(optim.Adam, parameters, { lr: rate });

  const train = readDigits('train');
  const order = permutation(train.count, generator(seedNumber));
  const began = performance.now();
  for (let batch = 0; batch < count; batch++) {
    const { x, y } = tensors(batchOf(train, order.subarray(batch * BATCH, (batch + 1) * BATCH)));
    const loss = await context(async (id) => {
      const size = BATCH / MICRO_BATCHES;
      const parts = Array.from({ length: MICRO_BATCHES }, (_, i) => model.forward(x.narrow(0, i * size, size)));
      const loss = crossEntropy(concat(await Promise.all(parts)), y);
      await backward(id, [loss]);
      await optimizer.step(id);
      return loss.item();
    });
    if ((batch + 1) % 25 === 0) console.log(`batch ${batch + 1} of ${count}: loss ${loss.toFixed(4)}`);
  }
  const seconds = (performance.now() - began) / 1000;
  const test = readDigits('test');
  const { x } = tensors(
    batchOf(
      test,
      Uint32Array.from({ length: TEST_DIGITS }, (_, i) => i),
    ),
  );
  const guesses = await (await noGrad(() => model.forward(x))).argMax(1).data('int64');
  const right = guesses.reduce((sum, guess, i) => sum + (Number(guess) === test.labels[i] ? 1 : 0), 0);
  console.log(
    `test accuracy ${((100 * right) / TEST_DIGITS).toFixed(2)} %, ${Math.round((count * BATCH) / seconds)} digits a second`,
  );
}

function tensors({ x, y, count }: Batch): { x: Tensor; y: Tensor } {
  return { x: fromBytes(new Uint8Array(x.buffer), [count, PIXELS], 'float32'), y: tensor(y, { dtype: 'int64' }) };
}
