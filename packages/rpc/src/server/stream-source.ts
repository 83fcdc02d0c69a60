/** @file Where the items of a stream come from. */

type Source = Iterator<unknown> | AsyncIterator<unknown>;

/** The iterator of what a handler gave; undefined where that has none. */
export function sourceOf(value: unknown): Source | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const both = value as Partial<AsyncIterable<unknown> & Iterable<unknown>>;
  if (typeof both[Symbol.asyncIterator] === 'function') return both[Symbol.asyncIterator]?.();
  return both[Symbol.iterator]?.();
}
