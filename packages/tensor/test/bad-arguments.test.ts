/** @file Every public function, method and class with one bad argument among valid ones: a valid result, or an error of ours that says so. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';
import { memory, ones, Tensor, TensorError, tensor } from '../src/index.ts';
import { collectGarbage } from '../src/device-memory.ts';
import { Generator } from '../src/random.ts';
import { FUNCTIONS, UNTRIED } from './bad-arguments/calls.ts';
import { CLASSES } from './bad-arguments/classes.ts';
import { TRAINING, WEIGHTS } from './bad-arguments/training.ts';

/** What programs without types give by mistake. */
const BAD: readonly (readonly [shown: string, make: () => unknown])[] = [
  ['null', () => null],
  ['undefined', () => undefined],
  ['NaN', () => NaN],
  ['Infinity', () => Infinity],
  ['-1', () => -1],
  ['1.5', () => 1.5],
  ['2 ** 53', () => 2 ** 53],
  ["''", () => ''],
  ["'x'", () => 'x'],
  ['true', () => true],
  ['{}', () => ({})],
  ['[]', () => []],
  ['[null]', () => [null]],
  ["['x']", () => ['x']],
  ['[NaN]', () => [NaN]],
  ['[1.5]', () => [1.5]],
  ['[2 ** 53]', () => [2 ** 53]],
  // eslint-disable-next-line no-sparse-arrays -- an array without an element is what is given
  ['a list with a hole', () => [, 1]],
  ['a function', () => (): number => 1],
  ['a symbol', () => Symbol('symbol')],
  ['a bigint', () => 1n],
  ['a tensor of int64', () => tensor([[1n, 2n, 3n]])],
  ['a tensor of bool', () => tensor([true])],
  ['a tensor of another shape', () => ones([7])],
  ['a sparse tensor', () => ones([2, 3]).toSparse()],
  ['a disposed tensor', disposed],
  ['an object whose getters throw', () => thrower],
  ['a Map', () => new Map()],
  ['an object without a prototype', () => Object.create(null) as unknown],
];

function disposed(): Tensor {
  const t = ones([2, 3]);
  t.dispose();
  return t;
}

const OWN = new Error('thrown by a getter of the program');
const thrower = Object.defineProperties(
  {},
  Object.fromEntries(
    ['length', 'shape', 'dtype', 'then'].map((name) => [
      name,
      {
        get(): never {
          throw OWN;
        },
      },
    ]),
  ),
);

/** What engines say where nobody has looked at an argument. */
const OF_THE_ENGINE = new RegExp(
  [
    'Cannot (read|set|convert|mix|destructure|assign|access|use)',
    'is not (iterable|a function|a constructor|an entry object|extensible)',
    '(undefined|null) is not',
    'Invalid (array|typed array|count|time)',
    'Reduce of empty',
    'call stack',
    'allocation failed',
    'out of bounds of the (buffer|length)',
    'cannot be converted to a BigInt',
  ].join('|'),
);

/** One way to call something: what it is called on is made before. */
interface Subject {
  readonly name: string;
  readonly make: () => (...args: never[]) => unknown;
  readonly args: () => unknown[];
}

function at(path: string): unknown {
  return path.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], bw);
}

type Method = (...args: unknown[]) => unknown;

function subjects(): Subject[] {
  const functions = Object.entries({ ...FUNCTIONS, ...WEIGHTS }).flatMap(([name, args]): Subject[] => {
    const fn = at(name);
    const own: Subject[] = typeof fn === 'function' ? [{ name, make: () => fn as Method, args }] : [];
    if (!isMethod(name)) return own;
    const make = (): Method => {
      const self = args()[0] as Record<string, Method>;
      return (...rest) => self[name]?.(...rest);
    };
    return [...own, { name: `Tensor.${name}`, make, args: () => args().slice(1) }];
  });
  const classes = Object.entries({ ...CLASSES, ...TRAINING }).flatMap(([name, { args, methods }]): Subject[] => {
    const Class = at(name) as new (...args: unknown[]) => Record<string, Method>;
    const made = {
      name: `new ${name}`,
      make:
        (): Method =>
        (...given) =>
          new Class(...given),
      args,
    };
    const called = Object.entries(methods ?? {}).map(([method, own]): Subject => {
      const make = (): Method => {
        const self = new Class(...args());
        return (...given) => self[method]?.(...given);
      };
      return { name: `${name}.${method}`, make, args: own };
    });
    return [made, ...called];
  });
  return [...functions, ...classes];
}

