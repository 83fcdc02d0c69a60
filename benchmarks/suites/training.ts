/**
 * @file Whole training jobs next to the same programs for stock PyTorch and for TensorFlow.js alone, in turns, and where a batch's time goes.
 * BENCH_TRAINING_JOBS and BENCH_TRAINING_BACKENDS name some of them, with commas; BENCH_TRAINING_PASSES says how many passes the main job and
 * the data-parallel one make, and how many times fifteen batches the pipeline trains with each splitting (sixteen are all digits).
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { median } from '../measure.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';
import { embedding } from '../training/embedding.ts';
import type { Job, Run } from '../training/job.ts';
import { parameterServer } from '../training/parameter-server.ts';
import { pipeline } from '../training/pipeline.ts';
import { shares } from '../training/profile.ts';
import { replicas } from '../training/replicas.ts';

export const name = 'training';

/** What computes on our side: first what `auto` takes where it is, then what `npm ci` alone gives. */
const BACKENDS = ['tensorflow', 'blas', 'wasm', 'cpu'] as const;
type BackendName = (typeof BACKENDS)[number];

/** TensorFlow.js has no such backend: there, its fastest without native code. */
const PLAIN = { tensorflow: 'tensorflow', blas: 'wasm', wasm: 'wasm', cpu: 'cpu' } as const;

const TORCH = 'PyTorch';

/** All runs of a job, by who ran it: a backend, `TensorFlow.js on …`, or PyTorch. */
type Runs = Map<string, Run[]>;

export async function run(context: SuiteContext): Promise<Row[]> {
  const jobs = [parameterServer, pipeline, embedding, replicas].filter(chosenBy('BENCH_TRAINING_JOBS'));
  // What plain loops of TensorFlow.js train in a minute, the others do in a second: they are measured when they are asked for.
  const usual = BACKENDS.filter((backend) => backend !== 'cpu').join(',');
  const asked = BACKENDS.map((backend) => ({ name: backend }))
    .filter(chosenBy('BENCH_TRAINING_BACKENDS', usual))
    .map((backend) => backend.name);
  const backends: BackendName[] = [];
  for (const backend of asked) {
    const reason = await whyNot(backend);
    if (reason === undefined) backends.push(backend);
    else context.log(`without ${backend}: ${reason}`);
  }
  if (context.torchPython === undefined) context.log('without PyTorch: BACKWIRE_TORCH_PYTHON is not set');
  const runs = new Map(jobs.map((job) => [job, new Map<string, Run[]>()]));
  const rounds = await inTurns(context, () => [...runs].flatMap(([job, of]) => turnsOf(context, job, of, backends)));
  context.log(`rounds: ${rounds}`);
  const rows: Row[] = [];
  const [fastest] = backends;
  for (const [job, of] of runs) {
    for (const [who, own] of of) context.log(lineOf(job, who, own));
    if (fastest !== undefined && (context.profile || !context.quick))
      context.log(await profiled(context, job, fastest));
    rows.push(...backends.flatMap((backend) => rowsOf(job, backend, of)));
  }
  return rows;
}

/** Whole rounds until the next one would not end in time; how many. */
async function inTurns(context: SuiteContext, turns: () => (() => Promise<void>)[]): Promise<number> {
  const [most, budgetMs] = context.quick ? [3, 150_000] : [5, 1_200_000];
  const began = performance.now();
  let round = 0;
  let took = 0;
  while (round < most && performance.now() - began + took < budgetMs) {
    const start = performance.now();
    for (const turn of turns()) await turn();
    took = performance.now() - start;
    round++;
  }
  return round;
}

/** One run for each contestant. */
function turnsOf(
  context: SuiteContext,
  job: Job,
  runs: Runs,
  backends: readonly BackendName[],
): (() => Promise<void>)[] {
  const amount = (backend: string): number =>
    backend === 'cpu' ? job.amount.cpu : context.quick ? job.amount.quick : job.amount.full;
  const note = async (who: string, run: Promise<Run>): Promise<void> => {
    const found = runs.get(who) ?? [];
    runs.set(who, found);
    found.push(await run);
  };
  const { torchPython } = context;
  return [
    ...backends.map((backend) => () => note(backend, job.ours(backend, amount(backend), []))),
    ...[...new Set(backends.map((backend) => PLAIN[backend]))].map(
      (plain) => () => note(plainName(plain), job.plain(plain, amount(plain))),
    ),
    ...(torchPython === undefined
      ? []
      : [
          () =>
            note(
              TORCH,
              torchRun(context, () => job.torch(torchPython, amount('torch'))),
            ),
        ]),
  ];
}

