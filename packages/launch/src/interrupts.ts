/** @file What tells a launch to end, from its first moment to its last: signals to this process, and its caller. */

import { REPEAT_MS } from './limits.ts';

/** Told of each signal, the first and those after it. */
export type Interrupted = (by: NodeJS.Signals) => void;

/**
 * Without it a signal that comes while no worker runs would end this process before it has left the group; or, where this process is
 * the first of a container, nothing at all.
 */
export class Interrupts {
  private readonly first = new AbortController();
  private readonly listeners = new Set<Interrupted>();
  private undo: (() => void)[] = [];
  private name: NodeJS.Signals | undefined;
  /** Until when signals are the first one once more, on the clock of `performance`. */
  private repeatsUntil = -Infinity;
  private lettingGo: NodeJS.Timeout | undefined;
  private failure: { readonly error: unknown } | undefined;

  /** An abort of `stop` counts as SIGTERM, and never as a second signal. */
  constructor(signals: readonly NodeJS.Signals[], stop: AbortSignal) {
    for (const name of signals) {
      const handler = (): void => this.signalled(name);
      process.on(name, handler);
      this.undo.push(() => process.off(name, handler));
    }
    const onAbort = (): void => this.end('SIGTERM');
    stop.addEventListener('abort', onAbort);
    this.undo.push(() => stop.removeEventListener('abort', onAbort));
    if (stop.aborted) onAbort();
  }

  /** The first that came. */
  get by(): NodeJS.Signals | undefined {
    return this.name;
  }

  /** Aborts at the first. */
  get signal(): AbortSignal {
    return this.first.signal;
  }

  /** Calls `listener` for the first, even if it has come already, and for the others. Returns how to stop. */
  listen(listener: Interrupted): () => void {
    this.listeners.add(listener);
    if (this.name !== undefined) listener(this.name);
    return () => {
      this.listeners.delete(listener);
      this.letGo();
    };
  }

  /** Something that the caller gave has failed: ends the launch as SIGTERM does, and the launch then fails with the first such error. */
  fail(error: unknown): void {
    if (this.failure !== undefined) return;
    this.failure = { error };
    this.end('SIGTERM');
  }

  /** @throws what `fail` was given. */
  throwIfFailed(): void {
    if (this.failure !== undefined) throw this.failure.error;
  }

  close(): void {
    clearTimeout(this.lettingGo);
    for (const undo of this.undo) undo();
    this.undo = [];
  }

  /**
   * A signal to this process. One Ctrl-C may come twice: from the terminal, and passed on by npm or whatever else started this process; so
   * may the end that a scheduler tells all processes of a job.
   */
  private signalled(by: NodeJS.Signals): void {
    if (performance.now() < this.repeatsUntil) return;
    this.came(by);
  }

  /** Not by a signal to this process: what is ending already is not hurried by it. */
  private end(by: NodeJS.Signals): void {
    if (this.name === undefined) this.came(by);
  }

  private came(by: NodeJS.Signals): void {
    if (this.name === undefined) this.repeatsUntil = performance.now() + REPEAT_MS;
    this.name ??= by;
    this.first.abort();
    for (const listener of [...this.listeners]) listener(by);
    this.letGo();
  }

  /** A launch without workers that is about to end: the next signal, if it is not the first once more, does what it does to any process. */
  private letGo(): void {
    if (this.name === undefined || this.listeners.size > 0) return;
    clearTimeout(this.lettingGo);
    const wait = this.repeatsUntil - performance.now();
    if (wait <= 0) this.close();
    else this.lettingGo = setTimeout(() => this.letGo(), wait).unref();
  }
}
