/** @file A convolutional network, a third of it on each of three workers: 04-pipeline-parallel. */
import { digitsFolder } from './examples.ts';
import { type Job, PASSES, runExample, runPlain, runPython, type Run } from './job.ts';

const BATCH = 256;
const LR = 0.004;

/** What both programs say of training with one number of micro-batches. */
interface Setting {
  readonly microBatches: number;
  readonly msPerBatch: number;
  readonly digitsPerSecond: number;
  readonly loss: number;
}

export const pipeline: Job = {
  name: 'pipeline',
  sample: 'digits',
  batch: BATCH,
  // Batches of each splitting. In the first hundreds V8 is still compiling, in four processes that have half a core each.
  amount: { quick: 6, full: 15 * PASSES, cpu: 3 },
  async ours(backend, batches, flags) {
    const args = ['--batches', batches, '--batch-size', BATCH, '--lr', LR, '--test-digits', 1, '--quiet'];
    const { settings } = await runExample<{ settings: Setting[] }>('04-pipeline-parallel', args, { backend, flags });
    return best(settings);
  },
  async torch(python, batches) {
    const found = await runPython(python, 'pipeline.py', [digitsFolder(), batches, BATCH, LR]);
    return best((found as Run & { settings: Setting[] }).settings);
  },
  // On wasm, where a batch takes a quarter of a second and more, a few are enough.
  plain: (backend, batches) =>
    runPlain('pipeline', backend, {
      batches: backend === 'wasm' ? Math.min(batches, 10) : batches,
      batch: BATCH,
      lr: LR,
    }),
  roles: [
    { role: 'master', sign: /04-pipeline-parallel\/pipeline\.ts$/ },
    { role: 'a stage', sign: /04-pipeline-parallel\/stages\.ts$|\/tensor\/src\/ops\/convolve\.ts$/ },
  ],
};

/** Everybody splits a batch as suits it best. */
function best(settings: readonly Setting[]): Run {
  const [first] = settings.toSorted((a, b) => a.msPerBatch - b.msPerBatch);
  if (first === undefined) throw new Error('the pipeline has trained nothing');
  return {
    samplesPerSecond: first.digitsPerSecond,
    finalLoss: first.loss,
    note: `${settings.map(({ microBatches, msPerBatch }) => `${microBatches} parts ${msPerBatch.toFixed(0)} ms`).join(', ')}`,
  };
}
