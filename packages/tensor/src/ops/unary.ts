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

export const neg = define('neg', 'neg');
export const abs = define('abs', 'abs');
export const sign = define('sign', 'sign');
export const exp = define('exp', 'exp');
export const expm1 = define('expm1', 'expm1');
export const log = define('log', 'log');
export const log1p = define('log1p', 'log1p');
export const log2 = define('log2', 'log2');
export const sqrt = define('sqrt', 'sqrt');
export const rsqrt = define('rsqrt', 'rsqrt');
export const square = define('square', 'square');
export const reciprocal = define('reciprocal', 'reciprocal');
export const relu = define('relu', 'relu');
export const sigmoid = define('sigmoid', 'sigmoid');
export const tanh = define('tanh', 'tanh');
export const sin = define('sin', 'sin');
export const cos = define('cos', 'cos');
export const tan = define('tan', 'tan');
export const asin = define('asin', 'asin');
export const acos = define('acos', 'acos');
export const atan = define('atan', 'atan');
export const sinh = define('sinh', 'sinh');
export const cosh = define('cosh', 'cosh');
export const asinh = define('asinh', 'asinh');
export const acosh = define('acosh', 'acosh');
export const atanh = define('atanh', 'atanh');
export const erf = define('erf', 'erf');
/** log(1 + exp(x)), linear above 20. */
export const softplus = define('softplus', 'softplus');
export const logSigmoid = define('logSigmoid', 'log_sigmoid');
export const floor = define('floor', 'floor');
export const ceil = define('ceil', 'ceil');
/** Halves go to the even neighbour. */
export const round = define('round', 'round');
export const trunc = define('trunc', 'trunc');
export const logicalNot = define('logicalNot', 'logical_not');
export const isNaN = define('isNaN', 'isnan');
export const isInf = define('isInf', 'isinf');
export const isFinite = define('isFinite', 'isfinite');
