/** @file Something that ends when others end it, or when its time is over. */
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';

/** After what has arrived by now; a browser has no word for that. */
const soon = (fn: () => void): unknown => (typeof setImmediate === 'function' ? setImmediate(fn) : setTimeout(fn));

/**
 * Runs `fn` with a signal that aborts when one of `signals` does, or after `timeoutMs` (0 or Infinity: never). `AbortSignal.any` does
 * not do: it holds its sources weakly, and an `AbortSignal.timeout` that nothing else holds may be collected before it fires.
 */
export async function limited<T>(
  timeoutMs: number,
  signals: readonly (AbortSignal | undefined)[],
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const control = new AbortController();
  const watched = signals.flatMap((signal) => {
    if (signal === undefined) return [];
    const abort = (): void => control.abort(signal.reason);
    if (signal.aborted) abort();
    else watchAbort(signal, abort);
    return [() => unwatchAbort(signal, abort)];
  });
  let over = false;
  const late = (): void => {
    // A loop that stood still sees that its time is over before it sees what has arrived meanwhile.
    soon(() => {
      if (!over) control.abort(new DOMException(`not done in ${timeoutMs} ms`, 'TimeoutError'));
    });
  };
  const timer = timeoutMs > 0 && timeoutMs < MAX_TIMER_MS ? setTimeout(late, Math.ceil(timeoutMs)) : undefined;
  try {
    return await fn(control.signal);
  } finally {
    over = true;
    clearTimeout(timer);
    for (const unwatch of watched) unwatch();
  }
}
