/** @file Copies of live objects: maps, sets, lists, and instances of classes with their fields. */

/** A copy of an object and of all that it holds; what is frozen or of a built-in class that is no collection is shared. */
export function copyOf<T>(value: T, copies = new Map<object, object>()): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  const known = copies.get(value);
  if (known !== undefined) return known as T;
  return fresh(value, copies) as T;
}

function fresh(value: object, copies: Map<object, object>): object {
  if (Array.isArray(value)) {
    const list: unknown[] = [];
    copies.set(value, list);
    for (const item of value as unknown[]) list.push(copyOf(item, copies));
    return list;
  }
  if (value instanceof Map) {
    const map = new Map<unknown, unknown>();
    copies.set(value, map);
    for (const [key, item] of value as Map<unknown, unknown>) map.set(key, copyOf(item, copies));
    return map;
  }
  if (value instanceof Set) {
    const set = new Set<unknown>(value as Set<unknown>);
    copies.set(value, set);
    return set;
  }
  const copy = Object.create(Object.getPrototypeOf(value) as object) as Record<string, unknown>;
  copies.set(value, copy);
  for (const [key, item] of Object.entries(value)) copy[key] = copyOf(item, copies);
  return copy;
}
