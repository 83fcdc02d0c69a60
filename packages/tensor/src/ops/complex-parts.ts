/** @file The parts of complex numbers, and putting them together. */
import { cast, decode, encode, toFloatDType } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { broadcastShapes, sameShape } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { ALL, COMPLEX, each, same, setOf } from './takes.ts';
import { applyView } from './views.ts';

/** complex64 of two real tensors of one shape, without a history. */
export function joined(re: Tensor, im: Tensor): Tensor {
  const x = cast(readArray(re), re.dtype, 'float32') as Float32Array;
  const y = cast(readArray(im), im.dtype, 'float32') as Float32Array;
  const out = new Float32Array(2 * x.length);
  for (let i = 0; i < x.length; i++) {
    out[2 * i] = x[i]!;
    out[2 * i + 1] = y[i]!;
  }
  return fromArray(out, 'complex64', re.shape);
}

/** Every second number of a complex tensor, from `offset`; without a history. */
export function part(t: Tensor, offset: 0 | 1): Tensor<'float32'> {
  const pairs = readArray(t) as Float32Array;
  const out = new Float32Array(t.size);
  for (let i = 0; i < out.length; i++) out[i] = pairs[2 * i + offset]!;
  return fromArray(out, 'float32', t.shape);
}

/** A function that moves or adds elements, of the parts of a complex tensor one by one; without a history. */
export function partwise(t: Tensor, fn: (part: Tensor) => Tensor): Tensor {
  const parts = [part(t, 0), part(t, 1)] as const;
  const done = parts.map(fn) as [Tensor, Tensor];
  const out = joined(...done);
  for (const each of [...parts, ...done]) each.release();
  return out;
}

const complexOp = defineOp('complex', same(setOf('float16', 'float32', 'float64')), ([re, im]) => joined(re, im));

/** complex64 of two real tensors of one floating dtype, whose shapes broadcast. */
export const complex = named('aten::complex', (re: Tensor, im: Tensor): Tensor => {
  if (sameShape(re.shape, im.shape)) return apply(complexOp, [re, im], undefined);
  const shape = broadcastShapes(re.shape, im.shape);
  return sweep(() => apply(complexOp, [re.expand(shape), im.expand(shape)], undefined));
});

/** The same numbers of a complex tensor in its own memory. */
function partView({ storage, shape, strides, offset }: Tensor, at: 0 | 1): Tensor<'float32'> {
  return new Tensor({ storage, dtype: 'float32', shape, strides: strides.map((s) => 2 * s), offset: 2 * offset + at });
}

const realOp = defineOp('real', each(COMPLEX), ([t]) => partView(t, 0));
const imagOp = defineOp('imag', each(COMPLEX, 'a real tensor has no imaginary part'), ([t]) => partView(t, 1));
const conjOp = defineOp('conj', each(COMPLEX), ([t]) => {
  const out = (readArray(t) as Float32Array).slice();
  for (let i = 1; i < out.length; i += 2) out[i] = -out[i]!;
  return fromArray(out, 'complex64', t.shape);
});

/** The real part, a view; a real tensor is its own. */
export const real = named('aten::real', (t: Tensor): Tensor =>
  t.dtype === 'complex64' ? applyView(realOp, t, undefined) : t,
);

/** The imaginary part of a complex tensor, a view. */
export const imag = named('aten::imag', (t: Tensor): Tensor => applyView(imagOp, t, undefined));

/** re - i im; a real tensor is its own. */
export const conj = named('aten::conj', (t: Tensor): Tensor =>
  t.dtype === 'complex64' ? apply(conjOp, [t], undefined) : t,
);

const angleOp = defineOp('angle', each(ALL), ([input]) => {
  const values = decode(readArray(input), input.dtype);
  if (input.dtype === 'complex64') {
    const out = Float32Array.from({ length: input.size }, (_, i) => Math.atan2(values[2 * i + 1]!, values[2 * i]!));
    return fromArray(out, 'float32', input.shape);
  }
  const dtype = toFloatDType(input.dtype);
  const out = Float64Array.from(values, (v) => (v < 0 ? Math.PI : v !== v ? NaN : 0));
  return fromArray(encode(out, dtype), dtype, input.shape);
});

/** The angle in the plane, in radians: of real numbers 0, or π where they are negative. */
export const angle = named('aten::angle', (t: Tensor): Tensor => apply(angleOp, [t], undefined));
