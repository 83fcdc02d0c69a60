/** @file One life of a group: from the first worker's start to the last one's end. */
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { workerEnvironment } from './environment.ts';
import { messageOf } from './errors.ts';
import { type ElsewhereFailure, HOSTED, type GroupStore } from './group-store.ts';
import { consoleOf, LogFiles } from './output.ts';
import type { StreamsOf } from './output-spec.ts';
import type { ProgramCommand } from './program.ts';
import type { Reaper } from './reaper.ts';
import { isFailure, WorkerProcess, type StartedWorker, type WorkerEnd, type WorkerExit } from './worker-process.ts';

export interface AttemptOptions {
  readonly command: ProgramCommand;
  readonly reaper: Reaper;
  readonly store: GroupStore;
  readonly restartCount: number;
  readonly processes: number;
  readonly nodes: number;
  readonly role: string;
  readonly runId: string;
  readonly maxRestarts: number;
  readonly secret: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly label: (rank: number) => string;
  readonly inherit: ReadonlySet<number>;
  readonly shown: (localRank: number) => boolean;
  readonly redirects: StreamsOf | undefined;
  readonly tee: StreamsOf | undefined;
  readonly logFolder: string | undefined;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly stopGraceMs: number;
  readonly signals: readonly NodeJS.Signals[];
  readonly signal: AbortSignal | undefined;
  readonly onStart: ((worker: StartedWorker) => void) | undefined;
}

export type AttemptOutcome =
  | { readonly kind: 'finished'; readonly exits: readonly WorkerExit[] }
  | { readonly kind: 'failed'; readonly first: WorkerExit; readonly exits: readonly WorkerExit[] }
  /** Another host of the group failed. */
  | { readonly kind: 'failed-elsewhere'; readonly failure: ElsewhereFailure; readonly exits: readonly WorkerExit[] }
  | { readonly kind: 'stopped'; readonly by: NodeJS.Signals; readonly exits: readonly WorkerExit[] };

/** Ends noticed this close together came in one turn of the event loop, in no order that means anything. */
const SAME_MOMENT_MS = 20;

/** Runs every worker once; resolves when all have ended. Never rejects because of a worker. */
export async function attempt(options: AttemptOptions): Promise<AttemptOutcome> {
  const life = new Life(options);
  return life.run();
}

class Life {
  private readonly options: AttemptOptions;
  private readonly workers: WorkerProcess[] = [];
  private readonly logs: LogFiles[] = [];
  private stoppedBy: NodeJS.Signals | undefined;
  /** What the launcher of another host said when it failed before anything here did. */
  private elsewhere: ElsewhereFailure | undefined;
  private failed = false;
  private stopping = false;
  private killTimer: NodeJS.Timeout | undefined;

  constructor(options: AttemptOptions) {
    this.options = options;
  }

  async run(): Promise<AttemptOutcome> {
    const { signals, signal, processes } = this.options;
    const handlers = signals.map((name) => [name, () => this.interrupt(name)] as const);
    for (const [name, handler] of handlers) process.on(name, handler);
    const onAbort = (): void => this.interrupt('SIGTERM');
    signal?.addEventListener('abort', onAbort);
    const { elsewhere } = this.options.store;
    const onElsewhere = (): void => {
      if (!this.failed) this.elsewhere ??= elsewhere?.reason as ElsewhereFailure;
      this.stop('SIGTERM');
    };
    elsewhere?.addEventListener('abort', onElsewhere);
    try {
      if (elsewhere?.aborted === true) onElsewhere();
      if (signal?.aborted === true) this.interrupt('SIGTERM');
      for (let localRank = 0; localRank < processes && !this.stopping; localRank++) this.start(localRank);
      const exits = await Promise.all(this.workers.map(({ ended }) => ended));
      return this.outcome(exits);
    } finally {
      clearTimeout(this.killTimer);
      for (const [name, handler] of handlers) process.off(name, handler);
      signal?.removeEventListener('abort', onAbort);
      elsewhere?.removeEventListener('abort', onElsewhere);
      for (const log of this.logs) log.close();
    }
  }

