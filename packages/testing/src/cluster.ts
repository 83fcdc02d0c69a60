/** @file Real worker processes for tests: spawned from TypeScript source, watched line by line, killed on demand, never orphaned. */
import { spawn, type ChildProcess } from 'node:child_process';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { killGroup, Reaper } from './reaper.ts';

/** Lines kept per process; older ones are dropped. */
const MAX_LINES = 20_000;
const DEFAULT_TIMEOUT_MS = 30_000;
const repository = fileURLToPath(new URL('../../..', import.meta.url));

/** What to start. */
export interface ClusterOptions {
  /** Path or file URL of a TypeScript or JavaScript program; it runs with the `@backwire/source` condition. */
  readonly program: string | URL;
  /** Number of processes. */
  readonly worldSize: number;
  /** Arguments of every process, or by rank. */
  readonly args?: readonly string[] | ((rank: number) => readonly string[]);
  /** Environment added to this process's own and to RANK, LOCAL_RANK, WORLD_SIZE; undefined removes a variable. */
  readonly env?: Env | ((rank: number) => Env);
  /** Flags of Node itself, such as `--expose-gc`. */
  readonly nodeArgs?: readonly string[];
  /** A command that starts Node in a rank's place, such as `ip netns exec`; it has to become Node, not stay beside it. */
  readonly through?: (rank: number) => readonly string[];
  /** @default the root of the repository */
  readonly cwd?: string;
}

/** Environment variables; undefined removes one. */
type Env = Readonly<Record<string, string | undefined>>;

/** How a process ended. */
export interface ExitStatus {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** One line a process wrote. */
export interface OutputLine {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

/** A group of worker processes; dispose it (or use `await using`) and none is left, whatever happened. */
export class TestCluster implements AsyncDisposable {
  readonly workers: readonly WorkerProcess[];
  readonly #reaper = new Reaper();

  constructor(options: ClusterOptions) {
    this.workers = Array.from(
      { length: options.worldSize },
      (_, rank) => new WorkerProcess(rank, options, this.#reaper),
    );
  }

  /** The worker of a rank. */
  worker(rank: number): WorkerProcess {
    const worker = this.workers[rank];
    if (worker === undefined) throw new RangeError(`no worker of rank ${rank}`);
    return worker;
  }

  /** Starts the program of a rank again after its process ended; output goes on where it was. */
  restart(rank: number): void {
    this.worker(rank).start();
  }

  /** Waits until all have ended. Rejects with everything they wrote when one is still running after the time. */
  async exited(timeoutMs = DEFAULT_TIMEOUT_MS): Promise<ExitStatus[]> {
    return Promise.all(this.workers.map((worker) => worker.exited(timeoutMs)));
  }

  /** Waits until all have ended with code 0; rejects with their output otherwise. */
  async succeeded(timeoutMs = DEFAULT_TIMEOUT_MS): Promise<void> {
    const statuses = await this.exited(timeoutMs);
    const failed = statuses.findIndex(({ code }) => code !== 0);
    if (failed >= 0) throw new Error(`worker ${failed} ended with ${describe(statuses[failed])}\n${this.output()}`);
  }

  /** Everything that was written, each line with its rank. */
  output(): string {
    return this.workers.map((worker) => worker.output('all', `[${worker.rank}] `)).join('\n');
  }

  /** Kills every process and waits until they are gone. Idempotent. */
  async dispose(): Promise<void> {
    for (const worker of this.workers) worker.kill('SIGKILL');
    this.#reaper.dispose();
    await Promise.all(this.workers.map((worker) => worker.ended));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }
}

/** One worker process. */
export class WorkerProcess {
  readonly rank: number;
  readonly lines: OutputLine[] = [];
  /** Settles when the current process has ended and its output is complete. */
  ended: Promise<ExitStatus>;
  readonly #options: ClusterOptions;
  readonly #reaper: Reaper;
  readonly #waiters = new Set<() => void>();
  #child: ChildProcess;
  #status: ExitStatus | undefined;

