/** @file Backends as processes: one that hangs or damages its memory is replaced, and the program that did it is named. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Report } from './executor.ts';
import type { Outcome } from './outcome.ts';
import type { Program } from './program.ts';

/** How long one program may take. They take microseconds, so this is about machines that are busy. */
const PROGRAM_MS = 15_000;
const START_MS = 120_000;

/** Errors after which a process's memory cannot be relied on. */
const DAMAGE = /memory access out of bounds|Aborted\(|table index is out of bounds|unreachable|null function/;

/** What is seen of a program that does not come back. */
const never: Outcome = { refusal: { at: -1, name: 'Hang', message: 'no end, or an end of the process' }, seen: {} };

/** A process and its reports in order. */
class Child {
  private readonly process: ChildProcess;
  private readonly waiting: Report[] = [];
  private ended = false;
  private complaint = '';
  private wake: () => void = () => undefined;

  constructor(backend: string) {
    this.process = fork(fileURLToPath(new URL('executor.ts', import.meta.url)), {
      execArgv: ['--import', 'tsx', '--conditions=@backwire/source'],
      // With a BLAS, tensorflow computes as blas does, which is another executor.
      env: {
        ...process.env,
        BACKWIRE_BACKEND: backend,
        ...(backend === 'tensorflow' ? { BACKWIRE_BLAS: 'none' } : {}),
      },
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.process.on('message', (report) => {
      this.waiting.push(report as Report);
      this.wake();
    });
    this.process.on('exit', () => {
      this.ended = true;
      this.wake();
    });
    // Killed while it is being written to: `next` tells.
    this.process.on('error', () => undefined);
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.complaint = (this.complaint + text).slice(-2_000);
    });
  }

  get words(): string {
    return this.complaint;
  }

  send(programs: readonly Program[]): void {
    this.process.send(programs, () => undefined);
  }

  /** The next report; undefined when the process ends or the time is up. */
  async next(limitMs: number): Promise<Report | undefined> {
    if (this.waiting.length === 0 && !this.ended) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limitMs);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.waiting.shift();
  }

  async stop(): Promise<void> {
    if (this.ended) return;
    this.process.disconnect();
    await once(this.process, 'exit');
  }

  kill(): void {
    this.process.kill('SIGKILL');
  }
}

export class Executor {
  readonly backend: string;
  private readonly programMs: number;
  private child: Child | undefined;

  constructor(backend: string, programMs = PROGRAM_MS) {
    this.backend = backend;
    this.programMs = programMs;
  }

  /** What each program comes to. Programs share the process until one damages it. */
  async run(programs: readonly Program[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    while (outcomes.length < programs.length) {
      const child = (this.child ??= await this.start());
      child.send(programs.slice(outcomes.length));
      await this.collect(child, outcomes, programs.length);
    }
    return outcomes;
  }

  /** Whether the backend can be had here. */
  async starts(): Promise<boolean> {
    try {
      this.child ??= await this.start();
      return true;
    } catch {
      return false;
    }
  }

  /** The next programs run in a process that has run nothing else. */
  async restart(): Promise<void> {
    await this.stop();
  }

  async stop(): Promise<void> {
    await this.child?.stop();
    this.child = undefined;
  }

  /** Adds outcomes until there are `count`, or until the process is of no more use. */
  private async collect(child: Child, outcomes: Outcome[], count: number): Promise<void> {
    while (outcomes.length < count) {
      const report = await child.next(this.programMs);
      const outcome = report !== undefined && 'outcome' in report ? report.outcome : never;
      outcomes.push(outcome);
      if (outcome !== never && (outcome.refusal === undefined || !DAMAGE.test(outcome.refusal.message))) continue;
      this.kill();
      return;
    }
  }

  private kill(): void {
    this.child?.kill();
    this.child = undefined;
  }

  private async start(): Promise<Child> {
    const child = new Child(this.backend);
    const report = await child.next(START_MS);
    if (report !== undefined && 'ready' in report && report.ready === this.backend) return child;
    child.kill();
    throw new Error(`the backend ${this.backend} did not start: ${child.words}`);
  }
}