  private start(localRank: number): void {
    const { options } = this;
    const { processes, nodes, store } = options;
    const { nodeRank } = store;
    const rank = nodeRank * processes + localRank;
    const label = options.label(rank);
    const place = workerEnvironment({
      rank,
      localRank,
      worldSize: nodes * processes,
      localWorldSize: processes,
      nodeRank,
      nodes,
      role: options.role,
      masterAddr: store.host,
      masterPort: store.port,
      runId: options.runId,
      restartCount: options.restartCount,
      maxRestarts: options.maxRestarts,
      secret: options.secret,
    });
    const worker = new WorkerProcess(
      {
        rank,
        localRank,
        label,
        command: options.command,
        env: { ...options.env, ...HOSTED, ...place },
        inheritStdout: options.inherit.has(rank),
        onLine: this.lineHandler(localRank, label),
      },
      (ended, end) => this.left(ended, end),
    );
    this.workers.push(worker);
    if (worker.pid === undefined) return;
    options.reaper.add(worker.pid);
    options.onStart?.({ rank, label, pid: worker.pid });
  }

  private lineHandler(
    localRank: number,
    label: string,
  ): (stream: 'stdout' | 'stderr', line: string, source: Readable) => void {
    const { options } = this;
    const shown = options.shown(localRank);
    const redirected = options.redirects?.(localRank);
    const copied = options.tee?.(localRank);
    const out = { stdout: consoleOf(options.stdout), stderr: consoleOf(options.stderr) };
    let files: LogFiles | undefined;
    if (options.logFolder !== undefined) {
      const folder = join(options.logFolder, `attempt_${options.restartCount}`, String(localRank));
      files = new LogFiles(
        folder,
        (error) => void options.stderr.write(`backwire: cannot write the logs of ${label}: ${messageOf(error)}\n`),
      );
      this.logs.push(files);
    }
    return (stream, line, source) => {
      if (redirected?.[stream] === true || copied?.[stream] === true) files?.write(stream, line);
      if (shown && redirected?.[stream] !== true) out[stream].write(`[${label}]: ${line}\n`, source);
    };
  }

  private left(worker: WorkerProcess, end: WorkerEnd): void {
    if (worker.pid !== undefined) this.options.reaper.remove(worker.pid);
    this.options.store.exited(end);
    if (!isFailure(end)) return;
    // What the worker itself had started must not outlive it.
    worker.kill('SIGKILL');
    if (this.stoppedBy !== undefined) return;
    if (this.elsewhere === undefined) this.failed = true;
    this.stop('SIGTERM');
  }

  /** A signal to the launcher: passed on; a second one ends the patience. */
  private interrupt(by: NodeJS.Signals): void {
    if (this.stoppedBy !== undefined) {
      for (const worker of this.workers) worker.kill('SIGKILL');
      return;
    }
    this.stoppedBy = by;
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

  private outcome(unordered: readonly WorkerExit[]): AttemptOutcome {
    const exits = [...unordered].sort((a, b) => a.at - b.at);
    if (this.stoppedBy !== undefined) return { kind: 'stopped', by: this.stoppedBy, exits };
    if (this.elsewhere !== undefined && !this.failed)
      return { kind: 'failed-elsewhere', failure: this.elsewhere, exits };
    const failures = exits.filter(isFailure);
    const earliest = failures[0];
    if (earliest === undefined) return { kind: 'finished', exits };
    // Of failures noticed together, a worker that was killed is rather the cause than one that gave up because of it.
    const killed = failures.find(
      ({ at, signal }) => at - earliest.at <= SAME_MOMENT_MS && signal !== null && signal !== 'SIGTERM',
    );
    return { kind: 'failed', first: killed ?? earliest, exits };
  }
}
