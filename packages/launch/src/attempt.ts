/** @file One attempt of a group: from the first worker's start to the last one's end. */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { removeFoldersOf, within } from '@backwire/rpc/internal';
import { messageOf } from './errors.ts';
import type { GroupRound, RoundEnd } from './group-store.ts';
import type { Interrupts } from './interrupts.ts';
import { UNREAD_MS } from './limits.ts';
import { consoleOf, LogFiles, untaken } from './output.ts';
import type { ProgramCommand } from './program.ts';
import type { Reaper } from './reaper.ts';
import type { LaunchSettings } from './settings.ts';
import {
  describeExit,
  isFailure,
  WorkerProcess,
  type WorkerEnd,
  type WorkerExit,
  type WorkerOutput,
} from './worker-process.ts';

export interface AttemptOptions extends LaunchSettings {
  readonly command: ProgramCommand;
  readonly reaper: Reaper;
  readonly round: GroupRound;
  readonly interrupts: Interrupts;
}

export type AttemptOutcome =
  | { readonly kind: 'finished'; readonly exits: readonly WorkerExit[] }
  | { readonly kind: 'failed'; readonly first: WorkerExit; readonly exits: readonly WorkerExit[] }
  /** The workers had to stop, and none of them was the cause. */
  | { readonly kind: 'over'; readonly end: RoundEnd; readonly exits: readonly WorkerExit[] }
  | { readonly kind: 'stopped'; readonly by: NodeJS.Signals; readonly exits: readonly WorkerExit[] };

/** Ends noticed this close together came in one turn of the event loop, in no order that means anything. */
const SAME_MOMENT_MS = 20;

/** Runs every worker once; resolves when all have ended. Never rejects because of a worker. */
export async function attempt(options: AttemptOptions): Promise<AttemptOutcome> {
  return new Attempt(options).run();
}

class Attempt {
  private readonly options: AttemptOptions;
  private readonly workers: WorkerProcess[] = [];
  private readonly logs: LogFiles[] = [];
  /** Ends of workers and replacements that are under way; more may be added while these are awaited. */
  private readonly tasks: Promise<unknown>[] = [];
  /** Failures that did not end the group, because another worker took over. */
  private readonly replaced = new Set<WorkerProcess>();
  private stoppedBy: NodeJS.Signals | undefined;
  /** Why the workers had to stop before any of them failed. */
  private end: RoundEnd | undefined;
  private failed = false;
  private stopping = false;
  private killTimer: NodeJS.Timeout | undefined;

  constructor(options: AttemptOptions) {
    this.options = options;
  }

  async run(): Promise<AttemptOutcome> {
    const { interrupts, processes, round } = this.options;
    const { over, firstRank } = round;
    const onOver = (): void => {
      if (!this.failed) this.end ??= over?.reason as RoundEnd;
      this.stop('SIGTERM');
    };
    over?.addEventListener('abort', onOver);
    const unlisten = interrupts.listen((by) => this.interrupt(by));
    try {
      if (over?.aborted === true) onOver();
      for (let n = 0; n < processes && !this.stopping; n++) this.start(n, firstRank + n);
      for (const task of this.tasks) await task;
      const ends = this.workers
        .filter((worker) => !this.replaced.has(worker))
        .map(async (worker) => ({ exit: await worker.ended, sent: worker.sent, endedAt: worker.endedAt }));
      return this.outcome(await Promise.all(ends));
    } finally {
      clearTimeout(this.killTimer);
      unlisten();
      over?.removeEventListener('abort', onOver);
      await this.closeLogs();
    }
  }

  /** A launcher that was told to end, even now, waits for a disk no longer than for a reader. */
  private async closeLogs(): Promise<void> {
    const closed = Promise.all(this.logs.map((log) => log.close()));
    let unlisten = (): void => undefined;
    const told = new Promise<void>((resolve) => (unlisten = this.options.interrupts.listen(() => resolve())));
    await Promise.race([closed, told.then(() => within(closed, UNREAD_MS, () => undefined))]);
    unlisten();
  }

  private start(n: number, rank: number): void {
    const { options } = this;
    const localRank = options.local.first + n;
    const label = options.label(rank);
    const place = workerEnvironment(options, rank, localRank);
    const worker = new WorkerProcess(
      {
        rank,
        localRank,
        label,
        command: options.command,
        env: { ...secretFile(options), ...options.env, ...options.round.env, ...place },
        inheritStdout: options.inherit.has(rank),
        output: this.outputOf(rank, localRank, label),
      },
      (ended, end) => this.left(ended, end, n),
    );
    this.workers.push(worker);
    this.tasks.push(worker.ended);
    if (worker.pid === undefined) return;
    options.reaper.add(worker.pid);
    options.onStart?.({ rank, label, pid: worker.pid });
  }

  private outputOf(rank: number, localRank: number, label: string): WorkerOutput {
    const { options } = this;
    const shown = options.shown(localRank);
    const redirected = options.redirects?.(localRank);
    const copied = options.tee?.(localRank);
    const out = { stdout: consoleOf(options.stdout), stderr: consoleOf(options.stderr) };
    let files: LogFiles | undefined;
    if (options.logFolder !== undefined) {
      // By rank, which no worker of another host has: all of them may write to one file system.
      const folder = join(options.logFolder, `attempt_${options.round.round}`, String(rank));
      files = new LogFiles(
        folder,
        (error) => void options.stderr.write(`backwire: cannot write the logs of ${label}: ${messageOf(error)}\n`),
      );
      this.logs.push(files);
    }
    return {
      onLine: (stream, line, source) => {
        if (shown && redirected?.[stream] !== true) out[stream].write(`[${label}]: ${line}\n`, source);
      },
      onBytes: (stream, bytes, source) => {
        if (redirected?.[stream] === true || copied?.[stream] === true) files?.write(stream, bytes, source);
      },
      untaken: () => untaken(options.stdout) + untaken(options.stderr),
    };
  }