  constructor(rank: number, options: ClusterOptions, reaper: Reaper) {
    this.rank = rank;
    this.#options = options;
    this.#reaper = reaper;
    [this.#child, this.ended] = this.#spawn();
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  /** How it ended; undefined while it runs. */
  get status(): ExitStatus | undefined {
    return this.#status;
  }

  /** Starts it again. */
  start(): void {
    if (this.#status === undefined) throw new Error(`worker ${this.rank} is still running`);
    this.#status = undefined;
    [this.#child, this.ended] = this.#spawn();
  }

  /** Signals the process and its own children: SIGKILL, SIGTERM, SIGSTOP, SIGCONT … */
  kill(signal: NodeJS.Signals): void {
    if (this.#status === undefined && this.#child.pid !== undefined) killGroup(this.#child.pid, signal);
  }

  /** Writes a line to its standard input. */
  send(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Waits until it ended. */
  async exited(timeoutMs = DEFAULT_TIMEOUT_MS): Promise<ExitStatus> {
    return this.#before(timeoutMs, 'end', () => this.#status);
  }

  /**
   * Waits for a line (of those written before, too, from `from` on) that matches. Rejects with the output when the process ends
   * without one or the time is over.
   */
  async line(pattern: RegExp | string, options: { timeoutMs?: number; from?: number } = {}): Promise<string> {
    const matches = (text: string): boolean =>
      typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text);
    let next = options.from ?? 0;
    return this.#before(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, `write ${String(pattern)}`, () => {
      for (; next < this.lines.length; next++) {
        const { text } = this.lines[next] as OutputLine;
        if (matches(text)) return text;
      }
      if (this.#status !== undefined)
        throw this.#error(`ended with ${describe(this.#status)} without a line ${String(pattern)}`);
      return undefined;
    });
  }

  /** What it wrote. */
  output(stream: OutputLine['stream'] | 'all' = 'all', prefix = ''): string {
    const lines = this.lines.filter((line) => stream === 'all' || line.stream === stream);
    return lines.map(({ text }) => prefix + text).join('\n');
  }

  #spawn(): [ChildProcess, Promise<ExitStatus>] {
    const { program, args, env, nodeArgs = [], cwd = repository, worldSize, through } = this.#options;
    const own = typeof args === 'function' ? args(this.rank) : (args ?? []);
    const extra = typeof env === 'function' ? env(this.rank) : (env ?? {});
    const path = program instanceof URL || program.startsWith('file:') ? fileURLToPath(program) : program;
    const rank = String(this.rank);
    const [command = '', ...before] = [...(through?.(this.rank) ?? []), process.execPath];
    const child = spawn(command, [...before, ...sourceFlags(), ...nodeArgs, path, ...own], {
      cwd,
      detached: true,
      env: { ...inherited(), RANK: rank, LOCAL_RANK: rank, WORLD_SIZE: String(worldSize), ...extra },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#reaper.watch(child);
    child.stdin.on('error', () => undefined);
    for (const stream of ['stdout', 'stderr'] as const) {
      createInterface({ input: child[stream] }).on('line', (text) => this.#add({ stream, text }));
    }
    const ended = new Promise<ExitStatus>((resolve) => {
      const end = (status: ExitStatus): void => {
        this.#status = status;
        this.#notify();
        resolve(status);
      };
      child.once('error', (error) => {
        this.#add({ stream: 'stderr', text: String(error) });
        if (child.pid === undefined) end({ code: -1, signal: null });
      });
      child.once('close', (code, signal) => end({ code, signal }));
    });
    return [child, ended];
  }

  #add(line: OutputLine): void {
    this.lines.push(line);
    if (this.lines.length > MAX_LINES) this.lines.splice(0, MAX_LINES / 2);
    this.#notify();
  }

  #notify(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }

  #before<T>(timeoutMs: number, what: string, look: () => T | undefined): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const finish = (settle: () => void): void => {
        clearTimeout(timer);
        this.#waiters.delete(check);
        settle();
      };
      const check = (): void => {
        try {
          const found = look();
          if (found !== undefined) finish(() => resolve(found));
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const timer = setTimeout(
        () => finish(() => reject(this.#error(`did not ${what} within ${timeoutMs} ms`))),
        timeoutMs,
      );
      this.#waiters.add(check);
      check();
    });
  }

  #error(what: string): Error {
    return new Error(`worker ${this.rank} ${what}; it wrote:\n${this.output('all', '  ')}`);
  }
}

/** Node flags that run TypeScript against the packages' sources. */
function sourceFlags(): string[] {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  return ['--import', tsx, '--conditions=@backwire/source'];
}

/** This process's environment without what the test runner put there for itself. */
function inherited(): NodeJS.ProcessEnv {
  const drop = /^(VITEST|NODE_OPTIONS|NODE_V8_COVERAGE|TEST$|FORCE_COLOR)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !drop.test(name)));
}

function describe(status: ExitStatus | undefined): string {
  return status?.signal === null ? `code ${String(status.code)}` : `signal ${String(status?.signal)}`;
}
