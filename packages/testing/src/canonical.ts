/** @file One text for equal plain data: keys sorted, maps and sets without their insertion order. */

/**
 * A canonical text of plain data: null, booleans, numbers, bigints, strings, undefined, lists, objects, maps, sets and bytes.
 * Objects, maps and sets are compared without order; lists with it.
 *
 * @throws TypeError for functions, symbols and instances of classes, whose state it could not see
 */
export function canonical(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    case 'bigint':
      return `${value}n`;
    case 'boolean':
    case 'undefined':
      return String(value);
    case 'object':
      return value === null ? 'null' : ofObject(value);
    case 'function':
    case 'symbol':
      throw new TypeError(`a ${typeof value} is not plain data`);
  }
}

function ofObject(value: object): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value instanceof Map) {
    const entries = [...(value as Map<unknown, unknown>)].map(([key, item]) => `${canonical(key)}=>${canonical(item)}`);
    return `M{${entries.sort().join()}}`;
  }
  if (value instanceof Set) return `S{${[...(value as Set<unknown>)].map(canonical).sort().join()}}`;
  if (value instanceof Uint8Array) return `B<${value.join()}>`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TypeError(`an instance of ${value.constructor.name} is not plain data`);
  }
  const keys = Object.keys(value).sort();
  const table = value as Record<string, unknown>;
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(table[key])}`).join()}}`;
}
