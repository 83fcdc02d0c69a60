/** @file What was given, in words: for messages that say that it is wrong. */

/** A wrong value, short enough for a message. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, 40)}'`;
  if (typeof value === 'function') return value.name === '' ? 'an anonymous function' : `function '${value.name}'`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return 'a list';
  const name = value.constructor?.name ?? 'none';
  // Promises, generators and the like, whose classes have no name or say nothing.
  const kind = /^\[object (\w+)\]$/.exec(Object.prototype.toString.call(value))?.[1] ?? 'Object';
  return name === '' || kind === 'Promise' ? `a ${kind}` : `an object of class ${name}`;
}

/** As `show`, but of a text the text itself: as it stands in messages whose words are PyTorch's. */
export function bare(value: unknown): string {
  return typeof value === 'string' ? value : show(value);
}
