/** @file What tells an RRef from everything else, whichever installed copy of this package made it. */

export const BRAND = Symbol.for('backwire.rref.handle');

/** Whether `value` is an RRef. */
export function isHandle(value: unknown): value is object {
  return typeof value === 'object' && value !== null && BRAND in value;
}
