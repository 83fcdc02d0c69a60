/** @file Opening a store that may not be up yet: trying until it answers, the time is over, or nobody wants it any more. */
import { bareText, RpcError } from '../base/errors.ts';
import { sleep } from '../base/within.ts';
import { limited } from './limited.ts';

export interface OpeningLimits {
  /** How long to try, in milliseconds; 0 = no limit. @default 300000 */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export const DEFAULT_TIMEOUT_MS = 300_000;
const RETRY_MS = 100;

/**
 * Tries `once`, which is told how many milliseconds are left, as long as it fails because nobody answers.
 * @throws RpcError 'deadline-exceeded' naming `where`, 'cancelled', and whatever else `once` fails with, at once.
 */
export async function openWithin(
  where: string,
  { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: OpeningLimits,
  once: (leftMs: number) => Promise<unknown>,
): Promise<void> {
  const until = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
  for (;;) {
    throwIfCancelled(signal);
    try {
      await once(Math.max(1, until - performance.now()));
      return;
    } catch (error) {
      const known = RpcError.from(error);
      if (known.code !== 'unavailable' && known.code !== 'deadline-exceeded') throw known;
      if (performance.now() + RETRY_MS > until)
        throw tooLate(
          `no store at ${where} in ${Math.ceil(timeoutMs)} ms: ${bareText(known.code, known.message)}`,
          known,
        );
    }
    await sleep(RETRY_MS);
  }
}

/** @throws RpcError 'cancelled' once `signal` has aborted. */
export function throwIfCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true)
    throw new RpcError('cancelled', 'opening the store was cancelled', { cause: signal.reason });
}

export function tooLate(text: string, cause: unknown): RpcError {
  return new RpcError('deadline-exceeded', text, { cause });
}

/**
 * A store that `open` opens, which tries by itself, until a signal aborts; else it is closed.
 * @throws RpcError 'cancelled', what `open` fails with, and what `explain` makes of what is no RpcError: mostly that time is up.
 */
export async function openedInTime<S extends { close(): Promise<void> }>(
  store: S,
  limits: OpeningLimits,
  open: (signal: AbortSignal) => Promise<unknown>,
  explain: (error: unknown, timeoutMs: number) => RpcError,
): Promise<S> {
  try {
    await openLimited(limits, open);
    return store;
  } catch (error) {
    await store.close();
    throwIfCancelled(limits.signal);
    throw error instanceof RpcError ? error : explain(error, Math.ceil(limits.timeoutMs ?? DEFAULT_TIMEOUT_MS));
  }
}

/** Runs `open`, which tries by itself, with a signal that aborts when the limits are reached. */
export function openLimited<T>(
  { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: OpeningLimits,
  open: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return limited(timeoutMs, [signal], open);
}
