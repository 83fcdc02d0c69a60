/** @file What programs without types give by mistake, and how it shows that nobody has looked at it. */
import { ones } from '../../src/index.ts';

/** A wrong value, new each time. */
export type Bad = readonly [shown: string, make: () => unknown];

export const BAD: readonly Bad[] = [
  ['null', () => null],
  ['undefined', () => undefined],
  ['NaN', () => NaN],
  ['Infinity', () => Infinity],
  ['-1', () => -1],
  ['1.5', () => 1.5],
  ['1e12', () => 1e12],
  ['2 ** 53', () => 2 ** 53],
  ["''", () => ''],
  ["'x'", () => 'x'],
  ['true', () => true],
  ['{}', () => ({})],
  ['[]', () => []],
  ['[null]', () => [null]],
  ["['x']", () => ['x']],
  ['[NaN]', () => [NaN]],
  // eslint-disable-next-line no-sparse-arrays -- an array without an element is what is given
  ['a list with a hole', () => [, 1]],
  ['a function', () => (): number => 1],
  ['a symbol', () => Symbol('symbol')],
  ['a bigint', () => 1n],
  ['a tensor', () => ones([7])],
  ['a disposed tensor', disposed],
  ['a sparse tensor', () => ones([2]).toSparse()],
  ['a Map', () => new Map()],
  ['an object without a prototype', () => Object.create(null) as unknown],
  ['a promise', () => Promise.resolve(1)],
  ['an object whose properties throw', () => thrower],
];

function disposed(): unknown {
  const t = ones([2]);
  t.dispose();
  return t;
}

/** What the program's own object throws is passed on. */
export const OWN = new Error('thrown by a property of the program');
const thrower = new Proxy(
  {},
  {
    get(): never {
      throw OWN;
    },
  },
);

/** What engines, Node and its libraries say where nobody has looked at an argument. */
export const OF_THE_ENGINE = new RegExp(
  [
    'Cannot (read|set|convert|mix|destructure|assign|access|use)',
    'is not (iterable|a function|a constructor|an entry object|extensible)',
    '(undefined|null) is not',
    'Invalid (array|typed array|count|time)',
    'Reduce of empty',
    'call stack',
    'cannot be converted to a BigInt',
    'must be of type',
    'Function.prototype.apply',
    String.raw`\[object Object\]`,
  ].join('|'),
);
