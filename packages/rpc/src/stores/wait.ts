/** @file Waiting for keys: one place for the time limit, cancelling, and naming what is missing. */
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { bareText, invalidArgument, RpcError } from '../base/errors.ts';
import { namesText } from '../base/names-text.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';
import { within } from '../base/within.ts';
import { closedError } from './checks.ts';
import type { StoreState } from './state.ts';

/** The store has so long to say what is missing when the time is over: whoever waits is told then, whatever the store does. */
const LOOK_MS = 1_000;

export interface WaitLimits {
  /** 0 = no limit. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Aborts when the store closes. */
  readonly closing: AbortSignal;
}

/**
 * Parks with `park` until it calls `done`, or fails: 'deadline-exceeded' naming what `missing` says, 'cancelled', 'failed-precondition'
 * when the store closes. Whatever happens, the function that `park` returned is called when it is no longer needed.
 */
export function settleWait(
  park: (done: (error?: RpcError) => void) => () => void,
  missing: () => Promise<readonly string[]>,
  limits: WaitLimits,
): Promise<void> {
  const { timeoutMs, signal, closing } = limits;
  return new Promise((resolve, reject) => {
    if (!(timeoutMs >= 0)) return reject(invalidArgument(`${timeoutMs} ms is no time to wait`));
    if (signal?.aborted)
      return reject(new RpcError('cancelled', 'waiting for keys was cancelled', { cause: signal.reason }));
    // `settle` may run inside `park`, before there is anything to take back.
    let unpark = undefined as (() => void) | undefined;
    let settled = false;
    let timer: NodeJS.Timeout | undefined;
    const settle = (error?: RpcError): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      if (signal) unwatchAbort(signal, onAbort);
      unwatchAbort(closing, onClose);
      unpark?.();
      if (error === undefined) resolve();
      else reject(error);
    };
    const onAbort = (): void =>
      settle(new RpcError('cancelled', 'waiting for keys was cancelled', { cause: signal?.reason }));
    const onClose = (): void => settle(closedError());
    const onTimeout = (): void => {
      const late = (what: string, why = ''): void =>
        settle(new RpcError('deadline-exceeded', `${what} not in the store after ${timeoutMs} ms${why}`));
      within(missing(), LOOK_MS, silent).then(
        (keys) => (keys.length === 0 ? settle() : late(namesText(keys))),
        (error: unknown) => late('some keys', `, which cannot be asked: ${reasonOf(error)}`),
      );
    };
    // Longer than a timer can be is as good as for ever.
    if (timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS) timer = setTimeout(onTimeout, timeoutMs);
    if (signal) watchAbort(signal, onAbort);
    watchAbort(closing, onClose);
    unpark = park(settle);
    if (settled) unpark();
  });
}

function silent(): never {
  throw new RpcError('unavailable', `it has not answered in ${LOOK_MS} ms`);
}

function reasonOf(error: unknown): string {
  const { code, message } = RpcError.from(error);
  return bareText(code, message);
}

/** Waits for keys of contents that are here. */
export function waitIn(state: StoreState, keys: readonly string[], limits: WaitLimits): Promise<void> {
  return settleWait(
    (done) => state.wait(keys, done),
    async () => keys.filter((key) => !state.has(key)),
    limits,
  );
}
