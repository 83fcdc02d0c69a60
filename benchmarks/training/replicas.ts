/** @file The main job's model as DistributedDataParallel of two workers, which average their gradients after each batch. */
import { freePort, start } from '../processes.ts';
import { digitsFolder } from './examples.ts';
import {
  type Job,
  lastPass,
  ownEnvironment,
  PASS,
  PASSES,
  passes,
  publishedProgram,
  runPlain,
  runPython,
  type Run,
} from './job.ts';
import type { Replica } from './replicas-worker.ts';

const BATCH = 128;
const WORKERS = 2;
const LR = 0.02;

export const replicas: Job = {
  name: 'data parallel',
  sample: 'digits',
  batch: BATCH * WORKERS,
  // As the main job's.
  amount: { quick: PASS, full: PASSES * PASS, cpu: 2_560 },
  async ours(backend, digits, flags) {
    const store = `tcp://127.0.0.1:${await freePort()}`;
    const source = new URL('./replicas-worker.ts', import.meta.url);
    // Profiles name the sources.
    const { program, env } = flags.length > 0 ? { program: source, env: {} } : await publishedProgram(source);
    const workers = await Promise.all(
      Array.from({ length: WORKERS }, (_, rank) =>
        start(program, { ...env, ...ownEnvironment(backend), BENCH_STORE: store, BENCH_RANK: String(rank) }, flags),
      ),
    );
    try {
      const [limit, times] = passes(digits);
      const settings = { digits: limit, times, workers: WORKERS, batch: BATCH, lr: LR };
      const found = (await Promise.all(workers.map((worker) => worker.ask('train', settings)))) as Replica[];
      const secondsByPass = Array.from({ length: times }, (_, i) =>
        Math.max(...found.map((one) => one.seconds[i] ?? 0)),
      );
      const seconds = secondsByPass.reduce((sum, one) => sum + one, 0);
      const samples = found.reduce((sum, one) => sum + one.samples, 0);
      const { phases, loss } = found[0] as Replica;
      return { samplesPerSecond: samples / seconds, finalLoss: loss, phases, ...lastPass(digits, secondsByPass) };
    } finally {
      await Promise.all(workers.map((worker) => worker.close()));
    }
  },
  async torch(python, digits) {
    const args = [digitsFolder(), ...passes(digits), BATCH, WORKERS, LR];
    const found = (await runPython(python, 'replicas.py', args)) as Run & { readonly secondsByPass: readonly number[] };
    return { ...found, ...lastPass(digits, found.secondsByPass) };
  },
  // One process takes the batches of both workers in one: the same steps. One pass is enough: its rate stays what it is.
  plain: (backend, digits) =>
    runPlain('parameterServer', backend, { digits: passes(digits)[0], batch: BATCH * WORKERS, lr: LR }),
  roles: [{ role: 'a worker', sign: /replicas-worker\.m?[tj]s$/ }],
};
