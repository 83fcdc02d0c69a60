/** @file Arithmetic, comparison and functions of each element. */
import type { Arg, Ref } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { fn, method, type Form, type Operation } from '../draw/operation.ts';
import { DTYPES } from '../dtypes.ts';

/** Two tensors that broadcast; the second is of another dtype now and then, or without dimensions. */
export function pair(draw: Draw): [Ref, Ref] {
  const [a, b] = draw.broadcast(2) as [number[], number[]];
  const shape = draw.random.chance(0.08) ? [] : b;
  const other = draw.random.chance(0.2) ? { dtype: draw.random.pick(DTYPES) } : {};
  return [draw.tensor(a), draw.tensor(shape, other)];
}

function withNumber(draw: Draw): [Ref, number] {
  return [
    draw.tensor(draw.shape()),
    draw.random.chance(0.06) ? draw.random.pick([Infinity, -Infinity, NaN, 1e10, -300]) : draw.number(),
  ];
}

const both = (name: string, takes: number): Form[] => [method(name, takes), fn(name, takes)];

const rounded = ['add', 'sub', 'mul', 'div', 'pow', 'atan2', 'remainder', 'floorDivide'];
const exact = ['maximum', 'minimum', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'logicalAnd', 'logicalOr', 'logicalXor'];
/** Those that take a number in PyTorch as well. */
const numeric = ['add', 'sub', 'mul', 'div', 'pow', 'remainder', 'floorDivide', 'eq', 'ne', 'lt', 'le', 'gt', 'ge'];

const binary: Operation[] = [...rounded, ...exact].map((name) => ({
  name,
  forms: both(name, 2),
  rounding: rounded.includes(name) ? 'once' : 'never',
  draw: pair,
  weight: 2,
}));

const binaryNumber: Operation[] = numeric.map((name) => ({
  name: `${name} number`,
  forms: both(name, 2),
  rounding: rounded.includes(name) ? 'once' : 'never',
  draw: withNumber,
}));

const alphas: Operation[] = ['add', 'sub'].map((name) => ({
  name: `${name} alpha`,
  forms: [{ ts: `$0.${name}($1, { alpha: $2 })`, py: `$0.${name}($1, alpha=$2)` }],
  rounding: 'sums',
  draw: (draw): Arg[] => [...pair(draw), draw.random.pick([2, -1, 0.5, 0, 1, 3])],
}));

const UNARY = [
  ...['neg', 'abs', 'sign', 'exp', 'expm1', 'log', 'log1p', 'log2', 'sqrt', 'rsqrt', 'square', 'reciprocal', 'relu'],
  ...['sigmoid', 'tanh', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'asinh', 'acosh', 'atanh', 'erf'],
  ...['floor', 'ceil', 'round', 'trunc', 'logicalNot', 'isNaN', 'isInf', 'isFinite'],
];

const unary: Operation[] = UNARY.map((name) => ({
  name,
  forms: both(name, 1),
  rounding: 'once',
  draw: (draw) => [draw.tensor(draw.shape())],
}));

/** What PyTorch has in its functional module only. */
const functional: Operation[] = [
  ['softplus', 'F.softplus($0)'],
  ['logSigmoid', 'F.logsigmoid($0)'],
].map(([name, py]) => ({
  name: name as string,
  forms: [`$0.${name}()`, `bw.${name}($0)`].map((ts) => ({ ts, py: py as string })),
  rounding: 'once',
  draw: (draw) => [draw.tensor(draw.shape())],
}));

const choosing: Operation[] = [
  {
    name: 'clamp',
    forms: both('clamp', 3),
    rounding: 'never',
    draw: (draw) => {
      const bound = (): number | undefined => (draw.random.chance(0.3) ? undefined : draw.number());
      const [low, high] = [bound(), bound()];
      return [draw.tensor(draw.shape()), low, low === undefined && high === undefined ? 1 : high];
    },
    weight: 2,
  },
  {
    name: 'where',
    forms: [fn('where', 3)],
    rounding: 'never',
    draw: (draw) => {
      const [c, a, b] = draw.broadcast(3) as [number[], number[], number[]];
      const mask = draw.tensor(c, { dtype: draw.mishap() ? draw.dtype : 'bool', style: 'whole' });
      const side = (shape: number[]): Arg =>
        draw.random.chance(0.15)
          ? draw.number()
          : draw.tensor(shape, draw.random.chance(0.15) ? { dtype: draw.random.pick(DTYPES) } : {});
      return [mask, draw.tensor(a), side(b)];
    },
    weight: 2,
  },
  {
    name: 'maskedFill',
    forms: both('maskedFill', 3),
    rounding: 'never',
    draw: (draw) => {
      const [a, m] = draw.broadcast(2) as [number[], number[]];
      const value = draw.random.chance(0.2) ? -Infinity : draw.number();
      return [draw.tensor(a), draw.tensor(m, { dtype: draw.mishap() ? draw.dtype : 'bool' }), value];
    },
  },
  {
    name: 'maskedSelect',
    forms: both('maskedSelect', 2),
    rounding: 'never',
    draw: (draw) => {
      const [a, m] = draw.broadcast(2) as [number[], number[]];
      return [draw.tensor(a), draw.tensor(m, { dtype: 'bool' })];
    },
  },
  {
    name: 'lerp',
    forms: both('lerp', 3),
    rounding: 'sums',
    draw: (draw) => {
      const [a, b, w] = draw.broadcast(3) as [number[], number[], number[]];
      return [draw.tensor(a), draw.tensor(b), draw.random.chance(0.5) ? draw.number() : draw.tensor(w)];
    },
  },
];

export const arithmetic: readonly Operation[] = [
  ...binary,
  ...binaryNumber,
  ...alphas,
  ...unary,
  ...functional,
  ...choosing,
];
