/** @file What a wrong argument is, in words. */

/** 'a Promise: await it', 'a list', 'an object of class Linear', 'the text 'x'' …, short enough for a message. */
export function kindOf(value: unknown): string {
  if (typeof value === 'string') return `the text '${value.slice(0, 40)}'`;
  if (typeof value === 'function') return `function ${value.name}`;
  if (typeof value === 'bigint') return `the bigint ${value}`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (typeof (value as { then?: unknown }).then === 'function') return 'a Promise: await it';
  if (Array.isArray(value)) return 'a list';
  const { name = 'none' } = (value.constructor ?? {}) as { name?: string };
  return name === 'Object'
    ? `an object with ${Object.keys(value).slice(0, 4).join(', ') || 'nothing'}`
    : `an object of class ${name}`;
}

/** @throws TypeError for what has no number as its `length`. */
export function checkSized(value: unknown, what: string): void {
  const length = (value as { length?: unknown } | null | undefined)?.length;
  if (typeof length !== 'number') throw new TypeError(`${what} is something with a length, got ${kindOf(value)}`);
}

/** @throws TypeError for what cannot be gone through. */
export function checkIterable(value: unknown, what: string): void {
  if (typeof (value as Iterable<unknown> | null | undefined)?.[Symbol.iterator] !== 'function')
    throw new TypeError(`${what} is a list, or something else that is iterable; got ${kindOf(value)}`);
}

/** @throws TypeError for what cannot be called. */
export function checkFunction(name: string, fn: unknown): void {
  if (typeof fn !== 'function') throw new TypeError(`${name}() takes a function, got ${kindOf(fn)}`);
}

/** @throws TypeError for what can have no options in it. */
export function checkGivenOptions(what: string, options: unknown): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`${what}: options are an object, got ${kindOf(options)}`);
}
