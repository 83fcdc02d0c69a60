/** @file The inner loops of element-by-element operations: one literal loop each, which engines compile to straight code. */
import type { NumberArray } from '../dtype.ts';

type A = NumberArray;

/** out[io + i] = f(a[ia + i sa], b[ib + i sb]) for i < n; sa and sb are 0 for an operand that repeats. */
export type BinaryLoop = (
  a: A,
  ia: number,
  sa: number,
  b: A,
  ib: number,
  sb: number,
  o: A,
  io: number,
  n: number,
) => void;
/** out[i] = f(a[i]) for i < n. */
export type UnaryLoop = (a: A, o: A, n: number) => void;

/* eslint-disable @typescript-eslint/no-non-null-assertion -- indices run below the lengths that the callers computed */
// prettier-ignore
export const binaryLoops = {
  add: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! + b[ib + i * sb]!; },
  sub: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! - b[ib + i * sb]!; },
  mul: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! * b[ib + i * sb]!; },
  mulInt32: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = Math.imul(a[ia + i * sa]!, b[ib + i * sb]!); },
  div: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! / b[ib + i * sb]!; },
  floorDivide: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = Math.floor(a[ia + i * sa]! / b[ib + i * sb]!); },
  remainder: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) { const y = b[ib + i * sb]!; const r = a[ia + i * sa]! % y; o[io + i] = r !== 0 && r < 0 !== y < 0 ? r + y : r; } },
  pow: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) { const y = b[ib + i * sb]!; const x = a[ia + i * sa]!; o[io + i] = x === 1 ? 1 : x ** y; } },
  maximum: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = Math.max(a[ia + i * sa]!, b[ib + i * sb]!); },
  minimum: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = Math.min(a[ia + i * sa]!, b[ib + i * sb]!); },
  atan2: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = Math.atan2(a[ia + i * sa]!, b[ib + i * sb]!); },
  eq: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! === b[ib + i * sb]! ? 1 : 0; },
  ne: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! !== b[ib + i * sb]! ? 1 : 0; },
  lt: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! < b[ib + i * sb]! ? 1 : 0; },
  le: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! <= b[ib + i * sb]! ? 1 : 0; },
  gt: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! > b[ib + i * sb]! ? 1 : 0; },
  ge: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! >= b[ib + i * sb]! ? 1 : 0; },
  logicalAnd: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! !== 0 && b[ib + i * sb]! !== 0 ? 1 : 0; },
  logicalOr: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! !== 0 || b[ib + i * sb]! !== 0 ? 1 : 0; },
  logicalXor: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = (a[ia + i * sa]! !== 0) !== (b[ib + i * sb]! !== 0) ? 1 : 0; },
} as const satisfies Record<string, BinaryLoop>;

/** Abramowitz and Stegun's bound is too coarse for gradients: this is W. J. Cody's rational approximation (1969), error below 1e-15. */
export function erfOf(x: number): number {
  const ax = Math.abs(x);
  if (ax < 0.5) {
    const z = x * x;
    const p =
      ((((1.85777706184603153e-1 * z + 3.1611237438705656) * z + 1.13864154151050156e2) * z + 3.77485237685302021e2) *
        z +
        3.20937758913846947e3) *
      x;
    return (
      p /
      ((((z + 2.36012909523441209e1) * z + 2.44024637934444173e2) * z + 1.28261652607737228e3) * z +
        2.84423683343917062e3)
    );
  }
  return Math.sign(x) * (1 - erfcOf(ax));
}

