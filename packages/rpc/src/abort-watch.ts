/** @file One listener for each AbortSignal, however many wait for it: event targets search a list for every listener, and warn of eleven. */

/** Who waits for one signal, in the order they came. A signal of a call of its own has one: no set is made for that. */
class Watchers {
  private readonly signal: AbortSignal;
  private only: (() => void) | undefined;
  private more: Set<() => void> | undefined;

  constructor(signal: AbortSignal) {
    this.signal = signal;
  }

  add(abort: () => void): void {
    if (this.more !== undefined) this.more.add(abort);
    else if (this.only === undefined) {
      this.only = abort;
      this.signal.addEventListener('abort', this, ONCE);
    } else if (this.only !== abort) this.more = new Set([this.only, abort]);
  }

  delete(abort: () => void): void {
    if (this.more === undefined ? this.only !== abort : !this.more.delete(abort) || this.more.size > 0) return;
    this.only = this.more = undefined;
    this.signal.removeEventListener('abort', this);
  }

  /** Of the signal. */
  handleEvent(): void {
    const all = this.more === undefined ? [this.only] : [...this.more];
    this.only = this.more = undefined;
    for (const abort of all) {
      try {
        abort?.();
      } catch (error) {
        // As an event target does it: the others are told all the same.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}

const ONCE = Object.freeze({ once: true });
const watched = new WeakMap<AbortSignal, Watchers>();

/** Calls `abort` once when the signal aborts; never for one that has already. The same function counts once. */
export function watchAbort(signal: AbortSignal, abort: () => void): void {
  let watchers = watched.get(signal);
  if (watchers === undefined) watched.set(signal, (watchers = new Watchers(signal)));
  watchers.add(abort);
}

/** Takes that back; harmless when repeated. The last one takes the listener off the signal. */
export function unwatchAbort(signal: AbortSignal, abort: () => void): void {
  watched.get(signal)?.delete(abort);
}
