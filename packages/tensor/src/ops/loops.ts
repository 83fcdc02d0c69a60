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

/** As PyTorch's div_floor_floating: through the remainder, which is exact, so that rounding never lifts a quotient over a whole number. */
function floorDivide(a: number, b: number): number {
  if (b === 0) return a / b;
  const rest = a % b;
  let quotient = (a - rest) / b;
  if (rest !== 0 && b < 0 !== rest < 0) quotient -= 1;
  if (quotient === 0) return (a / b) * 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

/** a^b modulo 2^32; of negative exponents only those of 1 and -1 give anything but 0. */
function powerInt32(a: number, b: number): number {
  if (b < 0) return a === 1 || (a === -1 && b % 2 === 0) ? 1 : a === -1 ? -1 : 0;
  let result = 1;
  for (let base = a, rest = b; rest > 0; rest >>>= 1) {
    if ((rest & 1) === 1) result = Math.imul(result, base);
    base = Math.imul(base, base);
  }
  return result;
}

// prettier-ignore
export const binaryLoops = {
  add: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! + b[ib + i * sb]!; },
  sub: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! - b[ib + i * sb]!; },
  mul: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! * b[ib + i * sb]!; },
  mulInt32: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = Math.imul(a[ia + i * sa]!, b[ib + i * sb]!); },
  div: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = a[ia + i * sa]! / b[ib + i * sb]!; },
  floorDivide: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = floorDivide(a[ia + i * sa]!, b[ib + i * sb]!); },
  remainder: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) { const y = b[ib + i * sb]!; const r = a[ia + i * sa]! % y; o[io + i] = r !== 0 && r < 0 !== y < 0 ? r + y : r; } },
  pow: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) { const y = b[ib + i * sb]!; const x = a[ia + i * sa]!; o[io + i] = x === 1 || (x === -1 && (y === Infinity || y === -Infinity)) ? 1 : x ** y; } },
  powInt32: (a, ia, sa, b, ib, sb, o, io, n) => { for (let i = 0; i < n; i++) o[io + i] = powerInt32(a[ia + i * sa]!, b[ib + i * sb]!); },
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

/** value of a polynomial, highest coefficient first. */
function horner(x: number, coefficients: readonly number[]): number {
  let value = 0;
  for (const c of coefficients) value = value * x + c;
  return value;
}

/** W. J. Cody, "Rational Chebyshev approximation for the error function" (1969): numerators and denominators by range, error below 1e-15. */
const ERF = {
  small: [
    [0.18577770618460315, 3.1611237438705655, 113.86415415105016, 377.485237685302, 3209.3775891384694],
    [1, 23.601290952344122, 244.02463793444417, 1282.6165260773723, 2844.236833439171],
  ],
  middle: [
    [
      2.1531153547440383e-8, 0.5641884969886701, 8.883149794388377, 66.11919063714163, 298.6351381974001,
      881.952221241769, 1712.0476126340707, 2051.0783778260716, 1230.3393547979972,
    ],
    [
      1, 15.744926110709835, 117.6939508913125, 537.1811018620099, 1621.3895745666903, 3290.7992357334597,
      4362.619090143247, 3439.3676741437216, 1230.3393548037495,
    ],
  ],
  large: [
    [
      0.016315387137302097, 0.30532663496123236, 0.36034489994980445, 0.12578172611122926, 0.016083785148742275,
      0.0006587491615298378,
    ],
    [1, 2.568520192289822, 1.8729528499234673, 0.5279051029514285, 0.06051834131244132, 0.0023352049762686918],
  ],
} as const;

function erfOf(x: number): number {
  const ax = Math.abs(x);
  if (ax < 0.5) return (x * horner(x * x, ERF.small[0])) / horner(x * x, ERF.small[1]);
  return Math.sign(x) * (1 - erfcOf(ax));
}

/** erfc for x >= 0.5. */
function erfcOf(x: number): number {
  if (x > 27) return 0;
  if (x <= 4) return (Math.exp(-x * x) * horner(x, ERF.middle[0])) / horner(x, ERF.middle[1]);
  const z = 1 / (x * x);
  const tail = (z * horner(z, ERF.large[0])) / horner(z, ERF.large[1]);
  return (Math.exp(-x * x) / x) * (1 / Math.sqrt(Math.PI) - tail);
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
  squareInt32: (a, o, n) => { for (let i = 0; i < n; i++) o[i] = Math.imul(a[i]!, a[i]!); },
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

export type BinaryName = keyof typeof binaryLoops;
export type UnaryName = keyof typeof unaryLoops;
