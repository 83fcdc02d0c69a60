/** @file Starts a group of workers on this host, watches it, stops it as a whole, and starts it again if asked to. */
import { accessSync, constants as fsConstants } from 'node:fs';
import { constants } from 'node:os';
import { observe } from '@backwire/rpc/internal';
import { attempt, type AttemptOutcome } from './attempt.ts';
import { LaunchError, messageOf } from './errors.ts';
import { openLocalGroup, type GroupRound } from './group-store.ts';
import { checkGiven } from './given.ts';
import { HostGroup } from './host-group.ts';
import { Interrupts } from './interrupts.ts';
import { makeFolder } from './output.ts';
import type { LaunchOptions } from './options.ts';
import { programCommand, type ProgramCommand } from './program.ts';
import { Reaper } from './reaper.ts';
import { describeFailure } from './report.ts';
import { launchSettings, type LaunchSettings } from './settings.ts';
import type { WorkerExit } from './worker-process.ts';

/** What became of a launch: whether it went well, how each worker of the last attempt ended, and what the first failure was. */
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
 * Runs a group to its end. When one worker fails all others are stopped (SIGTERM, then SIGKILL), and nothing in the process groups of
 * the workers outlives the call or this process.
 *
 * @param options the program, how many processes, and what of `backwire run`'s flags is wanted
 * @throws UsageError for impossible options; LaunchError when the program does not exist, the port is taken or logs cannot be written; what
 *   `onGroup` or `onStart` throws or rejects with, after the workers were stopped. A failing worker does not throw: it is in the result.
 * @example
 * ```ts compile
 * const { ok, report } = await launch({ program: 'train.ts', processes: 4, maxRestarts: 1 });
 * if (!ok) console.error(report); // which worker failed first, and its last words
 * ```
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  checkGiven(options);
  const given = launchSettings(options);
  const command = programCommand(options.program, options.args ?? [], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.execArgv === undefined ? {} : { execArgv: options.execArgv }),
    ...(options.native === undefined ? {} : { native: options.native }),
  });
  prepareLogs(given);
  const reaper = new Reaper();
  const interrupts = new Interrupts(given.signals, given.signal);
  // Asynchronous ones may be given, too: what they reject with is heard, and ends the launch as what is thrown does.
  const told = <T>(callback: ((value: T) => void) | undefined): ((value: T) => void) | undefined =>
    callback &&
    ((value) =>
      observe(
        () => callback(value),
        (error) => interrupts.fail(error),
      ));
  const settings = { ...given, onGroup: told(given.onGroup), onStart: told(given.onStart) };
  const run = (round: GroupRound): Promise<AttemptOutcome> =>
    attempt({ ...settings, command, reaper, round, interrupts });
  const alone = settings.nodes === 1 && settings.membership === 'static' && settings.backend === 'hosted';
  try {
    const result = alone
      ? onThisHost(settings, command, run)
      : overHosts({ ...settings, signal: interrupts.signal }, command, run, interrupts);
    // Also instead of whatever else fails as the launch is ended for it.
    return await result.finally(() => interrupts.throwIfFailed());
  } finally {
    interrupts.close();
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
async function overHosts(
  settings: LaunchSettings,
  command: ProgramCommand,
  run: Run,
  interrupts: Interrupts,
): Promise<LaunchResult> {
  const group = await HostGroup.join(settings).catch((error: unknown) => {
    if (interrupts.by === undefined) throw error;
  });
  if (group === undefined) return stopped(interrupts, command);
  let last: LaunchResult = resultOf({ kind: 'finished', exits: [] }, command, 0);
  try {
    for (;;) {
      const round = await group.round();
      if (round === undefined && group.outcome === undefined) {
        await group.leave(`stopped by ${interrupts.by ?? 'its caller'}`);
        return stopped(interrupts, command, last);
      }
      if (round === undefined) return ended(group, last);
      if (round.restarts > last.restarts)
        sayAgain(settings, group.tells ? undefined : `backwire: ${group.reason}`, round.restarts);
      const outcome = await run(round);
      last = resultOf(outcome, command, round.restarts);
      switch (outcome.kind) {
        case 'finished':
          await group.finish(round);
          break;
        case 'failed':
          await group.fail(round, describeFailure({ command, ...outcome, restarts: round.restarts }));
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

/** What became of this host's part where it was told to end while no worker ran. */
function stopped(interrupts: Interrupts, command: ProgramCommand, last?: LaunchResult): LaunchResult {
  const { exits = [], restarts = 0 } = last ?? {};
  return resultOf({ kind: 'stopped', by: interrupts.by ?? 'SIGTERM', exits }, command, restarts);
}

/** What became of this host's part once the group has ended. */
function ended(group: HostGroup, last: LaunchResult): LaunchResult {
  const { outcome } = group;
  if (outcome?.ok === true) return { ...last, ok: true, exitCode: 0, failure: undefined, report: undefined };
  const cause = group.lostStore ? '' : 'stopped, because another host of the group failed:\n';
  const report = `backwire: ${cause}${outcome?.why ?? 'it was stopped'}`;
  return { ...last, ok: false, exitCode: 1, failure: undefined, report };
}

function sayAgain({ say, maxRestarts }: LaunchSettings, report: string | undefined, restarts: number): void {
  if (report !== undefined) say(report);
  say(`backwire: starting the group again (${restarts} of ${maxRestarts})`);
}

function resultOf(outcome: AttemptOutcome, command: ProgramCommand, restarts: number): LaunchResult {
  const { exits } = outcome;
  const result = { ok: false, exitCode: 1, restarts, exits, failure: undefined, report: undefined };
  switch (outcome.kind) {
    case 'finished':
      return { ...result, ok: true, exitCode: 0 };
    case 'stopped': {
      const report = `backwire: the group was stopped by ${outcome.by}`;
      return { ...result, exitCode: 128 + constants.signals[outcome.by], report };
    }
    case 'over':
      // What it means is known once the group has ended or another round begins.
      return { ...result, report: outcome.end.why };
    case 'failed': {
      const { first } = outcome;
      const exitCode = first.signal === null ? (first.code ?? 1) : 128 + constants.signals[first.signal];
      const report = `backwire: ${describeFailure({ command, first, exits, restarts })}`;
      return { ...result, exitCode, failure: first, report };
    }
  }
}