/** erfc for x >= 0.5. */
function erfcOf(x: number): number {
  if (x > 27) return 0;
  if (x <= 4) {
    const p =
      (((((((2.15311535474403846e-8 * x + 5.64188496988670089e-1) * x + 8.88314979438837594) * x +
        6.61191906371416295e1) *
        x +
        2.98635138197400131e2) *
        x +
        8.8195222124176909e2) *
        x +
        1.71204761263407058e3) *
        x +
        2.05107837782607147e3) *
        x +
      1.23033935479799725e3;
    const q =
      (((((((x + 1.57449261107098347e1) * x + 1.17693950891312499e2) * x + 5.37181101862009858e2) * x +
        1.62138957456669019e3) *
        x +
        3.29079923573345963e3) *
        x +
        4.36261909014324716e3) *
        x +
        3.43936767414372164e3) *
        x +
      1.23033935480374942e3;
    return (Math.exp(-x * x) * p) / q;
  }
  const z = 1 / (x * x);
  const p =
    ((((1.63153871373020978e-2 * z + 3.05326634961232344e-1) * z + 3.60344899949804439e-1) * z +
      1.25781726111229246e-1) *
      z +
      1.60837851487422766e-2) *
      z +
    6.58749161529837803e-4;
  const q =
    ((((z + 2.56852019228982242) * z + 1.87295284992346725) * z + 5.27905102951428412e-1) * z +
      6.05183413124413191e-2) *
      z +
    2.33520497626869185e-3;
  return (Math.exp(-x * x) / x) * (1 / Math.sqrt(Math.PI) - (z * p) / q);
}

/** Rounds half to even, as PyTorch's round. */
function roundEven(x: number): number {
  const r = Math.round(x);
  return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r;
}

// prettier-ignore
export const unaryLoops = {
  neg: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = -a[i]!; },
  abs: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.abs(a[i]!); },
  sign: (a, o, n) => { for (let i = 0; i < n; i++) { const x = a[i]!; o[i] = x > 0 ? 1 : x < 0 ? -1 : 0; } },
  exp: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.exp(a[i]!); },
  expm1: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.expm1(a[i]!); },
  log: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.log(a[i]!); },
  log1p: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.log1p(a[i]!); },
  log2: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.log2(a[i]!); },
  sqrt: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.sqrt(a[i]!); },
  rsqrt: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = 1 / Math.sqrt(a[i]!); },
  square: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = a[i]! * a[i]!; },
  reciprocal: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = 1 / a[i]!; },
  relu: (a, o, n) => { for (let i = 0; i < n; i++) { const x = a[i]!; o[i] = x > 0 || x !== x ? x : 0; } },
  sigmoid: (a, o, n) => { for (let i = 0; i < n; i++) { const x = a[i]!; if (x >= 0) o[i] = 1 / (1 + Math.exp(-x)); else { const e = Math.exp(x); o[i] = e / (1 + e); } } },
  tanh: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.tanh(a[i]!); },
  sin: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.sin(a[i]!); },
  cos: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.cos(a[i]!); },
  tan: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.tan(a[i]!); },
  asin: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.asin(a[i]!); },
  acos: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.acos(a[i]!); },
  atan: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.atan(a[i]!); },
  sinh: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.sinh(a[i]!); },
  cosh: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.cosh(a[i]!); },
  asinh: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.asinh(a[i]!); },
  acosh: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.acosh(a[i]!); },
  atanh: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.atanh(a[i]!); },
  erf: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = erfOf(a[i]!); },
  softplus: (a, o, n) => { for (let i = 0; i < n; i++) { const x = a[i]!; o[i] = x > 20 ? x : Math.log1p(Math.exp(x)); } },
  logSigmoid: (a, o, n) => { for (let i = 0; i < n; i++) { const x = a[i]!; o[i] = Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))); } },
  floor: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.floor(a[i]!); },
  ceil: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.ceil(a[i]!); },
  round: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = roundEven(a[i]!); },
  trunc: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.trunc(a[i]!); },
  logicalNot: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = a[i]! === 0 ? 1 : 0; },
  isNaN: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = a[i]! !== a[i]! ? 1 : 0; },
  isInf: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.abs(a[i]!) === Infinity ? 1 : 0; },
  isFinite: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Number.isFinite(a[i]!) ? 1 : 0; },
} as const satisfies Record<string, UnaryLoop>;
/* eslint-enable @typescript-eslint/no-non-null-assertion */

export type BinaryName = keyof typeof binaryLoops;
export type UnaryName = keyof typeof unaryLoops;
