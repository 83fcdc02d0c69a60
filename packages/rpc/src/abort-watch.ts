/** @file One listener for each AbortSignal, however many wait for it: event targets search a list for every listener, and warn of eleven. */

/** Who waits for one signal, in the order they came. */
class Watchers {
  private readonly signal: AbortSignal;
  private readonly waiting = new Set<() => void>();

  constructor(signal: AbortSignal) {
    this.signal = signal;
  }

  add(abort: () => void): void {
    if (this.waiting.size === 0) this.signal.addEventListener('abort', this.fire, { once: true });
    this.waiting.add(abort);
  }

  delete(abort: () => void): void {
    if (this.waiting.delete(abort) && this.waiting.size === 0) this.signal.removeEventListener('abort', this.fire);
  }

  private readonly fire = (): void => {
    const all = [...this.waiting];
    this.waiting.clear();
    for (const abort of all) {
      try {
        abort();
      } catch (error) {
        // As an event target does it: the others are told all the same.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  };
}

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
