/** @file The main job's model as DistributedDataParallel of two workers, which average their gradients after each batch. */
import { freePort, start } from '../processes.ts';
import { digitsFolder } from './examples.ts';
import { ownEnvironment, type Job, runPlain, runPython } from './job.ts';
import type { Replica } from './replicas-worker.ts';

const BATCH = 128;
const WORKERS = 2;
const LR = 0.02;

export const replicas: Job = {
  name: 'data parallel',
  sample: 'digits',
  batch: BATCH * WORKERS,
  amount: { quick: 12_800, full: 25_600, cpu: 2_560 },
  async ours(backend, digits, flags) {
    const store = `tcp://127.0.0.1:${await freePort()}`;
    const workers = await Promise.all(
      Array.from({ length: WORKERS }, (_, rank) => {
        const env = { ...ownEnvironment(backend), BENCH_STORE: store, BENCH_RANK: String(rank) };
        return start(new URL('./replicas-worker.ts', import.meta.url), env, flags);
      }),
    );
    try {
      const asked = workers.map((worker) => worker.ask('train', { digits, workers: WORKERS, batch: BATCH, lr: LR }));
      const found = (await Promise.all(asked)) as Replica[];
      const seconds = Math.max(...found.map((one) => one.seconds));
      const { phases, loss } = found[0] as Replica;
      return { samplesPerSecond: found.reduce((sum, one) => sum + one.samples, 0) / seconds, finalLoss: loss, phases };
    } finally {
      await Promise.all(workers.map((worker) => worker.close()));
    }
  },
  torch: (python, digits) => runPython(python, 'replicas.py', [digitsFolder(), digits, BATCH, WORKERS, LR]),
  // One process takes the batches of both workers in one: the same steps.
  plain: (backend, digits) => runPlain('parameterServer', backend, { digits, batch: BATCH * WORKERS, lr: LR }),
  roles: [{ role: 'a worker', sign: /replicas-worker\.ts$/ }],
};
