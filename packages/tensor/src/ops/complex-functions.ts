/** @file The elementary functions of one complex number. */
import type { UnaryName } from './loops.ts';

/** A complex number that a function puts its result into. */
export interface Pair {
  re: number;
  im: number;
}

type Elementary = (re: number, im: number, out: Pair) => void;

function set(out: Pair, re: number, im: number): void {
  out.re = re;
  out.im = im;
}

/** The square root with a real part of at least zero; its imaginary part has the sign of `im`. */
function sqrt(re: number, im: number, out: Pair): void {
  if (Math.abs(im) === Infinity) return set(out, Infinity, im);
  if (re === 0 && im === 0) return set(out, 0, im);
  const half = Math.sqrt((Math.hypot(re, im) + Math.abs(re)) / 2);
  if (re >= 0) return set(out, half, im / (2 * half));
  const up = Object.is(im, -0) || im < 0 ? -half : half;
  return set(out, Math.abs(im) / (2 * half), up);
}

function divide(a: number, b: number, c: number, d: number, out: Pair): void {
  const size = c * c + d * d;
  set(out, size === 0 ? a / 0 : (a * c + b * d) / size, size === 0 ? b / 0 : (b * c - a * d) / size);
}

function exp(re: number, im: number, out: Pair): void {
  const size = Math.exp(re);
  // The angle of infinity is open, not its size.
  if (Math.abs(re) === Infinity && !Number.isFinite(im)) return re < 0 ? set(out, 0, 0) : set(out, Infinity, NaN);
  // A real number stays one, also where its exponential is infinite.
  set(out, im === 0 ? size : size * Math.cos(im), im === 0 ? im : size * Math.sin(im));
}

function log(re: number, im: number, out: Pair): void {
  set(out, Math.log(Math.hypot(re, im)), Math.atan2(im, re));
}

function tanh(re: number, im: number, out: Pair): void {
  // Beyond, cosh would overflow, and the result is one to the last digit.
  if (Math.abs(re) > 300)
    return set(out, Math.sign(re), Object.is(im, -0) ? -0 : Number.isFinite(im) ? 0 * Math.sin(2 * im) : 0);
  const scale = Math.cosh(2 * re) + Math.cos(2 * im);
  return set(out, Math.sinh(2 * re) / scale, Math.sin(2 * im) / scale);
}

/** The square roots of 1 - z and 1 + z, which the inverse functions are made of. */
function roots(re: number, im: number): [minus: Pair, plus: Pair] {
  const minus = { re: 0, im: 0 };
  const plus = { re: 0, im: 0 };
  sqrt(1 - re, -im, minus);
  sqrt(1 + re, im, plus);
  return [minus, plus];
}

function asin(re: number, im: number, out: Pair): void {
  const [minus, plus] = roots(re, im);
  set(
    out,
    Math.atan2(re, minus.re * plus.re - minus.im * plus.im),
    Math.asinh(minus.re * plus.im - minus.im * plus.re),
  );
}

function atanh(re: number, im: number, out: Pair): void {
  if (Math.abs(re) === Infinity || Math.abs(im) === Infinity)
    return set(out, re < 0 ? -0 : 0, (im < 0 || Object.is(im, -0) ? -1 : im === im ? 1 : NaN) * (Math.PI / 2));
  const away = (1 - re) * (1 - re) + im * im;
  set(out, Math.log1p((4 * re) / away) / 4, Math.atan2(2 * im, (1 - re) * (1 + re) - im * im) / 2);
}

/** f(z) from g with f(z) = -i g(iz): the circular functions and the hyperbolic ones. */
const turned =
  (g: Elementary): Elementary =>
  (re, im, out) => {
    g(-im, re, out);
    set(out, out.im, -out.re);
  };

export const elementary: Readonly<Partial<Record<UnaryName, Elementary>>> = {
  neg: (re, im, out) => set(out, -re, -im),
  exp,
  expm1: (re, im, out) => {
    const half = Math.sin(im / 2);
    set(out, Math.expm1(re) * Math.cos(im) - 2 * half * half, im === 0 ? im : Math.exp(re) * Math.sin(im));
  },
  log,
  log1p: (re, im, out) => set(out, Math.log1p(re * (2 + re) + im * im) / 2, Math.atan2(im, 1 + re)),
  log2: (re, im, out) => {
    log(re, im, out);
    set(out, out.re / Math.LN2, out.im / Math.LN2);
  },
  sqrt,
  rsqrt: (re, im, out) => {
    sqrt(re, im, out);
    divide(1, 0, out.re, out.im, out);
  },
  square: (re, im, out) => set(out, re * re - im * im, 2 * re * im),
  reciprocal: (re, im, out) => divide(1, 0, re, im, out),
  sigmoid: (re, im, out) => {
    // With the exponential that does not overflow.
    exp(-Math.abs(re), re < 0 ? im : -im, out);
    const [a, b] = [out.re, out.im];
    if (re < 0) divide(a, b, 1 + a, b, out);
    else divide(1, 0, 1 + a, b, out);
  },
  sin: (re, im, out) => set(out, Math.sin(re) * Math.cosh(im), Math.cos(re) * Math.sinh(im)),
  cos: (re, im, out) => set(out, Math.cos(re) * Math.cosh(im), -Math.sin(re) * Math.sinh(im)),
  tan: turned(tanh),
  sinh: (re, im, out) => set(out, Math.sinh(re) * Math.cos(im), Math.cosh(re) * Math.sin(im)),
  cosh: (re, im, out) => set(out, Math.cosh(re) * Math.cos(im), Math.sinh(re) * Math.sin(im)),
  tanh,
  asin,
  acos: (re, im, out) => {
    const [minus, plus] = roots(re, im);
    set(out, 2 * Math.atan2(minus.re, plus.re), Math.asinh(plus.re * minus.im - plus.im * minus.re));
  },
  atan: turned(atanh),
  asinh: turned(asin),
  acosh: (re, im, out) => {
    const [minus, plus] = [
      { re: 0, im: 0 },
      { re: 0, im: 0 },
    ];
    sqrt(re - 1, im, minus);
    sqrt(re + 1, im, plus);
    set(out, Math.asinh(minus.re * plus.re + minus.im * plus.im), 2 * Math.atan2(minus.im, plus.re));
  },
  atanh,
};
