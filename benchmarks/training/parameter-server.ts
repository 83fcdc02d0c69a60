/** @file The main job: 02-parameter-server, two trainers with a model on a server. */
import { digitsFolder } from './examples.ts';
import { type Job, lastPass, PASS, PASSES, passes, runExample, runPlain, runPython, type Run } from './job.ts';

const BATCH = 128;
const TRAINERS = 2;
const LR = 0.02;

interface Summary extends Run {
  /** Milliseconds of all trainers together. */
  readonly phaseMs: Readonly<Record<string, number>>;
  readonly secondsByEpoch: readonly number[];
}

export const parameterServer: Job = {
  name: 'main job',
  sample: 'digits',
  batch: BATCH * TRAINERS,
  // The whole example.
  amount: { quick: PASS, full: PASSES * PASS, cpu: 2_560 },
  async ours(backend, digits, flags) {
    const [limit, epochs] = passes(digits);
    const args = ['--epochs', epochs, '--batch-size', BATCH, '--trainers', TRAINERS, '--lr', LR, '--limit', limit];
    return runOf(await runExample<Summary>('02-parameter-server', args, { backend, flags }), digits);
  },
  async torch(python, digits) {
    const args = [digitsFolder(), ...passes(digits), BATCH, TRAINERS, LR];
    return runOf((await runPython(python, 'parameter_server.py', args)) as Summary, digits);
  },
  // One pass is enough: its rate stays what it is.
  plain: (backend, digits) => runPlain('parameterServer', backend, { digits: passes(digits)[0], batch: BATCH, lr: LR }),
  roles: [
    { role: 'server', sign: /optim\/(sgd|optimizer)\.ts$/ },
    { role: 'trainer', sign: /02-parameter-server\/trainer\.ts$/ },
  ],
};

function runOf({ samplesPerSecond, finalLoss, phaseMs, secondsByEpoch }: Summary, digits: number): Run {
  const batches = Math.ceil(digits / BATCH);
  const phases = Object.fromEntries(Object.entries(phaseMs).map(([phase, ms]) => [phase, ms / batches]));
  return { samplesPerSecond, finalLoss, phases, ...lastPass(digits, secondsByEpoch) };
}
