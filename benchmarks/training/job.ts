/** @file A job of the training suite: what every contestant of it runs, and how programs are run for their last line. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { exampleFile, EXAMPLES, PUBLISHED_EXAMPLES } from './examples.ts';
import { publish } from '../published.ts';
import { gradientsFile } from './gradients.ts';
import type { RoleSign } from './profile.ts';

/** What one run of a program says of itself. */
export interface Run {
  readonly samplesPerSecond: number;
  readonly finalLoss: number;
  /** What one worker's batch goes into, in milliseconds. */
  readonly phases?: Readonly<Record<string, number>>;
  /** The rate of the last of several passes, when everything has been compiled. */
  readonly lastPassPerSecond?: number;
  /** What else is worth a line. */
  readonly note?: string;
}

export interface Job {
  readonly name: string;
  /** What is counted: 'digits' or 'words'. */
  readonly sample: string;
  /** Samples of one batch of every worker that has batches of its own. */
  readonly batch: number;
  /** How much a run trains, in an amount of the job's own. */
  readonly amount: { readonly quick: number; readonly full: number; readonly cpu: number };
  /** Runs it on Backwire; `flags` are Node's, for all its processes. */
  ours(backend: string, amount: number, flags: readonly string[]): Promise<Run>;
  /** Runs the same written for stock PyTorch. */
  torch(python: string, amount: number): Promise<Run>;
  /** The same program for TensorFlow.js alone, in one process. */
  plain(backend: string, amount: number): Promise<Run>;
  /** What tells its processes apart in profiles. */
  readonly roles: readonly RoleSign[];
}

const execute = promisify(execFile);
/** Long enough for the slowest backend on a busy machine. */
const TIMEOUT_MS = 900_000;

/** Sources as they are published, see `plain.mjs`; a launcher gives its own flags to the workers. */
const NODE = ['--import', new URL('../plain.mjs', import.meta.url).href, '--conditions=@backwire/source'];

/** What `processes.ts` gives to programs that it starts; examples give theirs to their workers. */
const NODE_FLAGS = process.env['BENCH_NODE_FLAGS']?.split(' ') ?? [];

/** Where `npm run setup:tensorflow` installs, which programs outside of the package find only when they are told. */
const TENSORFLOW_SETUP = fileURLToPath(
  new URL('../../packages/tensor/node_modules/.tensorflow/node_modules/', import.meta.url),
);

/** One thread a kernel for everybody. */
export const ownEnvironment = (backend: string): Record<string, string> => ({
  OMP_NUM_THREADS: '1',
  BACKWIRE_BACKEND: backend,
  ...(backend === 'tensorflow' ? { NODE_PATH: TENSORFLOW_SETUP } : {}),
});

/** Runs a program of Node; its output. */
async function runNode(
  program: URL,
  args: readonly (string | number)[],
  { backend, flags = [] }: { readonly backend: string; readonly flags?: readonly string[] },
): Promise<string> {
  const loader = program.pathname.endsWith('.ts') ? NODE : [];
  const { stdout } = await execute(
    process.execPath,
    [...loader, ...flags, fileURLToPath(program), ...args.map(String)],
    {
      env: { ...process.env, ...ownEnvironment(backend) },
      timeout: TIMEOUT_MS,
      maxBuffer: 64 * 2 ** 20,
    },
  );
  return stdout;
}

const published = new Map<string, Promise<URL>>();

/** The first of some programs, of a name, as it is published with the others, until this process ends. */
function publishedFirst(name: string, sources: readonly URL[], parent?: URL): Promise<URL> {
  const known = published.get(name);
  if (known !== undefined) return known;
  const made = publish(sources, parent).then(({ programs, dispose }) => {
    process.once('exit', dispose);
    return programs[0] as URL;
  });
  published.set(name, made);
  return made;
}

/** From where the packages of the examples are found. */
const EXAMPLES_OUT = exampleFile('../out-tsc/');

