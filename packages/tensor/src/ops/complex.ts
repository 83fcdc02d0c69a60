/**
 * @file Arithmetic on complex64, pairs of float32; computed in double precision. Functions with branch cuts follow W. Kahan, "Branch cuts
 * for complex elementary functions" (1987): the sign of a zero says on which side of the cut a number lies.
 */
import { cast } from '../dtype.ts';
import { InvariantError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { sizeOf, type Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { forEachRow } from './broadcast.ts';
import { elementary, type Pair } from './complex-functions.ts';
import type { BinaryName, UnaryName } from './loops.ts';

type Numbers = Float32Array | Float64Array;
/** out of the numbers at positions i of x and j of y, whose imaginary parts follow them. */
type Arithmetic = (x: Numbers, i: number, y: Numbers, j: number, out: Float32Array, at: number) => void;

const power: Pair = { re: 0, im: 0 };

/**
 * a + bi to the power of c, if that is a small whole number or a half: by products and roots, which make real numbers of real ones, where
 * their angle, which is rounded, would leave a rest.
 */
function powerByProducts(a: number, b: number, c: number, out: Pair): boolean {
  if (Math.abs(c) === 0.5) {
    (c > 0 ? elementary.sqrt : elementary.rsqrt)?.(a, b, out);
    return true;
  }
  if (!Number.isInteger(c) || Math.abs(c) > 3) return false;
  [out.re, out.im] = c === 0 ? [1, 0] : [a, b];
  for (let n = 1; n < Math.abs(c); n++) [out.re, out.im] = [out.re * a - out.im * b, out.re * b + out.im * a];
  if (c < 0) elementary.reciprocal?.(out.re, out.im, out);
  return true;
}

const arithmetic: Readonly<Partial<Record<BinaryName, Arithmetic>>> = {
  add: (x, i, y, j, out, at) => {
    out[at] = x[i]! + y[j]!;
    out[at + 1] = x[i + 1]! + y[j + 1]!;
  },
  sub: (x, i, y, j, out, at) => {
    out[at] = x[i]! - y[j]!;
    out[at + 1] = x[i + 1]! - y[j + 1]!;
  },
  mul: (x, i, y, j, out, at) => {
    out[at] = x[i]! * y[j]! - x[i + 1]! * y[j + 1]!;
    out[at + 1] = x[i]! * y[j + 1]! + x[i + 1]! * y[j]!;
  },
  div: (x, i, y, j, out, at) => {
    const [a, b, c, d] = [x[i]!, x[i + 1]!, y[j]!, y[j + 1]!];
    const size = c * c + d * d;
    // As PyTorch: each part over zero, so that 1 / 0 is infinite.
    out[at] = size === 0 ? a / 0 : (a * c + b * d) / size;
    out[at + 1] = size === 0 ? b / 0 : (b * c - a * d) / size;
  },
  pow: (x, i, y, j, out, at) => {
    const [a, b, c, d] = [x[i]!, x[i + 1]!, y[j]!, y[j + 1]!];
    if (a === 0 && b === 0) {
      const one = c === 0 && d === 0;
      out[at] = one ? 1 : c > 0 ? 0 : c < 0 ? Infinity : NaN;
      out[at + 1] = one || c > 0 ? 0 : NaN;
      return;
    }
    if (d === 0 && powerByProducts(a, b, c, power)) {
      out[at] = power.re;
      out[at + 1] = power.im;
      return;
    }
    const [size, angle] = [Math.log(Math.hypot(a, b)), Math.atan2(b, a)];
    const [grown, turned] = [Math.exp(c * size - d * angle), d * size + c * angle];
    out[at] = grown * Math.cos(turned);
    out[at + 1] = grown * Math.sin(turned);
  },
};

/** Tests of two numbers, given whether they are equal and whether each has any part. */
const tests: Readonly<Partial<Record<BinaryName, (equal: boolean, a: boolean, b: boolean) => boolean>>> = {
  eq: (equal) => equal,
  ne: (equal) => !equal,
  logicalAnd: (_equal, a, b) => a && b,
  logicalOr: (_equal, a, b) => a || b,
  logicalXor: (_equal, a, b) => a !== b,
};

/** Computes a binary operation of operands of which one at least is complex. */
export function complexBinary(name: BinaryName, a: Tensor, b: Tensor, shape: Shape): Tensor {
  const x = pairsOf(a);
  const y = pairsOf(b);
  const test = tests[name];
  if (test !== undefined) {
    const out = new Uint8Array(sizeOf(shape));
    forEachRow(a.shape, b.shape, shape, (ia, sa, ib, sb, io, n) => {
      for (let k = 0; k < n; k++) {
        const [i, j] = [2 * (ia + k * sa), 2 * (ib + k * sb)];
        const equal = x[i] === y[j] && x[i + 1] === y[j + 1];
        const [left, right] = [x[i] !== 0 || x[i + 1] !== 0, y[j] !== 0 || y[j + 1] !== 0];
        out[io + k] = test(equal, left, right) ? 1 : 0;
      }
    });
    return fromArray(out, 'bool', shape);
  }
  const compute = arithmetic[name];
  if (compute === undefined) throw new InvariantError(`${name} of complex numbers`);
  const out = new Float32Array(sizeOf(shape) * 2);
  forEachRow(a.shape, b.shape, shape, (ia, sa, ib, sb, io, n) => {
    for (let k = 0; k < n; k++) compute(x, 2 * (ia + k * sa), y, 2 * (ib + k * sb), out, 2 * (io + k));
  });
  return fromArray(out, 'complex64', shape);
}

/** The elements in pairs: of a real tensor in double precision, which float64 would lose in complex64. */
function pairsOf(t: Tensor): Numbers {
  if (t.dtype !== 'float64') return cast(readArray(t), t.dtype, 'complex64') as Float32Array;
  const source = readArray(t) as Float64Array;
  const out = new Float64Array(2 * source.length);
  for (let i = 0; i < source.length; i++) out[2 * i] = source[i]!;
  return out;
}

const predicates: Readonly<Partial<Record<UnaryName, (re: number, im: number) => boolean>>> = {
  logicalNot: (re, im) => re === 0 && im === 0,
  isNaN: (re, im) => re !== re || im !== im,
  isInf: (re, im) => Math.abs(re) === Infinity || Math.abs(im) === Infinity,
  isFinite: (re, im) => Number.isFinite(re) && Number.isFinite(im),
};

/** Computes a function of each element of a complex tensor. */
export function complexUnary(name: UnaryName, t: Tensor): Tensor {
  const x = readArray(t) as Float32Array;
  const predicate = predicates[name];
  if (predicate !== undefined || name === 'abs') {
    const test = predicate ?? Math.hypot;
    const out = name === 'abs' ? new Float32Array(t.size) : new Uint8Array(t.size);
    for (let i = 0; i < out.length; i++) out[i] = Number(test(x[2 * i]!, x[2 * i + 1]!));
    return fromArray(out, name === 'abs' ? 'float32' : 'bool', t.shape);
  }
  const compute = elementary[name];
  if (compute === undefined) throw new InvariantError(`${name} of complex numbers`);
  const out = new Float32Array(2 * t.size);
  const pair: Pair = { re: 0, im: 0 };
  for (let i = 0; i < out.length; i += 2) {
    compute(x[i]!, x[i + 1]!, pair);
    out[i] = pair.re;
    out[i + 1] = pair.im;
  }
  return fromArray(out, 'complex64', t.shape);
}
