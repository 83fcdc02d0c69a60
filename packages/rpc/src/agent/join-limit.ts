/** @file Joining a group ends with its time, also where the store does not answer. */
import { RpcError } from '../base/errors.ts';
import { within } from '../base/within.ts';

/** Joining ends by itself, and says who is missing, where the store lets it: so much later it is ended from here. */
const GRACE_MS = 2_000;
/** How long one that has failed tries to take back what it told the store, and to close it. */
const FAREWELL_MS = 1_000;
/** A store that is served here waits for others to leave. */
const CLOSE_MS = 5_000;

/** What `entering` comes to, until a while after `deadline`. What comes later is given to `undo`. @throws RpcError 'deadline-exceeded' with `text`. */
export async function enteredInTime<T>(
  entering: Promise<T>,
  deadline: number,
  text: () => string,
  undo: (late: T) => Promise<unknown>,
): Promise<T> {
  if (deadline === Infinity) return entering;
  let isLate = false;
  const late = (): never => {
    isLate = true;
    throw new RpcError('deadline-exceeded', text());
  };
  try {
    return await within(entering, Math.max(0, deadline - performance.now()) + GRACE_MS, late);
  } finally {
    if (isLate) entering.then(undo).catch(() => undefined);
  }
}

/** Lets go of a group and its store, as far as the store takes part. */
export async function letGo(
  group: { close(): Promise<void> } | undefined,
  store: { close(): Promise<void> } | undefined,
): Promise<void> {
  const nothing = (): void => undefined;
  for (const [closing, ms] of [
    [group, FAREWELL_MS],
    [store, CLOSE_MS],
  ] as const)
    if (closing !== undefined) await within(closing.close(), ms, nothing).catch(nothing);
}
