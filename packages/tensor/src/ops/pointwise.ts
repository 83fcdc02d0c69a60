/** @file Operations on elements as the functions and their in-place forms share them: what they take, and factors and exponents of numbers. */
import { isDifferentiable, promoteScalar } from '../dtype.ts';
import { DTypeError } from '../errors.ts';
import { named, type Named } from '../named.ts';
import { checkElement } from '../range.ts';
import { Tensor } from '../tensor.ts';
import { defineOp, type Op } from './define.ts';
import { binary, unary } from './elementwise.ts';
import { applyInPlace } from './inplace.ts';
import type { BinaryName, UnaryName } from './loops.ts';
import { apply } from './op.ts';
import { commonDType, operand, scalar } from './promotion.ts';
import { ALL, check, each, FLOAT, NUMBER, promoted, REAL, REAL_NUMBER, type Takes } from './takes.ts';

type Operand = Tensor | number;

const every = each(ALL);
const real = each(REAL);
const whole = each(REAL_NUMBER);
const countable = each(NUMBER, 'on bool use logicalXor()');

/** What operations take that do not take every dtype. */
const TAKES: Readonly<Partial<Record<BinaryName | UnaryName, Takes>>> = {
  sub: countable,
  floorDivide: promoted(REAL_NUMBER),
  remainder: promoted(REAL_NUMBER),
  pow: promoted(NUMBER),
  maximum: real,
  minimum: real,
  atan2: real,
  lt: real,
  le: real,
  gt: real,
  ge: real,
  neg: each(NUMBER, 'on bool use logicalNot()'),
  abs: each(NUMBER),
  sign: real,
  erf: real,
  relu: whole,
  floor: whole,
  ceil: whole,
  round: whole,
  trunc: whole,
  softplus: each(FLOAT),
  logSigmoid: each(FLOAT),
};

/** The operation on two tensors, which broadcast. */
export function binaryOp(name: BinaryName, torch: string): Op<undefined> {
  return defineOp([name, torch], TAKES[name] ?? every, ([a, b]) => binary(name, a, b));
}

/** The function of each element. */
export function unaryOp(name: UnaryName, torch: string): Op<undefined> {
  return defineOp([name, torch], TAKES[name] ?? every, ([t]) => unary(name, t));
}

/** Its in-place form. */
export function inPlaceUnary(name: UnaryName): (<T extends Tensor>(t: T) => T) & Named {
  const op = unaryOp(name, name);
  return named(`aten::${name}_`, (t) => applyInPlace(op, t, [], undefined));
}

/** The factor of `b` in a sum or difference: integers have no place for fractions of theirs. */
export function checkAlpha(name: 'add' | 'sub', a: Tensor, b: Operand, alpha = 1): number {
  if (name === 'sub') check(name, countable, b instanceof Tensor ? [a, b] : [a]);
  if (Number.isInteger(alpha)) return alpha;
  const met = commonDType([a, operand(b, a)]);
  if (!isDifferentiable(met))
    throw new DTypeError(`${name}() in ${met} takes a whole number for alpha, but got ${alpha}`);
  return alpha;
}

const mulOp = binaryOp('mul', 'mul');

/** alpha b, in the dtype in which it meets `a`: a narrower one may have no place for the product. */
export function scaled(a: Tensor, b: Operand, alpha: number): Operand {
  if (alpha === 1) return b;
  if (typeof b === 'number') return b * alpha;
  const met = commonDType([a, b]);
  return apply(mulOp, [b.dtype === met ? b : b.to(met), scalar(alpha, met)], undefined);
}

/** As PyTorch: integers have no place for what a negative number as exponent gives, nor for an exponent that their dtype does not hold. */
export function checkExponent(a: Tensor, b: Operand): void {
  if (typeof b !== 'number' || !Number.isInteger(b) || isDifferentiable(a.dtype)) return;
  if (b < 0)
    throw new RangeError(`Integers to negative integer powers are not allowed, but got ${a.dtype} to the power ${b}`);
  checkElement(b, promoteScalar(a.dtype, b));
}
