/** @file Functions of each element. */
import { named, type Named } from '../named.ts';
import type { Tensor } from '../tensor.ts';
import type { UnaryName } from './loops.ts';
import { apply } from './op.ts';
import { unaryOp } from './pointwise.ts';

function define(name: UnaryName, torch: string): ((t: Tensor) => Tensor) & Named {
  const op = unaryOp(name, torch);
  return named(`aten::${torch}`, (t: Tensor) => apply(op, [t], undefined));
}

/** -x. */
export const neg = define('neg', 'neg');
/** The size of each element; of a complex one its distance from zero. */
export const abs = define('abs', 'abs');
/** -1, 0 or 1. */
export const sign = define('sign', 'sign');
/** e to the power x. */
export const exp = define('exp', 'exp');
/** exp(x) - 1, exact near zero. */
export const expm1 = define('expm1', 'expm1');
/** The natural logarithm; NaN below zero. */
export const log = define('log', 'log');
/** log(1 + x), exact near zero. */
export const log1p = define('log1p', 'log1p');
/** The logarithm to base 2. */
export const log2 = define('log2', 'log2');
/** The square root; NaN below zero. */
export const sqrt = define('sqrt', 'sqrt');
/** 1 / sqrt(x). */
export const rsqrt = define('rsqrt', 'rsqrt');
/** x squared. */
export const square = define('square', 'square');
/** 1 / x. */
export const reciprocal = define('reciprocal', 'reciprocal');
/** max(x, 0). */
export const relu = define('relu', 'relu');
/** 1 / (1 + exp(-x)). */
export const sigmoid = define('sigmoid', 'sigmoid');
/** The hyperbolic tangent. */
export const tanh = define('tanh', 'tanh');
/** The sine; x is in radians. */
export const sin = define('sin', 'sin');
/** The cosine; x is in radians. */
export const cos = define('cos', 'cos');
/** The tangent; x is in radians. */
export const tan = define('tan', 'tan');
/** The arc sine, in radians; NaN beyond -1 and 1. */
export const asin = define('asin', 'asin');
/** The arc cosine, in radians; NaN beyond -1 and 1. */
export const acos = define('acos', 'acos');
/** The arc tangent, in radians. */
export const atan = define('atan', 'atan');
/** The hyperbolic sine. */
export const sinh = define('sinh', 'sinh');
/** The hyperbolic cosine. */
export const cosh = define('cosh', 'cosh');
/** The inverse of sinh. */
export const asinh = define('asinh', 'asinh');
/** The inverse of cosh; NaN below 1. */
export const acosh = define('acosh', 'acosh');
/** The inverse of tanh; NaN beyond -1 and 1. */
export const atanh = define('atanh', 'atanh');
/** The error function. */
export const erf = define('erf', 'erf');
/** log(1 + exp(x)), linear above 20. */
export const softplus = define('softplus', 'softplus');
/** log(sigmoid(x)). */
export const logSigmoid = define('logSigmoid', 'log_sigmoid');
/** Rounded down. */
export const floor = define('floor', 'floor');
/** Rounded up. */
export const ceil = define('ceil', 'ceil');
/** Halves go to the even neighbour. */
export const round = define('round', 'round');
/** Rounded towards zero. */
export const trunc = define('trunc', 'trunc');
/** Whether an element is zero: bool. */
export const logicalNot = define('logicalNot', 'logical_not');
/** Whether an element is NaN: bool. */
export const isNaN = define('isNaN', 'isnan');
/** Whether an element is infinite: bool. */
export const isInf = define('isInf', 'isinf');
/** Whether an element is neither infinite nor NaN: bool. */
export const isFinite = define('isFinite', 'isfinite');
