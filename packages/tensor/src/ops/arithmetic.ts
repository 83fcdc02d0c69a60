/** @file Arithmetic and comparison of two tensors. */
import { ambient } from '../ambient.ts';
import { isDifferentiable } from '../dtype.ts';
import { named } from '../named.ts';
import { addSparse, mulSparse } from '../sparse/arithmetic.ts';
import { Tensor } from '../tensor.ts';
import { complexProduct, complexQuotient } from './complex-parts.ts';
import { defineOp } from './define.ts';
import { binary, takesExact } from './elementwise.ts';
import type { BinaryName } from './loops.ts';
import { apply } from './op.ts';
import { exactOperand, operand } from './promotion.ts';
import { inFloat32, isHalf } from './widen.ts';

type Operand = Tensor | number;

function define(name: BinaryName, torch: string): (a: Tensor, b: Operand) => Tensor {
  const op = defineOp(name, torch, ([a, b]) => binary(name, a as Tensor, b as Tensor));
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
  const alpha = options?.alpha ?? 1;
  if (a.sparse !== undefined || (b instanceof Tensor && b.sparse !== undefined)) return addSparse(a, b, alpha);
  return addDense(a, scaled(b, alpha));
});

/** a - alpha b. */
export const sub = named('aten::sub', (a: Tensor, b: Operand, options?: { alpha?: number }): Tensor => {
  const alpha = options?.alpha ?? 1;
  if (a.sparse !== undefined || (b instanceof Tensor && b.sparse !== undefined)) return addSparse(a, b, -alpha);
  return subDense(a, scaled(b, alpha));
});

/** Element by element. A sparse tensor may be multiplied by a number. */
export const mul = named('aten::mul', (a: Tensor, b: Operand): Tensor => {
  if (a.sparse !== undefined) return mulSparse(a, b);
  if (b instanceof Tensor && b.sparse !== undefined) return mulSparse(b, a);
  if (isComplex(a, b) && wantsGradient(a, b)) return complexProduct(a, operand(b, a), (x, y) => x.mul(y));
  return mulDense(a, b);
});

const divDense = define('div', 'div');

/** True division: integers give float32. */
export const div = named('aten::div', (a: Tensor, b: Operand): Tensor => {
  if (a.sparse !== undefined && typeof b === 'number') return mulSparse(a, 1 / b);
  if (isComplex(a, b) && wantsGradient(a, b)) return complexQuotient(a, operand(b, a));
  return divDense(a, b);
});

function isComplex(a: Tensor, b: Operand): boolean {
  return a.dtype === 'complex64' || (b instanceof Tensor && b.dtype === 'complex64');
}

/** The rules of real derivatives do not conjugate: complex products are recorded by their parts. */
function wantsGradient(a: Tensor, b: Operand): boolean {
  return ambient().gradMode && (a.requiresGrad || (b instanceof Tensor && b.requiresGrad));
}

function scaled(b: Operand, alpha: number): Operand {
  if (alpha === 1) return b;
  return typeof b === 'number' ? b * alpha : mulDense(b, alpha);
}

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

/** As PyTorch: integers have no place for what a negative number as exponent gives. */
export function checkExponent(a: Tensor, b: Operand): void {
  if (typeof b === 'number' && b < 0 && Number.isInteger(b) && !isDifferentiable(a.dtype))
    throw new RangeError(`Integers to negative integer powers are not allowed, but got ${a.dtype} to the power ${b}`);
}

/** The larger; NaN where either is. Ties share the gradient. */
export const maximum = named('aten::maximum', define('maximum', 'maximum'));
/** The smaller; NaN where either is. Ties share the gradient. */
export const minimum = named('aten::minimum', define('minimum', 'minimum'));
export const atan2 = named('aten::atan2', define('atan2', 'atan2'));
export const eq = named('aten::eq', define('eq', 'eq'));
export const ne = named('aten::ne', define('ne', 'ne'));
export const lt = named('aten::lt', define('lt', 'lt'));
export const le = named('aten::le', define('le', 'le'));
export const gt = named('aten::gt', define('gt', 'gt'));
export const ge = named('aten::ge', define('ge', 'ge'));
export const logicalAnd = named('aten::logical_and', define('logicalAnd', 'logical_and'));
export const logicalOr = named('aten::logical_or', define('logicalOr', 'logical_or'));
export const logicalXor = named('aten::logical_xor', define('logicalXor', 'logical_xor'));
