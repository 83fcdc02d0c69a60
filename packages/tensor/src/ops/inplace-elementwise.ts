/** @file In-place forms of operations on each element by itself: copy_, add_, mul_, zero_, fill_ and their relatives. */
import { checkFill } from '../range.ts';
import { cast } from '../dtype.ts';
import { fromArray, rawView, readArray } from '../host.ts';
import { named } from '../named.ts';
import { broadcastShapes, expandStrides, sameShape } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { takesExact } from './elementwise.ts';
import { defineOp } from './define.ts';
import { applyInPlace, type InPlaceOptions } from './inplace.ts';
import { binaryOp, checkAlpha, checkExponent, inPlaceUnary, scaled } from './pointwise.ts';
import { exactOperand, operand, scalar } from './promotion.ts';
import { ALL, each } from './takes.ts';
import { checkOptionNames } from '../option-names.ts';

const ALPHA: ReadonlySet<string> = new Set(['alpha']);

type Operand = Tensor | number;

const copyOp = defineOp('copy', each(ALL), ([t, source]) => copied(t, source));
const fillOp = defineOp(['copy', 'fill'], each(ALL), ([t, value]) => copied(t, value));
const zeroOp = defineOp(['copy', 'zero'], each(ALL), fillOp.forward);

/** `from` in the shape that both broadcast to, and in the dtype of `target`. */
function copied(target: Tensor, from: Tensor): Tensor {
  // That of the target, or the caller refuses.
  const shape = broadcastShapes(target.shape, from.shape);
  // Still a view of the source: the write notices when both share memory.
  const wide = rawView(from, shape, expandStrides(from.shape, from.strides, shape), from.offset);
  if (from.dtype === target.dtype) return wide;
  return fromArray(cast(readArray(wide), from.dtype, target.dtype), target.dtype, shape);
}

/** Whether `a` and `b` are the same elements in the same order. */
function isSameView(a: Tensor, b: Tensor): boolean {
  if (a.sparse !== undefined || b.sparse !== undefined) return false;
  if (a.storage !== b.storage || a.dtype !== b.dtype || a.offset !== b.offset) return false;
  return sameShape(a.shape, b.shape) && sameShape(a.strides, b.strides);
}

/** Writes `source`, broadcast and converted, into `t`; `t` itself is there already, also where several elements are one place. */
export const copy_ = named('aten::copy_', <T extends Tensor>(t: T, source: Tensor): T =>
  applyInPlace(copyOp, t, [source.sparse === undefined ? source : source.toDense()], undefined, {
    uniform: isSameView(t, source),
  }),
);

/** Sets every element to `value`. */
export const fill_ = named('aten::fill_', <T extends Tensor>(t: T, value: number): T => {
  checkFill(value, t.dtype);
  return applyInPlace(fillOp, t, [scalar(value, t.dtype)], undefined, { uniform: true });
});

/** Sets every element to zero. */
export const zero_ = named('aten::zero_', <T extends Tensor>(t: T): T =>
  applyInPlace(zeroOp, t, [scalar(0, t.dtype)], undefined, { uniform: true }),
);

const addOp = binaryOp('add', 'add');
const subOp = binaryOp('sub', 'sub');
const mulOp = binaryOp('mul', 'mul');
const divOp = binaryOp('div', 'div');
const powOp = binaryOp('pow', 'pow');

function other(b: Operand, t: Tensor, exact = false): Tensor {
  if (b instanceof Tensor && b.sparse !== undefined) return b.toDense();
  return exact ? exactOperand(b, t) : operand(b, t);
}

/** alpha b as the operand of an operation that changes `t`. */
function addend(name: 'add' | 'sub', t: Tensor, b: Operand, alpha = 1): Tensor {
  if (alpha === 1) return other(b, t);
  const dense = typeof b === 'number' ? b : other(b, t);
  return other(scaled(t, dense, checkAlpha(name, t, dense, alpha)), t);
}

/** Scaling makes another tensor of an operand that may lie in the memory that changes. */
function asGiven(b: Operand, alpha = 1): InPlaceOptions | undefined {
  return typeof b === 'number' || alpha === 1 ? undefined : { given: b };
}

function alphaIn(options: { alpha?: number } | undefined): number | undefined {
  if (options !== undefined) checkOptionNames(options, ALPHA, 'add_() and sub_()');
  return options?.alpha;
}

/** t += alpha b; b may be sparse. */
export const add_ = named('aten::add_', <T extends Tensor>(t: T, b: Operand, options?: { alpha?: number }): T =>
  applyInPlace(addOp, t, [addend('add', t, b, alphaIn(options))], undefined, asGiven(b, options?.alpha)),
);
/** t -= alpha b. */
export const sub_ = named('aten::sub_', <T extends Tensor>(t: T, b: Operand, options?: { alpha?: number }): T =>
  applyInPlace(subOp, t, [addend('sub', t, b, alphaIn(options))], undefined, asGiven(b, options?.alpha)),
);
export const mul_ = named('aten::mul_', <T extends Tensor>(t: T, b: Operand): T =>
  applyInPlace(mulOp, t, [other(b, t, takesExact('mul', t, b))], undefined),
);
export const div_ = named('aten::div_', <T extends Tensor>(t: T, b: Operand): T =>
  applyInPlace(divOp, t, [other(b, t, takesExact('div', t, b))], undefined),
);
export const pow_ = named('aten::pow_', <T extends Tensor>(t: T, b: Operand): T => {
  checkExponent(t, b);
  return applyInPlace(powOp, t, [other(b, t)], undefined);
});

export const neg_ = inPlaceUnary('neg');
export const exp_ = inPlaceUnary('exp');
export const sqrt_ = inPlaceUnary('sqrt');
export const relu_ = inPlaceUnary('relu');
export const sigmoid_ = inPlaceUnary('sigmoid');
export const tanh_ = inPlaceUnary('tanh');