  private left(worker: WorkerProcess, end: WorkerEnd, n: number): void {
    if (worker.pid !== undefined) this.options.reaper.remove(worker.pid);
    const { round } = this.options;
    round.exited(end);
    // What the worker itself had started must not outlive it.
    worker.kill('SIGKILL');
    if (worker.pid !== undefined) removeFoldersOf(worker.pid);
    if (!isFailure(end)) return;
    if (this.stoppedBy !== undefined) return;
    if (round.replace !== undefined && !this.stopping) this.tasks.push(this.replace(worker, end, n));
    else this.fail();
  }

  /** Starts another worker in the place of a failed one, if that is to be. */
  private async replace(worker: WorkerProcess, end: WorkerEnd, n: number): Promise<void> {
    // It is known by its rank, which nobody else has had: labels of one's own may be all the same.
    const who = end.label === `rank${end.rank}` ? '' : `rank ${end.rank}, `;
    const text = `[${end.label}] ${who}pid ${end.pid ?? 'none'} on ${hostname()}: ${describeExit(end)}`;
    const rank = await this.options.round.replace?.(text);
    if (rank === undefined || this.stopping) {
      this.fail();
      return;
    }
    this.replaced.add(worker);
    this.start(n, rank);
  }

  private fail(): void {
    if (this.end === undefined) this.failed = true;
    this.stop('SIGTERM');
  }

  /** A signal to the launcher: passed on; a second one ends the patience. */
  private interrupt(by: NodeJS.Signals): void {
    if (this.stoppedBy !== undefined) {
      for (const worker of this.workers) worker.kill('SIGKILL');
      return;
    }
    this.stoppedBy = by;
    for (const worker of this.workers) worker.hurry();
    this.stop(by);
  }

  private stop(signal: NodeJS.Signals): void {
    if (this.stopping) return;
    this.stopping = true;
    for (const worker of this.workers) if (worker.isRunning) worker.kill(signal);
    this.killTimer = setTimeout(() => {
      for (const worker of this.workers) if (worker.isRunning) worker.kill('SIGKILL');
    }, this.options.stopGraceMs);
  }

  private outcome(unordered: readonly StoppedWorker[]): AttemptOutcome {
    const ends = [...unordered].sort((a, b) => a.endedAt - b.endedAt);
    const exits = ends.map(({ exit }) => exit);
    if (this.stoppedBy !== undefined) return { kind: 'stopped', by: this.stoppedBy, exits };
    if (this.end !== undefined && !this.failed) return { kind: 'over', end: this.end, exits };
    const first = firstFailure(ends.filter(({ exit }) => isFailure(exit)));
    return first === undefined ? { kind: 'finished', exits } : { kind: 'failed', first, exits };
  }
}

/** How a worker ended, and what it had been told by then. */
interface StoppedWorker {
  readonly exit: WorkerExit;
  readonly sent: ReadonlySet<NodeJS.Signals>;
  readonly endedAt: number;
}

/** The cause among `failures`, which are in order of time: never a worker that the launcher has ended because of another. */
function firstFailure(failures: readonly StoppedWorker[]): WorkerExit | undefined {
  const earliest = failures.find(({ sent }) => sent.size === 0) ?? failures[0];
  if (earliest === undefined) return undefined;
  // Of failures noticed together, a worker that was killed is rather the cause than one that gave up because of it.
  const killed = failures.find(
    ({ exit: { signal }, sent, endedAt }) =>
      endedAt - earliest.endedAt <= SAME_MOMENT_MS && signal !== null && signal !== 'SIGTERM' && !sent.has(signal),
  );
  return (killed ?? earliest).exit;
}

/** Where the workers read the secret that the launcher does not hand them: its path may be relative, to the launcher's folder. */
function secretFile({ secret }: AttemptOptions): Record<string, string> {
  const path = process.env['BACKWIRE_SECRET_FILE'] ?? '';
  return secret !== undefined || path === '' ? {} : { BACKWIRE_SECRET_FILE: resolve(path) };
}

/** The variables of one worker: torchrun's, and the group's secret. They are laid over the launcher's own, where undefined removes what it may have. */
function workerEnvironment(
  { round, local, role, runId, maxRestarts, secret }: AttemptOptions,
  rank: number,
  localRank: number,
): Record<string, string | undefined> {
  const worldSize = round.worldSize === undefined ? undefined : String(round.worldSize);
  return {
    RANK: String(rank),
    LOCAL_RANK: String(localRank),
    GROUP_RANK: String(round.nodeRank),
    ROLE_RANK: String(rank),
    ROLE_NAME: role,
    // Absent where there is none, as under no launcher: an empty one would be read as the number 0.
    WORLD_SIZE: worldSize,
    LOCAL_WORLD_SIZE: String(local.size),
    GROUP_WORLD_SIZE: String(round.nodes),
    ROLE_WORLD_SIZE: worldSize,
    MASTER_ADDR: round.host,
    MASTER_PORT: String(round.port),
    BACKWIRE_RESTART_COUNT: String(round.restarts),
    BACKWIRE_MAX_RESTARTS: String(maxRestarts),
    BACKWIRE_RUN_ID: runId,
    ...(secret === undefined ? {} : { BACKWIRE_SECRET: secret }),
  };
}