function isMethod(name: string): boolean {
  return typeof Object.getOwnPropertyDescriptor(Tensor.prototype, name)?.value === 'function';
}

/** Tensors in a result, which may be a list or an object of them. */
function tensorsOf(value: unknown, depth = 0): Tensor[] {
  if (value instanceof Tensor) return [value as Tensor];
  if (depth > 2 || typeof value !== 'object' || value === null) return [];
  const plain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  return plain ? Object.values(value).flatMap((one) => tensorsOf(one, depth + 1)) : [];
}

/** What is wrong with how a call ended; undefined where nothing is. */
async function wrongWith(run: Method, args: readonly unknown[]): Promise<string | undefined> {
  let result: unknown;
  try {
    result = await run(...args);
  } catch (error) {
    if (error === OWN) return undefined;
    if (!(error instanceof TypeError || error instanceof RangeError || error instanceof TensorError))
      return `threw ${String(error)}`;
    if (OF_THE_ENGINE.test(error.message)) return `threw what the engine says: ${error.message}`;
    return undefined;
  }
  for (const t of tensorsOf(result)) {
    if (t.disposed || t.sparse !== undefined || args.includes(t)) continue;
    if (!t.shape.every((n) => Number.isInteger(n) && n >= 0)) return `gave the shape [${t.shape.join(', ')}]`;
    const held = t.clone().dataSync().length;
    if (held !== t.size * (t.dtype === 'complex64' ? 2 : 1)) return `gave ${held} elements of [${t.shape.join(', ')}]`;
  }
  return undefined;
}

/** The valid arguments with one of them, or one of its options, replaced. */
function replaced(args: unknown[], i: number, option: string | undefined, bad: unknown): unknown[] {
  const value = option === undefined ? bad : { ...(args[i] as object), [option]: bad };
  return args.map((one, k) => (k === i ? value : one));
}

function optionsIn(value: unknown): string[] {
  const plain = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return plain ? Object.keys(value) : [];
}

let before = 0;
beforeAll(() => {
  before = memory().tensors;
});
afterAll(async () => {
  // What an operation made until it threw goes with its last reference.
  for (let turn = 0; turn < 20 && memory().tensors > before; turn++) {
    await new Promise<void>((resolve) => setTimeout(resolve, 10));
    collectGarbage();
  }
  expect(memory().tensors).toBeLessThanOrEqual(before);
});

const random = new Generator(20_261_128);
/** How many of the bad values are tried in each place. */
const DRAWS = 6;
/** What takes seconds to make by default. */
const LARGE = 'new nn.Transformer';

describe('a bad argument', () => {
  it.each(subjects())('of $name is refused by name, or taken as its types allow', async ({ name, make, args }) => {
    await make()(...(args() as never[]));
    const wrong: string[] = [];
    for (const [i, valid] of args().entries())
      for (const option of [undefined, ...optionsIn(valid)])
        for (const n of random.permutation(BAD.length).subarray(0, DRAWS)) {
          const [shown, bad] = BAD[n] as (typeof BAD)[number];
          if (name === LARGE && shown === 'undefined') continue;
          const run = make() as Method;
          const found = await wrongWith(run, replaced(args(), i, option, bad()));
          if (found !== undefined) wrong.push(`${shown} as ${option ?? `argument ${i + 1}`}: ${found}`);
        }
    expect(wrong).toEqual([]);
  });

  it('is tried of all that is public', () => {
    const known = new Set([
      ...Object.keys(FUNCTIONS),
      ...Object.keys(CLASSES),
      ...UNTRIED,
      ...Object.keys(TRAINING),
      ...Object.keys(WEIGHTS),
    ]);
    const names = (prefix: string, values: object): string[] =>
      Object.entries(values).flatMap(([name, value]) => (typeof value === 'function' ? [`${prefix}${name}`] : []));
    const all = [
      ...names('', bw),
      ...(['nn', 'optim', 'data', 'distributions', 'sparse'] as const).flatMap((part) => names(`${part}.`, bw[part])),
      ...names('nn.init.', bw.nn.init),
      ...names('nn.utils.', bw.nn.utils),
      ...names('optim.lrScheduler.', bw.optim.lrScheduler),
      ...Object.getOwnPropertyNames(Tensor.prototype).filter(isMethod),
    ];
    expect(all.filter((name) => !known.has(name))).toEqual([]);
  });
});
