/** @file What a wrong argument is, in words. */

/** 'a Promise: await it', 'a list', 'an object of class Linear', 'the text 'x'' …, short enough for a message. */
export function kindOf(value: unknown): string {
  if (typeof value === 'string') return `the text '${value.slice(0, 40)}'`;
  if (typeof value === 'function') return `function ${value.name}`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (typeof (value as { then?: unknown }).then === 'function') return 'a Promise: await it';
  if (Array.isArray(value)) return 'a list';
  const { name = 'none' } = (value.constructor ?? {}) as { name?: string };
  return name === 'Object'
    ? `an object with ${Object.keys(value).slice(0, 4).join(', ') || 'nothing'}`
    : `an object of class ${name}`;
}
