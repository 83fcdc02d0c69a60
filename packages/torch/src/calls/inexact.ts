/** @file Arguments of a script call as functions of programs get them. */
import { PyFloat } from '../values/numbers.ts';

/**
 * The same values with every float as a number, in their containers, too. Each container is visited once, however often it is met: a
 * few bytes of a pickle say "the one before, twice" as often as they like.
 */
export function inexact(values: readonly unknown[]): unknown[] {
  const found = [...values];
  const containers: (unknown[] | Map<unknown, unknown>)[] = [found];
  const seen = new Set<unknown>(containers);
  const plain = (value: unknown): unknown => {
    if (value instanceof PyFloat) return value.value;
    if ((Array.isArray(value) || value instanceof Map) && !seen.has(value)) {
      seen.add(value);
      containers.push(value as unknown[] | Map<unknown, unknown>);
    }
    return value;
  };
  // What is met is added at the end meanwhile.
  for (const container of containers) {
    if (Array.isArray(container)) container.forEach((each, i) => (container[i] = plain(each)));
    else {
      const entries = [...container];
      container.clear();
      for (const [key, each] of entries) container.set(plain(key), plain(each));
    }
  }
  return found;
}
