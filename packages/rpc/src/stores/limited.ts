/** @file Something that ends when others end it, or when its time is over. */
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';

/** After what has arrived by now; a browser has no word for that. */
const soon = (fn: () => void): unknown => (typeof setImmediate === 'function' ? setImmediate(fn) : setTimeout(fn));

/** What `promise` comes to, or the reason of `signal`, whichever is first. */
export function race<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    else watchAbort(signal, onAbort);
    promise.then(resolve, reject).finally(() => unwatchAbort(signal, onAbort));
  });
}

/**
 * Runs `fn` with a signal that aborts when one of `signals` does, or after `timeoutMs` (0 or Infinity: never). `AbortSignal.any` does
 * not do: it holds its sources weakly, and an `AbortSignal.timeout` that nothing else holds may be collected before it fires.
 * `more`, told by how many milliseconds the end of the time was noticed too late, may give so many more.
 */
export async function limited<T>(
  timeoutMs: number,
  signals: readonly (AbortSignal | undefined)[],
  fn: (signal: AbortSignal) => Promise<T>,
  more: (lateMs: number) => number = () => 0,
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
  let timer: NodeJS.Timeout | undefined;
  const arm = (ms: number): void => {
    const dueAt = performance.now() + ms;
    timer = setTimeout(() => {
      const lateMs = performance.now() - dueAt;
      // A loop that stood still sees that its time is over before it sees what has arrived meanwhile.
      soon(() => {
        if (over) return;
        const moreMs = more(lateMs);
        if (moreMs > 0) arm(moreMs);
        else control.abort(new DOMException(`not done in ${timeoutMs} ms`, 'TimeoutError'));
      });
    }, Math.ceil(ms));
  };
  if (timeoutMs > 0 && timeoutMs < MAX_TIMER_MS) arm(timeoutMs);
  try {
    return await fn(control.signal);
  } finally {
    over = true;
    clearTimeout(timer);
    for (const unwatch of watched) unwatch();
  }
}
