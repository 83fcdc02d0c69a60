/** @file The frame of an example: it starts its own group of workers, or plays one of them when a launcher started it. */
import { initRpc, shutdown } from 'backwire';
import { setBackend } from '@backwire/tensor';
import { launch, LaunchError, type LaunchOptions } from '@backwire/launch';
import { DataFileError } from './idx.ts';
import { type Flags, flagsHelp, OptionError, type OptionsOf, parseFlags } from './flags.ts';

export interface Example<F extends Flags> {
  /** The program, for the launcher: `import.meta.filename`. */
  readonly program: string;
  /** What errors start with. */
  readonly name: string;
  /** What it does, for the help; wrapped by hand. */
  readonly about: string;
  readonly flags: F;
  /** The names of the workers, by rank. */
  workers(options: OptionsOf<F>): readonly string[];
  /** The rank of the worker that leads: it has the terminal. @default 0 */
  leader?(options: OptionsOf<F>): number;
  /** Looks, before anything starts, whether the run can succeed. @throws OptionError, DataFileError */
  check?(options: OptionsOf<F>): void;
  /** What the leader does; the others serve it. Its end is the end of the group. */
  run(options: OptionsOf<F>): Promise<void>;
  /** More for the launcher. @default none */
  launch?(options: OptionsOf<F>): Partial<LaunchOptions>;
  /** The time limit of calls. @default the agent's own */
  rpcTimeoutMs?(options: OptionsOf<F>): number;
}

/**
 * Runs the example with the flags of this process. Without RANK it starts all its workers and waits for them; with RANK, as under
 * `backwire run`, it is one of them. Sets the exit code: 2 for a wrong flag, 1 for anything else that fails.
 */
export async function runExample<F extends Flags>(example: Example<F>): Promise<void> {
  try {
    process.exitCode = await main(example, process.argv.slice(2));
  } catch (error) {
    reportMistake(example.name, error);
  }
}

/** Says in one line what is wrong with flags, data or ports, and sets the exit code; throws anything else on. */
export function reportMistake(name: string, error: unknown): void {
  const expected = error instanceof OptionError || error instanceof DataFileError || error instanceof LaunchError;
  if (!expected) throw error;
  console.error(`${name}: ${error.message}${error instanceof OptionError ? '; see --help' : ''}`);
  process.exitCode = error instanceof OptionError ? 2 : 1;
}

async function main<F extends Flags>(example: Example<F>, argv: readonly string[]): Promise<number> {
  const options = parseFlags(argv, example.flags);
  if (options === undefined) {
    process.stdout.write(`${example.about.trim()}\n\n${flagsHelp(example.flags)}`);
    return 0;
  }
  const names = example.workers(options);
  if (process.env['RANK'] !== undefined) return work(example, options, names);
  example.check?.(options);
  const result = await launch({
    program: example.program,
    args: argv,
    processes: names.length,
    label: (rank) => names[rank] ?? `rank${rank}`,
    // The leader draws the progress bars.
    inherit: [example.leader?.(options) ?? 0],
    stopGraceMs: 1_500,
    ...example.launch?.(options),
  });
  if (result.report !== undefined) console.error(result.report);
  return result.exitCode;
}

async function work<F extends Flags>(
  example: Example<F>,
  options: OptionsOf<F>,
  names: readonly string[],
): Promise<number> {
  const rank = Number(process.env['RANK']);
  const worldSize = Number(process.env['WORLD_SIZE'] ?? 1);
  if (worldSize !== names.length) {
    throw new OptionError(`these flags need ${names.length} workers (${names.join(', ')}), there are ${worldSize}`);
  }
  const leads = rank === (example.leader?.(options) ?? 0);
  if (leads) example.check?.(options);
  await setBackend('auto');
  const rpcTimeoutMs = example.rpcTimeoutMs?.(options);
  await initRpc({
    name: names[rank] ?? '',
    rank,
    worldSize,
    initTimeoutMs: 60_000,
    ...(rpcTimeoutMs === undefined ? {} : { rpcTimeoutMs }),
  });
  if (leads) await example.run(options);
  // The others are called; this waits until nobody needs them any more.
  await shutdown();
  return 0;
}
