/** @file What tests expect of an error: its class and its fields, such as a code, besides its words. */

/** Fields of an error: of `message` a part or a pattern, of objects the fields that count or a matcher (of a `cause`, say), of all others the values. */
type ErrorFields<E extends Error> = { readonly message: string | RegExp } & {
  readonly [K in Exclude<keyof E, 'message'>]?: unknown;
};

/** A matcher that Vitest takes wherever a value is expected: in `toThrow`, `toEqual`, and inside of other values. */
export interface ErrorMatcher {
  /** By which what prints a difference knows it. */
  readonly $$typeof: symbol;
  asymmetricMatch(error: unknown): boolean;
  toAsymmetricMatcher(): string;
}

/**
 * Matches errors of exactly this class with these fields: `toThrow(errorMatching(RpcError, { code: 'not-found', message: 'no worker' }))`.
 * Where the words are known exactly, `toThrow(new RangeError('all of them'))` does.
 */
export function errorMatching<E extends Error>(
  type: abstract new (...args: never[]) => E,
  fields: ErrorFields<E>,
): ErrorMatcher {
  const { message, ...rest } = fields;
  return {
    $$typeof: Symbol.for('jest.asymmetricMatcher'),
    asymmetricMatch(error) {
      if (!(error instanceof type) || error.constructor !== type) return false;
      const said = typeof message === 'string' ? error.message.includes(message) : message.test(error.message);
      return said && includes(error, rest);
    },
    toAsymmetricMatcher: () => {
      const shown = Object.entries(rest).map(([name, value]) => `, ${name}: ${JSON.stringify(value)}`);
      return `${type.name} { message: ${typeof message === 'string' ? JSON.stringify(message) : message}${shown.join('')} }`;
    },
  };
}

function isMatcher(part: object): part is ErrorMatcher {
  return typeof (part as Partial<ErrorMatcher>).asymmetricMatch === 'function';
}

/** Whether `value` has all that `part` has; a matcher in it is asked. */
function includes(value: unknown, part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return Object.is(value, part);
  if (isMatcher(part)) return part.asymmetricMatch(value);
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(part).every(([name, inner]) => includes((value as Record<string, unknown>)[name], inner));
}
