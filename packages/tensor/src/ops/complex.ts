/** @file Arithmetic on complex64: pairs of float32. */
import { cast } from '../dtype.ts';
import { DTypeError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { sizeOf, type Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { forEachRow } from './broadcast.ts';
import type { BinaryName, UnaryName } from './loops.ts';

type Pair = (ar: number, ai: number, br: number, bi: number, out: Float32Array, at: number) => void;

const pairs: Readonly<Partial<Record<BinaryName, Pair>>> = {
  add: (ar, ai, br, bi, o, at) => {
    o[at] = ar + br;
    o[at + 1] = ai + bi;
  },
  sub: (ar, ai, br, bi, o, at) => {
    o[at] = ar - br;
    o[at + 1] = ai - bi;
  },
  mul: (ar, ai, br, bi, o, at) => {
    o[at] = ar * br - ai * bi;
    o[at + 1] = ar * bi + ai * br;
  },
  div: (ar, ai, br, bi, o, at) => {
    const d = br * br + bi * bi;
    // As PyTorch: each part over zero, so that 1 / 0 is infinite.
    o[at] = d === 0 ? ar / 0 : (ar * br + ai * bi) / d;
    o[at + 1] = d === 0 ? ai / 0 : (ai * br - ar * bi) / d;
  },
};

/** add, sub, mul, div and equality of complex tensors. */
export function complexBinary(name: BinaryName, a: Tensor, b: Tensor, shape: Shape): Tensor {
  const x = cast(readArray(a), a.dtype, 'complex64') as Float32Array;
  const y = cast(readArray(b), b.dtype, 'complex64') as Float32Array;
  const size = sizeOf(shape);
  const at = (v: Float32Array, i: number): [number, number] => [v[2 * i] as number, v[2 * i + 1] as number];
  if (name === 'eq' || name === 'ne') {
    const out = new Uint8Array(size);
    forEachRow(a.shape, b.shape, shape, (ia, sa, ib, sb, io, n) => {
      for (let i = 0; i < n; i++) {
        const [ar, ai] = at(x, ia + i * sa);
        const [br, bi] = at(y, ib + i * sb);
        out[io + i] = (ar === br && ai === bi) === (name === 'eq') ? 1 : 0;
      }
    });
    return fromArray(out, 'bool', shape);
  }
  const f = pairs[name];
  if (f === undefined) throw new DTypeError(`${name} is not defined for complex64`);
  const out = new Float32Array(size * 2);
  forEachRow(a.shape, b.shape, shape, (ia, sa, ib, sb, io, n) => {
    for (let i = 0; i < n; i++) f(...at(x, ia + i * sa), ...at(y, ib + i * sb), out, 2 * (io + i));
  });
  return fromArray(out, 'complex64', shape);
}

/** neg of a complex tensor; the other functions work on its parts. */
export function complexUnary(name: UnaryName, t: Tensor): Tensor {
  if (name !== 'neg') throw new DTypeError(`${name} is not defined for complex64`);
  const x = readArray(t) as Float32Array;
  return fromArray(
    x.map((v) => -v),
    'complex64',
    t.shape,
  );
}
