/** @file Starts a group of workers on this host, watches it, stops it as a whole, and starts it again if asked to. */
import { accessSync, constants as fsConstants } from 'node:fs';
import { constants } from 'node:os';
import type { Writable } from 'node:stream';
import { attempt, type AttemptOutcome } from './attempt.ts';
import { LaunchError, messageOf } from './errors.ts';
import { openLocalGroup, type GroupRound } from './group-store.ts';
import { HostGroup } from './host-group.ts';
import { makeFolder } from './output.ts';
import type { StreamsOf } from './output-spec.ts';
import { programCommand, type ProgramCommand } from './program.ts';
import { Reaper } from './reaper.ts';
import { describeFailure } from './report.ts';
import { launchSettings, type LaunchSettings } from './settings.ts';
import type { StartedWorker, WorkerExit } from './worker-process.ts';

export interface LaunchOptions {
  /** The program every worker runs; relative to `cwd`. TypeScript runs as it is. */
  program: string;
  /** Its arguments. */
  args?: readonly string[];
  /** Workers on this host. @default 1 */
  processes?: number;
  /** Hosts in the group, or the most of them. @default 1 */
  nodes?: number;
  /** The fewest hosts that will do: the group may grow up to `nodes` and shrink down to this while it runs. @default nodes */
  minNodes?: number;
  /**
   * What a change of the hosts means. 'static': all workers start again, with new ranks. 'dynamic': the others run on; newcomers and
   * replacements of failed workers get ranks never given before. @default 'static'
   */
  membership?: 'static' | 'dynamic';
  /** This host's number; without one, hosts get numbers in the order they come. */
  nodeRank?: number;
  /** How long to wait for enough hosts, in milliseconds. @default 600000 */
  joinTimeoutMs?: number;
  /** How long to wait for more hosts once there are enough, in milliseconds. @default 5000 */
  lastCallMs?: number;
  /**
   * Where hosts meet. 'hosted': in a store that one of the launchers serves at the master address; 'etcd', 'redis': in that server, so
   * that any launcher may die. @default 'hosted'
   */
  rendezvous?: 'hosted' | 'etcd' | 'redis';
  /** The address of this host that the others reach. @default the one from which the master address is reached */
  localAddr?: string;
  /** This launcher's part of the workers of its machine, when another program starts several launchers on it. @default all */
  local?: { readonly first: number; readonly size: number };
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

/**
 * Runs a group to its end. When one worker fails all others are stopped (SIGTERM, then SIGKILL), and nothing outlives the call or
 * this process.
 *
 * @throws UsageError for impossible options; LaunchError when the program does not exist, the port is taken or logs cannot be written. A failing worker does
 *   not throw: it is in the result.
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  const settings = launchSettings(options);
  const command = programCommand(options.program, options.args ?? [], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.execArgv === undefined ? {} : { execArgv: options.execArgv }),
    ...(options.native === undefined ? {} : { native: options.native }),
  });
  prepareLogs(settings);
  const reaper = new Reaper();
  const run = (round: GroupRound): Promise<AttemptOutcome> => attempt({ ...settings, command, reaper, round });
  const alone = settings.nodes === 1 && settings.membership === 'static' && settings.backend === 'hosted';
  try {
    return await (alone ? onThisHost : overHosts)(settings, command, run);
  } finally {
    reaper.close();
  }
}

/** Better known before anything runs than after the first line. */
function prepareLogs({ logFolder, redirects, tee }: LaunchSettings): void {
  if (logFolder === undefined || (redirects === undefined && tee === undefined)) return;
  try {
    makeFolder(logFolder);
    accessSync(logFolder, fsConstants.W_OK);
  } catch (error) {
    throw new LaunchError(`no logs can be written to '${logFolder}': ${messageOf(error)}`, { cause: error });
  }
}

type Run = (round: GroupRound) => Promise<AttemptOutcome>;

/** A group that nobody else belongs to. */
async function onThisHost(settings: LaunchSettings, command: ProgramCommand, run: Run): Promise<LaunchResult> {
  for (let restarts = 0; ; restarts++) {
    const group = await openLocalGroup(settings, restarts);
    let outcome: AttemptOutcome;
    try {
      outcome = await run(group);
    } finally {
      await group.close();
    }
    const result = resultOf(outcome, command, restarts);
    if (outcome.kind !== 'failed' || restarts >= settings.maxRestarts) return result;
    sayAgain(settings, result.report, restarts + 1);
  }
}

/** This host's part of a group of several. */
async function overHosts(settings: LaunchSettings, command: ProgramCommand, run: Run): Promise<LaunchResult> {
  const { nodes: most, minNodes: least, membership, maxRestarts } = settings;
  const group = await HostGroup.join({ ...settings, terms: { membership, least, most, maxRestarts } });
  let last: LaunchResult = resultOf({ kind: 'finished', exits: [] }, command, 0);
  try {
    for (;;) {
      const round = await group.round();
      if (round === undefined) return ended(group, last);
      if (round.restarts > last.restarts) sayAgain(settings, group.reason, round.restarts);
      const outcome = await run(round);
      last = resultOf(outcome, command, round.restarts);
      switch (outcome.kind) {
        case 'finished':
          await group.finish(round);
          break;
        case 'failed':
          await group.fail(round, last.report ?? '');
          if (group.isDynamic || group.outcome !== undefined) return last;
          break;
        case 'stopped':
          await group.leave(`stopped by ${outcome.by}`);
          return last;
        case 'over':
          break;
      }
    }
  } finally {
    await group.close();
  }
}

/** What became of this host's part once the group has ended. */
function ended(group: HostGroup, last: LaunchResult): LaunchResult {
  const { outcome } = group;
  if (outcome?.ok === true) return { ...last, ok: true, exitCode: 0, failure: undefined, report: undefined };
  const report = `backwire: stopped, because another host of the group failed:\n${outcome?.why ?? 'it was stopped'}`;
  return { ...last, ok: false, exitCode: 1, failure: undefined, report };
}

function sayAgain({ say, maxRestarts }: LaunchSettings, report: string | undefined, restarts: number): void {
  say(`${report ?? ''}\nbackwire: starting the group again (${restarts} of ${maxRestarts})`);
}

function resultOf(outcome: AttemptOutcome, command: ProgramCommand, restarts: number): LaunchResult {
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
    case 'over':
      // What it means is known once the group has ended or another round begins.
      return { ok: false, exitCode: 1, restarts, exits, failure: undefined, report: outcome.end.why };
    case 'failed': {
      const { first } = outcome;
      const exitCode = first.signal === null ? (first.code ?? 1) : 128 + constants.signals[first.signal];
      return {
        ok: false,
        exitCode,
        restarts,
        exits,
        failure: first,
        report: describeFailure({ command, first, exits, restarts }),
      };
    }
  }
}
