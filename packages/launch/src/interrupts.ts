/** @file What tells a launch to end, from its first moment to its last: signals to this process, and its caller. */

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
  private failure: { readonly error: unknown } | undefined;

  /** An abort of `stop` counts as SIGTERM. */
  constructor(signals: readonly NodeJS.Signals[], stop: AbortSignal) {
    for (const name of signals) {
      const handler = (): void => this.came(name);
      process.on(name, handler);
      this.undo.push(() => process.off(name, handler));
    }
    const onAbort = (): void => this.came('SIGTERM');
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
    this.came('SIGTERM');
  }

  /** @throws what `fail` was given. */
  throwIfFailed(): void {
    if (this.failure !== undefined) throw this.failure.error;
  }

  close(): void {
    for (const undo of this.undo) undo();
    this.undo = [];
  }

  private came(by: NodeJS.Signals): void {
    this.name ??= by;
    this.first.abort();
    for (const listener of [...this.listeners]) listener(by);
    this.letGo();
  }

  /** A launch without workers that is about to end: the next signal does what it does to any process. */
  private letGo(): void {
    if (this.name !== undefined && this.listeners.size === 0) this.close();
  }
}
