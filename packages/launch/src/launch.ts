/** @file Starts a group of workers on this host, watches it, stops it as a whole, and starts it again if asked to. */
import { randomBytes, randomUUID } from 'node:crypto';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { attempt, type AttemptOptions, type AttemptOutcome } from './attempt.ts';
import { LaunchError, UsageError } from './errors.ts';
import { DEFAULT_JOIN_TIMEOUT_MS, DEFAULT_STOP_GRACE_MS, MAX_PROCESSES } from './limits.ts';
import type { StreamsOf } from './output-spec.ts';
import { programCommand } from './program.ts';
import { Reaper } from './reaper.ts';
import { describeFailure } from './report.ts';
import { type ElsewhereFailure, openGroupStore, type GroupStoreOptions } from './group-store.ts';
import type { StartedWorker, WorkerExit } from './worker-process.ts';

export interface LaunchOptions {
  /** The program every worker runs; relative to `cwd`. TypeScript runs as it is. */
  program: string;
  /** Its arguments. */
  args?: readonly string[];
  /** Workers on this host. @default 1 */
  processes?: number;
  /** Hosts in the group; each runs as many workers. @default 1 */
  nodes?: number;
  /** This host's number; without one, hosts get numbers in the order they come. */
  nodeRank?: number;
  /** How long to wait for the other hosts, in milliseconds. @default 600000 */
  joinTimeoutMs?: number;
  /** Where the group's store is. @default '127.0.0.1' */
  masterAddr?: string;
  /** Its port; 0 = any free one (on one host only). @default 0 */
  masterPort?: number;
  /** Names the run. @default a random one */
  runId?: string;
  /** The ROLE_NAME of the workers. @default 'default' */
  role?: string;
  /** How often a failed group is started again. @default 0 */
  maxRestarts?: number;
  /** Between SIGTERM and SIGKILL when the group is stopped, in milliseconds. @default 3000 */
  stopGraceMs?: number;
  /** More variables for every worker. */
  env?: Readonly<Record<string, string>>;
  /** What a worker is called in prefixes and messages. @default rank => `rank${rank}` */
  label?: (rank: number) => string;
  /** Ranks whose standard output is this process's own, unprefixed, so that they see the terminal. @default none */
  inherit?: readonly number[];
  /** Which local ranks are shown on the console. @default all */
  shown?: (localRank: number) => boolean;
  /** Output that goes to files instead of the console. @default none */
  redirects?: StreamsOf;
  /** Output that goes to files as well. @default none */
  tee?: StreamsOf;
  /** Where those files go: `<logDir>/<runId>/attempt_<n>/<localRank>/stdout.log`. Needed with `redirects` or `tee`. */
  logDir?: string;
  /** Where the workers' output goes. @default process.stdout and process.stderr */
  stdout?: Writable;
  stderr?: Writable;
  /** Signals of this process that are passed on and end the run. @default SIGTERM, SIGINT, SIGHUP, SIGQUIT */
  signals?: readonly NodeJS.Signals[];
  /** Stops the group. */
  signal?: AbortSignal;
  /** The program is an executable of its own, not one for node. @default false */
  native?: boolean;
  /** Flags for node. @default those of this process, without the debugger's */
  execArgv?: readonly string[];
  /** @default process.cwd() */
  cwd?: string;
  /** Told of every worker that starts. */
  onStart?: (worker: StartedWorker) => void;
}

export interface LaunchResult {
  readonly ok: boolean;
  /** 0; the first failure's exit code, or 128 + the number of its signal; 128 + the number of the signal that ended the run. */
  readonly exitCode: number;
  readonly restarts: number;
  /** How each worker of the last attempt ended, in order of time. */
  readonly exits: readonly WorkerExit[];
  /** The worker that failed first. */
  readonly failure: WorkerExit | undefined;
  /** What to tell a person when `ok` is false. */
  readonly report: string | undefined;
}

export const DEFAULT_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'];

/**
 * Runs a group to its end. When one worker fails all others are stopped (SIGTERM, then SIGKILL), and nothing outlives the call or
 * this process.
 *
 * @throws UsageError for impossible options; LaunchError when the program does not exist or the port is taken. A failing worker does
 *   not throw: it is in the result.
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  const settings = check(options);
  const command = programCommand(options.program, options.args ?? [], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.execArgv === undefined ? {} : { execArgv: options.execArgv }),
    ...(options.native === undefined ? {} : { native: options.native }),
  });
  const reaper = new Reaper();
  try {
    for (let restarts = 0; ; restarts++) {
      const store = await openGroupStore(settings, restarts);
      // A host keeps its number when the group starts again.
      settings.nodeRank ??= store.nodeRank;
      let outcome: AttemptOutcome;
      let result: LaunchResult;
      try {
        outcome = await attempt({ ...settings, command, reaper, store, restartCount: restarts });
        if (outcome.kind === 'finished') {
          await store.finish();
          const { elsewhere } = store;
          if (elsewhere?.aborted === true)
            outcome = { kind: 'failed-elsewhere', failure: elsewhere.reason as ElsewhereFailure, exits: outcome.exits };
        }
        result = resultOf(outcome, command.program, restarts);
        if (outcome.kind === 'failed' || outcome.kind === 'stopped') {
          await store.fail({ report: result.report ?? '', final: outcome.kind === 'stopped' });
        }
      } finally {
        await store.close();
      }
      const mayRestart = outcome.kind === 'failed' || (outcome.kind === 'failed-elsewhere' && !outcome.failure.final);
      if (!mayRestart || restarts >= settings.maxRestarts) return result;
      settings.say(
        `${result.report ?? ''}\nbackwire: starting the group again (${restarts + 1} of ${settings.maxRestarts})`,
      );
    }
  } finally {
    reaper.close();
  }
}

/** Options with their defaults filled in. */
interface LaunchSettings
  extends Omit<AttemptOptions, 'command' | 'reaper' | 'store' | 'restartCount'>, Omit<GroupStoreOptions, 'nodeRank'> {
  nodeRank: number | undefined;
  /** A line for people, from the launcher itself. */
  readonly say: (text: string) => void;
}

