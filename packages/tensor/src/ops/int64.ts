/** @file Exact 64-bit integer arithmetic, for the operations where a double would lose bits. */
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
  floorDivide: (a, b) => {
    const q = a / b;
    return q * b !== a && a < 0n !== b < 0n ? q - 1n : q;
  },
  remainder: (a, b) => {
    const r = a % b;
    return r !== 0n && r < 0n !== b < 0n ? r + b : r;
  },
};

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
