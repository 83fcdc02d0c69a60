/** @file Operations on the bits of integers and on bool. */
import { cast, type DType } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import { named, type Named } from '../named.ts';
import { broadcastShapes, sameShape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { commonDType, operand } from './promotion.ts';
import { BOOL, promoted, setOf, union } from './takes.ts';

const INTEGER = setOf('int8', 'uint8', 'int16', 'int32', 'int64');
const BITS = promoted(union(INTEGER, BOOL));

type Loop = (a: number, b: number) => number;
type WideLoop = (a: bigint, b: bigint) => bigint;

function spread(t: Tensor, dtype: DType, shape: readonly number[]): ReturnType<typeof readArray> {
  const wide = sameShape(t.shape, shape) ? t : t.detach().expand(shape);
  const array = readArray(wide);
  return t.dtype === dtype ? array : cast(array, t.dtype, dtype);
}

const WIDTH: Readonly<Partial<Record<DType, number>>> = { int8: 8, uint8: 8, int16: 16, int32: 32, int64: 64 };

function bitwise(
  name: string,
  takes: typeof BITS,
  loop: (width: number) => Loop,
  wide: WideLoop,
): ((a: Tensor, b: Tensor | number) => Tensor) & Named {
  const op = defineOp(name, takes, ([x, y]) => {
    const dtype = commonDType([x, y]);
    const shape = broadcastShapes(x.shape, y.shape);
    const [p, q] = [spread(x, dtype, shape), spread(y, dtype, shape)];
    const run = loop(WIDTH[dtype] ?? 1);
    const out =
      dtype === 'int64'
        ? (p as BigInt64Array).map((v, i) => wide(v, q[i] as bigint))
        : (p as Int32Array).map((v, i) => run(v, q[i] as number));
    return fromArray(out, dtype, shape);
  });
  return named(op.torch, (a: Tensor, b: Tensor | number) => apply(op, [a, operand(b, a)], undefined));
}

const same =
  (loop: Loop): ((width: number) => Loop) =>
  () =>
    loop;

/** The bits that both have; of bool, and. */
export const bitwiseAnd = bitwise(
  'bitwiseAnd',
  BITS,
  same((a, b) => a & b),
  (a, b) => a & b,
);
/** The bits that either has; of bool, or. */
export const bitwiseOr = bitwise(
  'bitwiseOr',
  BITS,
  same((a, b) => a | b),
  (a, b) => a | b,
);
/** The bits that one of both has; of bool, either but not both. */
export const bitwiseXor = bitwise(
  'bitwiseXor',
  BITS,
  same((a, b) => a ^ b),
  (a, b) => a ^ b,
);
/** a 2^b, cut to the dtype; of as many bits as it has, or a negative number of them, zero. */
export const bitwiseLeftShift = bitwise(
  'bitwiseLeftShift',
  promoted(INTEGER),
  (width) => (a, b) => (b < 0 || b >= width ? 0 : a << b),
  (a, b) => (b < 0n || b >= 64n ? 0n : BigInt.asIntN(64, a << b)),
);
/** a / 2^b, rounded down; of as many bits as it has, or a negative number of them, 0 or -1. */
export const bitwiseRightShift = bitwise(
  'bitwiseRightShift',
  promoted(INTEGER),
  (width) => (a, b) => (b < 0 || b >= width ? (a < 0 ? -1 : 0) : a >> b),
  (a, b) => (b < 0n || b >= 64n ? (a < 0n ? -1n : 0n) : a >> b),
);

const notOp = defineOp('bitwiseNot', BITS, ([t]) => {
  const { dtype, shape } = t;
  const array = readArray(t);
  const flip = dtype === 'bool' ? (v: number): number => 1 - v : (v: number): number => ~v;
  const out = dtype === 'int64' ? (array as BigInt64Array).map((v) => ~v) : (array as Int32Array).map(flip);
  return fromArray(out, dtype, shape);
});

/** Every bit turned; of bool, not. */
export const bitwiseNot = named('aten::bitwise_not', (t: Tensor): Tensor => apply(notOp, [t], undefined));
