/** @file Waiting for a while, and for what may take too long. Runs in browsers too. */

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** What `work` comes to within `ms`, else what `late` gives or throws. What happens to `work` after that is nobody's any more. */
export async function within<T, L>(work: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const time = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  work.catch(() => undefined);
  try {
    return await Promise.race([work, time.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
