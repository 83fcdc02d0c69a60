/** @file Waiting for a while, and for what may take too long. Runs in browsers too. */
import { MAX_TIMER_MS, unref } from './platform.ts';

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** As `sleep`, and the process may end meanwhile. */
export function sleepUnref(ms: number): Promise<void> {
  return new Promise((resolve) => unref(setTimeout(resolve, ms)));
}

/** What `work` comes to within `ms`, else what `late` gives or throws. What happens to `work` after that is nobody's any more. */
export async function within<T, L>(work: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const time = new Promise<void>((resolve) => (timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS))));
  work.catch(() => undefined);
  try {
    return await Promise.race([work, time.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