/** Taken again where it fails: a context of its distributed autograd may be gone at one worker before a backward pass has come there. */
async function torchRun(context: SuiteContext, run: () => Promise<Run>): Promise<Run> {
  try {
    return await run();
  } catch (error) {
    context.log(`PyTorch's run failed and is taken again: ${(error as Error).message}`);
    return run();
  }
}

function rowsOf(job: Job, backend: BackendName, runs: Runs): Row[] {
  const row = (against: string, what: string, rate: (run: Run) => number | undefined): Row[] => {
    const ours = (runs.get(backend) ?? []).flatMap((run) => rate(run) ?? []);
    // One pass is all that TensorFlow.js alone makes: its rate stays what it is.
    const peer = (runs.get(against) ?? []).map((run) => rate(run) ?? run.samplesPerSecond);
    if (ours.length === 0 || peer.length === 0) return [];
    const name = `${job.name} on ${backend}${what}`;
    return [rowOf({ name, unit: `${job.sample}/s`, better: 'higher', against }, ours, peer)];
  };
  return [TORCH, plainName(PLAIN[backend])].flatMap((against) => [
    ...row(against, '', (run) => run.samplesPerSecond),
    ...row(against, ', the last pass', (run) => run.lastPassPerSecond),
  ]);
}

const plainName = (backend: string): string => `TensorFlow.js on ${backend}`;

function lineOf({ name: job, sample, batch }: Job, who: string, runs: readonly Run[]): string {
  const rates = runs.map(({ samplesPerSecond }) => samplesPerSecond);
  const middle = median(rates);
  const range = `${Math.min(...rates).toFixed(0)} to ${Math.max(...rates).toFixed(0)}`;
  const last = runs.at(-1) as Run;
  const phases = Object.keys(last.phases ?? {}).map(
    (phase) => `${phase} ${median(runs.map((run) => run.phases?.[phase] ?? 0)).toFixed(2)} ms`,
  );
  const more = [
    ...(phases.length > 0 ? [`of a worker: ${phases.join(', ')}`] : []),
    ...(last.note === undefined ? [] : [last.note]),
  ];
  const tail = [`loss ${last.finalLoss.toFixed(3)}`, ...more].join('; ');
  return `${job}, ${who}: ${middle.toFixed(0)} ${sample}/s (${range}), ${((1000 * batch) / middle).toFixed(2)} ms a batch of ${batch}; ${tail}`;
}

/** Where the time of each role goes, from one more run with V8's profiler. */
async function profiled(context: SuiteContext, job: Job, backend: BackendName): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'training-profile-'));
  try {
    const amount = backend === 'cpu' ? job.amount.cpu : context.quick ? job.amount.quick : job.amount.full;
    await job.ours(backend, amount, ['--cpu-prof', `--cpu-prof-dir=${folder}`]);
    const roles = shares(folder, job.roles).map(
      ({ role, parts }) =>
        `${role}: ${parts.map(({ what, share }) => `${what} ${(100 * share).toFixed(0)} %`).join(', ')}`,
    );
    return `${job.name}, ${backend}: ${roles.join('; ')}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Why a backend cannot be had here; undefined when it can. */
async function whyNot(backend: BackendName): Promise<string | undefined> {
  const program = `import('@backwire/tensor').then((bw) => bw.setBackend('${backend}')).catch((error) => { console.log(error.message); process.exit(3); })`;
  try {
    const args = ['--import', 'tsx', '--conditions=@backwire/source', '-e', program];
    await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname });
    return undefined;
  } catch (error) {
    const { code, stdout } = error as { code?: unknown; stdout: string };
    if (code !== 3) throw error;
    return stdout.trim();
  }
}

function chosenBy(variable: string, usual?: string): (thing: { readonly name: string }) => boolean {
  const names = (process.env[variable] ?? usual)?.split(',');
  return ({ name: thing }) => names === undefined || names.includes(thing);
}