function publishedExample(name: string): Promise<URL> {
  const sources = ['main.ts', 'worker.ts']
    .map((file) => exampleFile(`${name}/${file}`))
    .filter((file) => existsSync(file));
  return publishedFirst(name, sources, EXAMPLES_OUT);
}

/** A program of this suite as it is published, and what it needs in its environment. */
export async function publishedProgram(source: URL): Promise<{ program: URL; env: Record<string, string> }> {
  const program = await publishedFirst(source.pathname, [source]);
  const examples = await publishedFirst('examples', EXAMPLES, EXAMPLES_OUT);
  return { program, env: { [PUBLISHED_EXAMPLES]: examples.href } };
}

/** Runs an example with `args` and reads the summary that it writes. @throws Error where another backend than was asked for has computed. */
export async function runExample<T>(
  name: string,
  args: readonly (string | number)[],
  options: { readonly backend: string; readonly flags: readonly string[] },
): Promise<T> {
  const out = mkdtempSync(join(tmpdir(), 'training-'));
  try {
    // Profiles name the sources.
    const program = options.flags.length > 0 ? exampleFile(`${name}/main.ts`) : await publishedExample(name);
    await runNode(program, [...args, '--out', out], { ...options, flags: [...options.flags, ...NODE_FLAGS] });
    const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as T & { backend: string };
    if (summary.backend !== options.backend)
      throw new Error(`${name} has computed with ${summary.backend} instead of ${options.backend}`);
    return summary;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** Runs the job's program for TensorFlow.js alone. */
export async function runPlain(job: string, backend: string, settings: object): Promise<Run> {
  const program = new URL('./plain.ts', import.meta.url);
  return lastLine(await runNode(program, [job, backend, JSON.stringify(settings), await gradientsFile()], { backend }));
}

/** Runs a program of Python, in this folder. */
export async function runPython(python: string, script: string, args: readonly (string | number)[]): Promise<Run> {
  const file = fileURLToPath(new URL(`./${script}`, import.meta.url));
  // A process group: workers that it has spawned outlive it where it fails, and would take a core from every run that follows.
  const child = spawn(python, [file, ...args.map(String)], {
    env: { ...process.env, ...ownEnvironment('auto') },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // All have ended.
    }
  };
  const began = performance.now();
  const elapsed = (): string => ((performance.now() - began) / 1_000).toFixed(0);
  const timer = setTimeout(end, TIMEOUT_MS);
  // What ends a terminal's group does not reach it.
  const stop = (): void => {
    end();
    process.exit(1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
  try {
    const exit = once(child, 'exit');
    const read = Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = (await exit) as [number | null];
    end();
    const [output, complaint] = await read;
    const how = code === null ? 'was killed' : `ended with ${code}`;
    if (code !== 0)
      throw new Error(`${script} ${how} after ${elapsed()} s: ${complaint.trim().split('\n').at(-1) ?? ''}`);
    return lastLine(output);
  } finally {
    clearTimeout(timer);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop);
    end();
  }
}

function lastLine(output: string): Run {
  return JSON.parse(output.trim().split('\n').at(-1) as string) as Run;
}

/** Digits of one pass: all there are. */
export const PASS = 60_000;

/** How many passes a run makes that is not short. V8 compiles until the tenth to thirtieth: with five (BENCH_TRAINING_PASSES) a run shows little else. */
export const PASSES = Number(process.env['BENCH_TRAINING_PASSES'] ?? 60);

/** How many digits are trained with, and how many times. */
export function passes(digits: number): [digits: number, times: number] {
  return [Math.min(digits, PASS), Math.ceil(digits / PASS)];
}

/** The rate of the last of several passes. */
export function lastPass(digits: number, secondsByPass: readonly number[]): Pick<Run, 'lastPassPerSecond'> {
  const [each, times] = passes(digits);
  return times > 1 ? { lastPassPerSecond: each / (secondsByPass.at(-1) ?? Number.NaN) } : {};
}