function check(options: LaunchOptions): LaunchSettings {
  const processes = whole('processes', options.processes ?? 1, 1, MAX_PROCESSES);
  const nodes = whole('nodes', options.nodes ?? 1, 1, MAX_PROCESSES);
  const nodeRank = options.nodeRank === undefined ? undefined : whole('nodeRank', options.nodeRank, 0, nodes - 1);
  const masterPort = whole('masterPort', options.masterPort ?? 0, 0, 65_535);
  const maxRestarts = whole('maxRestarts', options.maxRestarts ?? 0, 0, Number.MAX_SAFE_INTEGER);
  // Launchers of several hosts have to agree on it without talking.
  const runId = options.runId ?? (nodes > 1 ? 'run' : randomUUID());
  const needsFiles = options.redirects !== undefined || options.tee !== undefined;
  if (needsFiles && options.logDir === undefined) throw new UsageError('redirects and tee need a log directory');
  if (nodes > 1 && masterPort === 0)
    throw new UsageError('a group over several hosts needs a master port that all of them know');
  const stderr = options.stderr ?? process.stderr;
  return {
    processes,
    nodes,
    nodeRank,
    masterPort,
    maxRestarts,
    runId,
    masterAddr: options.masterAddr ?? '127.0.0.1',
    joinTimeoutMs: options.joinTimeoutMs ?? DEFAULT_JOIN_TIMEOUT_MS,
    role: options.role ?? 'default',
    stopGraceMs: options.stopGraceMs ?? DEFAULT_STOP_GRACE_MS,
    secret: groupSecret(nodes),
    env: options.env ?? {},
    label: options.label ?? ((rank) => `rank${rank}`),
    inherit: new Set(options.inherit ?? []),
    shown: options.shown ?? (() => true),
    redirects: options.redirects,
    tee: options.tee,
    logFolder: options.logDir === undefined ? undefined : join(options.logDir, runId),
    stdout: options.stdout ?? process.stdout,
    stderr,
    signals: options.signals ?? DEFAULT_SIGNALS,
    signal: options.signal,
    onStart: options.onStart,
    say: (text) => void stderr.write(`${text}\n`),
  };
}

/** The secret from the environment, else, on one host, a fresh one. Undefined = the workers read the file that is named there. */
function groupSecret(nodes: number): string | undefined {
  if ((process.env['BACKWIRE_SECRET'] ?? '') !== '') return process.env['BACKWIRE_SECRET'];
  if ((process.env['BACKWIRE_SECRET_FILE'] ?? '') !== '') return undefined;
  if (nodes > 1) {
    throw new LaunchError(
      'a group over several hosts needs one secret: set BACKWIRE_SECRET or BACKWIRE_SECRET_FILE to the same on all of them',
    );
  }
  return randomBytes(32).toString('hex');
}

function whole(name: string, value: number, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new UsageError(`${name} has to be a whole number from ${least} to ${most}, got ${value}`);
  }
  return value;
}

function resultOf(outcome: AttemptOutcome, program: string, restarts: number): LaunchResult {
  const { exits } = outcome;
  switch (outcome.kind) {
    case 'finished':
      return { ok: true, exitCode: 0, restarts, exits, failure: undefined, report: undefined };
    case 'stopped':
      return {
        ok: false,
        exitCode: 128 + constants.signals[outcome.by],
        restarts,
        exits,
        failure: undefined,
        report: `backwire: the group was stopped by ${outcome.by}`,
      };
    case 'failed-elsewhere': {
      const report = `backwire: stopped, because another host of the group failed:\n${outcome.failure.report}`;
      return { ok: false, exitCode: 1, restarts, exits, failure: undefined, report };
    }
    case 'failed': {
      const { first } = outcome;
      const exitCode = first.signal === null ? (first.code ?? 1) : 128 + constants.signals[first.signal];
      return {
        ok: false,
        exitCode,
        restarts,
        exits,
        failure: first,
        report: describeFailure({ program, first, exits, restarts }),
      };
    }
  }
}
