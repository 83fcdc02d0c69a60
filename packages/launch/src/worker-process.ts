/** @file One worker: spawned in a process group of its own, its output read, its end awaited. */
import { ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { messageOf } from './errors.ts';
import { MAX_LEFT_BYTES, OUTPUT_GRACE_MS, UNREAD_MS } from './limits.ts';
import { eachLine, Tail } from './output.ts';
import type { ProgramCommand } from './program.ts';

/** A worker that has been started. */
export interface StartedWorker {
  readonly rank: number;
  readonly label: string;
  readonly pid: number;
}

/** That a worker ended, and how. */
export interface WorkerEnd {
  readonly rank: number;
  readonly localRank: number;
  readonly label: string;
  /** Undefined when it could not even be started. */
  readonly pid: number | undefined;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why it could not be started. */
  readonly startError: string | undefined;
  /** When the end was noticed, in milliseconds since the epoch. */
  readonly at: number;
  /** How long it ran, in milliseconds. */
  readonly ranMs: number;
}

/** The same once its output is read. */
export interface WorkerExit extends WorkerEnd {
  /** The last lines of its standard error. */
  readonly stderr: readonly string[];
}

export interface WorkerSpec {
  readonly rank: number;
  readonly localRank: number;
  /** What it is called in messages and prefixes: 'rank0'. */
  readonly label: string;
  readonly command: ProgramCommand;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Its standard output is the launcher's own, unprefixed: a terminal stays a terminal. */
  readonly inheritStdout: boolean;
  readonly output: WorkerOutput;
}

/** Where the output of a worker goes. */
export interface WorkerOutput {
  onLine(stream: 'stdout' | 'stderr', line: string, source: Readable): void;
  /** The same as it came. */
  onBytes(stream: 'stdout' | 'stderr', bytes: Buffer, source: Readable): void;
  /** What has gone there and nobody has taken: another number than a moment ago is a sign that somebody reads. */
  untaken(): number;
}

export class WorkerProcess {
  readonly spec: WorkerSpec;
  /** Resolves once it has ended and its output is read. Never rejects. */
  readonly ended: Promise<WorkerExit>;
  /** What it was told while it ran: an end by one of these is the launcher's doing. */
  readonly sent = new Set<NodeJS.Signals>();
  private readonly child: ChildProcess;
  /** When its end was noticed, by a clock that nobody sets: what tells which of several ended first. 0 while it runs. */
  endedAt = 0;
  private readonly startedAt = performance.now();
  private readonly tail = new Tail();
  private running = true;
  private isHurried = false;

  /** `onExit` is called at the moment of the end, before the rest of the output is read. */
  constructor(spec: WorkerSpec, onExit: (worker: WorkerProcess, end: WorkerEnd) => void) {
    this.spec = spec;
    this.child = spawned(spec);
    // Undefined where no pipe could be made, for want of files that may be open.
    const { stdout, stderr } = this.child as Record<'stdout' | 'stderr', Readable | null | undefined>;
    if (stdout) this.read('stdout', stdout);
    if (stderr) this.read('stderr', stderr);
    this.ended = this.watch(onExit);
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  get isRunning(): boolean {
    return this.running;
  }

  /** Signals the worker and its children. Harmless once they are gone. */
  kill(signal: NodeJS.Signals): void {
    const { pid } = this.child;
    if (pid === undefined) return;
    if (this.running) this.sent.add(signal);
    try {
      process.kill(-pid, signal);
    } catch {
      // Nobody of the group is left, or (without process groups) only the worker itself can be reached.
      if (this.running) this.child.kill(signal);
    }
  }

  /** Once it has ended, output that nobody takes is waited for a while only. */
  hurry(): void {
    this.isHurried = true;
  }

  private read(stream: 'stdout' | 'stderr', source: Readable): void {
    const { output } = this.spec;
    source.on('data', (bytes: Buffer) => output.onBytes(stream, bytes, source));
    eachLine(source, (line) => {
      if (stream === 'stderr') this.tail.push(line);
      output.onLine(stream, line, source);
    });
  }

  private get bytesRead(): number {
    const { stdout, stderr } = this.child as { stdout: Partial<Socket> | null; stderr: Partial<Socket> | null };
    return (stdout?.bytesRead ?? 0) + (stderr?.bytesRead ?? 0);
  }

  /** After the end of the worker: calls back once its output is read, or that which is left is not its own, or is taken by nobody. */
  private whenRead(over: () => void): void {
    const { stdout, stderr } = this.child;
    const atExit = this.bytesRead;
    let [read, untaken] = [atExit, 0];
    let idleMs = 0;
    let wasPaused = true;
    const timer = setInterval(() => {
      const before = { read, untaken };
      [read, untaken] = [this.bytesRead, this.spec.output.untaken()];
      idleMs = read === before.read && untaken === before.untaken ? idleMs + OUTPUT_GRACE_MS : 0;
      const isPaused = stdout?.isPaused() === true || stderr?.isPaused() === true;
      // Paused, or a moment ago: there is more to read once the console has caught up. After all that it can have left, others write.
      const isIdle = isPaused ? this.isHurried && idleMs > UNREAD_MS : read === before.read && !wasPaused;
      const isOver = isIdle || read - atExit > MAX_LEFT_BYTES;
      wasPaused = isPaused;
      if (!isOver) return;
      stdout?.destroy();
      stderr?.destroy();
      end();
    }, OUTPUT_GRACE_MS);
    const end = (): void => {
      clearInterval(timer);
      over();
    };
    this.child.on('close', end);
  }

  private watch(onExit: (worker: WorkerProcess, end: WorkerEnd) => void): Promise<WorkerExit> {
    const { child, spec } = this;
    return new Promise((resolve) => {
      let exit: WorkerEnd | undefined;
      let settled = false;
      const left = (code: number | null, signal: NodeJS.Signals | null, startError: string | undefined): void => {
        if (exit !== undefined) return;
        this.running = false;
        this.endedAt = performance.now();
        const ranMs = Math.round(this.endedAt - this.startedAt);
        const { rank, localRank, label } = spec;
        exit = { rank, localRank, label, pid: child.pid, code, signal, startError, at: Date.now(), ranMs };
        onExit(this, exit);
      };
      const settle = (): void => {
        if (settled || exit === undefined) return;
        settled = true;
        resolve({ ...exit, stderr: [...this.tail.lines()] });
      };
      child.on('error', (error) => {
        // Also emitted when a signal could not be sent: only a child without a pid never started.
        if (child.pid !== undefined) return;
        left(null, null, messageOf(error));
        settle();
      });
      child.on('exit', (code, signal) => {
        left(code, signal, undefined);
        this.whenRead(settle);
      });
    });
  }
}

/** Starts it. What the system refuses is an event of the child also where node throws it, as with arguments that are too long. */
function spawned({ command, env, inheritStdout }: WorkerSpec): ChildProcess {
  try {
    return spawn(command.executable, [...command.args], {
      cwd: command.cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', inheritStdout ? 'inherit' : 'pipe', 'pipe'],
      // A group of its own: a signal reaches the worker's children too, and Ctrl-C reaches it once, through the launcher.
      detached: true,
    });
  } catch (error) {
    const never = new ChildProcess();
    process.nextTick(() => never.emit('error', error));
    return never;
  }
}

/** Whether this end is a failure: anything but exit code 0. */
export function isFailure(exit: WorkerEnd): boolean {
  return exit.code !== 0;
}

/** 'exit code 3', 'killed by SIGKILL', 'could not be started: …'. */
export function describeExit(exit: WorkerEnd): string {
  if (exit.startError !== undefined) return `could not be started: ${exit.startError}`;
  return exit.signal === null ? `exit code ${exit.code ?? 0}` : `killed by ${exit.signal}`;
}
