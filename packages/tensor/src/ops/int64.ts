/** @file Exact 64-bit integer arithmetic, for the operations where a double would lose bits. */
import { TensorError } from '../errors.ts';
import type { Shape } from '../shape.ts';
import { sizeOf } from '../shape.ts';
import { forEachRow } from './broadcast.ts';

type Exact = (a: bigint, b: bigint) => bigint;

/** Results wrap modulo 2^64, as the stores into BigInt64Array do. */
const arithmetic: Readonly<Partial<Record<string, Exact>>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  maximum: (a, b) => (a > b ? a : b),
  minimum: (a, b) => (a < b ? a : b),
  pow: power,
  floorDivide: (a, b) => {
    if (b === 0n) throw divisionByZero();
    const q = a / b;
    return q * b !== a && a < 0n !== b < 0n ? q - 1n : q;
  },
  remainder: (a, b) => {
    if (b === 0n) throw divisionByZero();
    const r = a % b;
    return r !== 0n && r < 0n !== b < 0n ? r + b : r;
  },
};

/** a^b modulo 2^64; of negative exponents only those of 1 and -1 give anything but 0. */
function power(a: bigint, b: bigint): bigint {
  if (b < 0n) return a === 1n || (a === -1n && b % 2n === 0n) ? 1n : a === -1n ? -1n : 0n;
  let result = 1n;
  for (let base = a, rest = b; rest > 0n; rest >>= 1n) {
    if ((rest & 1n) === 1n) result = BigInt.asIntN(64, result * base);
    base = BigInt.asIntN(64, base * base);
  }
  return result;
}

/** What integers answer to a division by zero. */
export function divisionByZero(): TensorError {
  return new TensorError('ZeroDivisionError: integer division or remainder by zero');
}

const comparisons: Readonly<Partial<Record<string, (a: bigint, b: bigint) => boolean>>> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
};

/** The result of an exact int64 operation (or comparison, as bytes), or undefined when `name` has no exact form. */
export function int64Binary(
  name: string,
  a: BigInt64Array,
  aShape: Shape,
  b: BigInt64Array,
  bShape: Shape,
  out: Shape,
): BigInt64Array | Uint8Array | undefined {
  const f = arithmetic[name];
  if (f !== undefined) {
    const result = new BigInt64Array(sizeOf(out));
    forEachRow(aShape, bShape, out, (ia, sa, ib, sb, io, n) => {
      for (let i = 0; i < n; i++) result[io + i] = f(a[ia + i * sa] as bigint, b[ib + i * sb] as bigint);
    });
    return result;
  }
  const test = comparisons[name];
  if (test === undefined) return undefined;
  const result = new Uint8Array(sizeOf(out));
  forEachRow(aShape, bShape, out, (ia, sa, ib, sb, io, n) => {
    for (let i = 0; i < n; i++) result[io + i] = test(a[ia + i * sa] as bigint, b[ib + i * sb] as bigint) ? 1 : 0;
  });
  return result;
}

/** Functions of one int64 that the doubles would round. */
const unary: Readonly<Partial<Record<string, (v: bigint) => bigint>>> = {
  neg: (v) => -v,
  abs: (v) => (v < 0n ? -v : v),
  square: (v) => v * v,
  relu: (v) => (v > 0n ? v : 0n),
  floor: (v) => v,
  ceil: (v) => v,
  round: (v) => v,
  trunc: (v) => v,
};

/** The result of an exact int64 function, or undefined when `name` has no exact form. */
export function int64Unary(name: string, source: BigInt64Array): BigInt64Array | undefined {
  const f = unary[name];
  return f === undefined ? undefined : source.map(f);
}

/** Each element between two whole numbers; the upper bound wins. */
export function clampInt64(source: BigInt64Array, min: number, max: number): BigInt64Array {
  const low = Number.isFinite(min) ? BigInt(min) : undefined;
  const high = Number.isFinite(max) ? BigInt(max) : undefined;
  return source.map((v) => {
    const raised = low !== undefined && v < low ? low : v;
    return high !== undefined && raised > high ? high : raised;
  });
}
