/** @file What may fail and is done without, and what is found out once. */

/** What `run` gives; undefined where it throws. */
export function attempt<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

/** Asks `find` when it is needed first, and never again. */
export function once<T>(find: () => T): () => T {
  let found: { readonly value: T } | undefined;
  return () => (found ??= { value: find() }).value;
}
