/** @file What Python takes as a key of a dict and as an item of a set: an object that it can hash. */
import { PyByteArray, PyDeque, PyFrozenSet, PyTuple, fill } from '../values/containers.ts';

/** Python's name for what is in `value`, or is it, and has no hash; undefined: all of it has one. */
export function unhashable(value: unknown): string | undefined {
  const open: unknown[] = [value];
  const seen = new Set<unknown>();
  for (const each of open) {
    if (typeof each !== 'object' || each === null) continue;
    if (!(each instanceof PyTuple)) {
      const name = kindOf(each);
      if (name !== undefined) return name;
    } else if (!seen.has(each)) {
      // A tuple has the hash of its items. The same one may be in there as often as it likes.
      seen.add(each);
      fill(open, each);
    }
  }
  return undefined;
}

function kindOf(value: object): string | undefined {
  if (value instanceof PyDeque) return 'deque';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map || isPlain(value)) return 'dict';
  if (value instanceof Set) return value instanceof PyFrozenSet ? undefined : 'set';
  return value instanceof PyByteArray ? 'bytearray' : undefined;
}

/** An object of no class of its own, which is a dict. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
