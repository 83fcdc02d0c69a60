/** @file The `backwire` command line. */
import { readFileSync } from 'node:fs';
import { nearestName } from '@backwire/rpc/internal';
import { codeOf, LaunchError, UsageError } from './errors.ts';
import { describeFlags, parseFlags, strayFlag, type ParsedFlags } from './flags.ts';
import { launch } from './launch.ts';
import { consoleOf } from './output.ts';
import { watchStarter } from './parent.ts';
import { launchOptions, processesOf } from './run-command.ts';
import { findScheduler, type Scheduler } from './scheduler-environment.ts';

const COMMANDS: readonly string[] = ['run', 'inspect', 'dashboard', 'version', 'help'];

const USAGE = `usage: backwire run [flags] program.ts [args]

Starts a group of workers that run the program, watches them, and stops all of them when one fails.
Each worker finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and the group's secret in its environment.

flags, written with dashes or underscores, each also read from PET_<NAME>:
`;

/**
 * Runs the command and resolves with its exit code: the first failed worker's, 128 + the number of a signal, 2 for a mistake on the
 * command line, 1 when the group cannot start. Where the group is goes to standard output, other
 * messages to standard error. Never rejects for any of these.
 *
 * @param argv what follows the command's name.
 */
export async function main(argv: readonly string[]): Promise<number> {
  return (await runCommandLine(argv)).exitCode;
}

/** What the command came to. */
export interface CommandEnd {
  readonly exitCode: number;
  /** A signal ended it, or who had started it is gone: whoever reads what it says may be, too. */
  readonly wasStopped: boolean;
}

/** As `main`, for the program that is nothing but the command. */
export async function runCommandLine(argv: readonly string[]): Promise<CommandEnd> {
  // Nobody has to read what is said (`| head`).
  for (const stream of [process.stdout, process.stderr]) consoleOf(stream);
  try {
    return await dispatch(argv);
  } catch (error) {
    if (error instanceof UsageError) {
      process.stderr.write(`backwire: ${error.message}\nSee 'backwire run --help'.\n`);
      return { exitCode: 2, wasStopped: false };
    }
    if (error instanceof LaunchError) {
      const advice =
        codeOf(error.cause) === 'EADDRINUSE' ? '; choose another with --master-port, or use --standalone' : '';
      process.stderr.write(`backwire: ${error.message}${advice}\n`);
      return { exitCode: 1, wasStopped: false };
    }
    throw error;
  }
}

async function dispatch(argv: readonly string[]): Promise<CommandEnd> {
  const [command, ...rest] = argv;
  switch (command) {
    case 'run':
      return run(rest);
    case undefined:
    case 'help':
    case '--help':
    case '-h':
      process.stdout.write(`${USAGE}${describeFlags()}\n`);
      return { exitCode: command === undefined ? 2 : 0, wasStopped: false };
    default: {
      const near = nearestName(command, COMMANDS);
      const advice = near === undefined ? '' : `did you mean '${near}'? `;
      throw new UsageError(`unknown command '${command}'; ${advice}The commands are ${COMMANDS.join(', ')}`);
    }
  }
}

async function run(argv: readonly string[]): Promise<CommandEnd> {
  const flags = parseFlags(argv, process.env);
  if (flags.values.get('help') === 'true') {
    process.stdout.write(`${USAGE}${describeFlags()}\n`);
    return { exitCode: 0, wasStopped: false };
  }
  const stray = strayFlag(flags.args);
  if (stray !== undefined)
    process.stderr.write(
      `backwire: ${stray} stands after the program, which is given it; a flag of 'backwire run' stands before the program\n`,
    );
  const abandoned = new AbortController();
  const unwatch = watchStarter(() => {
    process.stderr.write('backwire: npm, which started this group, has ended: so does the group\n');
    abandoned.abort();
  });
  const onGroup = (address: string): void => void process.stdout.write(`backwire: the group is at ${address}\n`);
  const options = { ...launchOptions(flags, schedulerOf(flags)), signal: abandoned.signal, onGroup };
  if (options.logDir !== undefined && !flags.values.has('log-dir'))
    process.stderr.write(`backwire: the logs are in ${options.logDir}\n`);
  const result = await launch(options).finally(unwatch);
  if (result.report !== undefined) process.stderr.write(`${result.report}\n`);
  return { exitCode: result.exitCode, wasStopped: result.failure === undefined && result.exitCode > 128 };
}

/** A scheduler counts only where the command line does not say otherwise. */
function schedulerOf({ values }: ParsedFlags): Scheduler | undefined {
  if (values.get('standalone') === 'true') return undefined;
  let hostsFile = '';
  try {
    hostsFile = readFileSync('/etc/hosts', 'utf8');
  } catch {
    // Then the master's address has to be given.
  }
  return findScheduler(process.env, processesOf(values), hostsFile);
}
