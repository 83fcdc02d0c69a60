/** @file One listener for each AbortSignal, however many wait for it: event targets search a list for every listener, and warn of eleven. */

/**
 * Who waits for one signal, in the order they came. The first is a listener itself: most signals are of one call, and an object that
 * listens costs such a call half its rate.
 */
class Watchers {
  private readonly signal: AbortSignal;
  private readonly all: Set<() => void>;

  constructor(signal: AbortSignal, first: () => void, second: () => void) {
    this.signal = signal;
    this.all = new Set([first, second]);
    signal.removeEventListener('abort', first);
    signal.addEventListener('abort', this.abort, ONCE);
  }

  add(abort: () => void): void {
    this.all.add(abort);
  }

  delete(abort: () => void): void {
    if (!this.all.delete(abort) || this.all.size > 0) return;
    watched.delete(this.signal);
    this.signal.removeEventListener('abort', this.abort);
  }

  private readonly abort = (): void => {
    const all = [...this.all];
    this.all.clear();
    watched.delete(this.signal);
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

const ONCE = Object.freeze({ once: true });
const watched = new WeakMap<AbortSignal, (() => void) | Watchers>();

/** Calls `abort` once when the signal aborts; never for one that has already. The same function counts once. */
export function watchAbort(signal: AbortSignal, abort: () => void): void {
  const known = watched.get(signal);
  if (known === undefined) {
    watched.set(signal, abort);
    signal.addEventListener('abort', abort, ONCE);
  } else if (known instanceof Watchers) known.add(abort);
  else if (known !== abort) watched.set(signal, new Watchers(signal, known, abort));
}

/** Takes that back; harmless when repeated. The last one takes the listener off the signal. */
export function unwatchAbort(signal: AbortSignal, abort: () => void): void {
  const known = watched.get(signal);
  if (known instanceof Watchers) known.delete(abort);
  else if (known === abort) {
    watched.delete(signal);
    signal.removeEventListener('abort', abort);
  }
}
