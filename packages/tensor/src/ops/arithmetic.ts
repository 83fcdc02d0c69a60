/** @file Arithmetic and comparison of two tensors. */
import { named } from '../named.ts';
import { addSparse, divSparse, mulSparse } from './sparse/arithmetic.ts';
import { Tensor } from '../tensor.ts';
import { takesExact } from './elementwise.ts';
import type { BinaryName } from './loops.ts';
import { apply } from './op.ts';
import { binaryOp, checkAlpha, checkExponent, scaled } from './pointwise.ts';
import { exactOperand, operand } from './promotion.ts';
import { isHalf } from '../precision.ts';
import { inFloat32 } from './widen.ts';
import { checkOptionNames } from '../option-names.ts';

const ALPHA: ReadonlySet<string> = new Set(['alpha']);

type Operand = Tensor | number;

function define(name: BinaryName, torch: string): (a: Tensor, b: Operand) => Tensor {
  const op = binaryOp(name, torch);
  return (a, b) => {
    if (!takesExact(name, a, b)) return apply(op, [a, operand(b, a)], undefined);
    if (a.rank > 0 || !isHalf(a.dtype)) return apply(op, [a, exactOperand(b, a)], undefined);
    // Without dimensions nothing else keeps the result in half precision.
    return inFloat32(a, (x) => apply(op, [x, exactOperand(b, x)], undefined));
  };
}

const addDense = define('add', 'add');
const subDense = define('sub', 'sub');
const mulDense = define('mul', 'mul');

/** a + alpha b. Sparse operands of equal size add to a sparse tensor, sparse with dense to a dense one. */
export const add = named('aten::add', (a: Tensor, b: Operand, options?: { alpha?: number }): Tensor => {
  if (options !== undefined) checkOptionNames(options, ALPHA, 'add()');
  const alpha = checkAlpha('add', a, b, options?.alpha);
  if (a.sparse !== undefined || (b instanceof Tensor && b.sparse !== undefined)) return addSparse(a, b, alpha);
  return addDense(a, scaled(a, b, alpha));
});

/** a - alpha b. */
export const sub = named('aten::sub', (a: Tensor, b: Operand, options?: { alpha?: number }): Tensor => {
  if (options !== undefined) checkOptionNames(options, ALPHA, 'sub()');
  const alpha = checkAlpha('sub', a, b, options?.alpha);
  if (a.sparse !== undefined || (b instanceof Tensor && b.sparse !== undefined)) return addSparse(a, b, -alpha);
  return subDense(a, scaled(a, b, alpha));
});

/** Element by element. A sparse tensor may be multiplied by a number, and by a dense or sparse tensor that broadcasts to its shape. */
export const mul = named('aten::mul', (a: Tensor, b: Operand): Tensor => {
  if (a.sparse !== undefined) return mulSparse(a, b);
  if (b instanceof Tensor && b.sparse !== undefined) return mulSparse(b, a);
  return mulDense(a, b);
});

const divDense = define('div', 'div');

/** True division: integers give float32. A sparse tensor is divided by a number or by a tensor without dimensions. */
export const div = named('aten::div', (a: Tensor, b: Operand): Tensor => {
  if (a.sparse !== undefined) return divSparse(a, b);
  return divDense(a, b);
});

/** Division rounded down. */
export const floorDivide = named('aten::floor_divide', define('floorDivide', 'floor_divide'));
/** a - b floor(a / b): the sign of b. */
export const remainder = named('aten::remainder', define('remainder', 'remainder'));
const powDense = define('pow', 'pow');
/** a to the power b. Throws RangeError for integers to a negative whole power. */
export const pow = named('aten::pow', (a: Tensor, b: Operand): Tensor => {
  checkExponent(a, b);
  return powDense(a, b);
});

/** The larger; NaN where either is. Ties share the gradient. */
export const maximum = named('aten::maximum', define('maximum', 'maximum'));
/** The smaller; NaN where either is. Ties share the gradient. */
export const minimum = named('aten::minimum', define('minimum', 'minimum'));
/** The angle of the point (b, a), between -π and π. */
export const atan2 = named('aten::atan2', define('atan2', 'atan2'));
/** Whether a equals b, element by element: bool. NaN equals nothing. */
export const eq = named('aten::eq', define('eq', 'eq'));
/** Whether a differs from b: bool. */
export const ne = named('aten::ne', define('ne', 'ne'));
/** Whether a is less than b: bool. */
export const lt = named('aten::lt', define('lt', 'lt'));
/** Whether a is at most b: bool. */
export const le = named('aten::le', define('le', 'le'));
/** Whether a is more than b: bool. */
export const gt = named('aten::gt', define('gt', 'gt'));
/** Whether a is at least b: bool. */
export const ge = named('aten::ge', define('ge', 'ge'));
/** Whether both are other than zero: bool. */
export const logicalAnd = named('aten::logical_and', define('logicalAnd', 'logical_and'));
/** Whether one is other than zero: bool. */
export const logicalOr = named('aten::logical_or', define('logicalOr', 'logical_or'));
/** Whether just one is other than zero: bool. */
export const logicalXor = named('aten::logical_xor', define('logicalXor', 'logical_xor'));
