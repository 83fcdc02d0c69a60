/**
 * @file Complex numbers by their parts. Gradients follow from those of the parts: dL/d re + i dL/d im, which is PyTorch's convention.
 */
import { zerosLike } from '../creation.ts';
import { cast } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { named } from '../named.ts';
import { sameShape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';

const complexOp = defineOp('complex', 'complex', ([re, im]) => {
  const [a, b] = [re as Tensor, im as Tensor];
  const x = cast(readArray(a), a.dtype, 'float32') as Float32Array;
  const y = cast(readArray(b), b.dtype, 'float32') as Float32Array;
  const out = new Float32Array(2 * x.length);
  for (let i = 0; i < x.length; i++) {
    out[2 * i] = x[i] as number;
    out[2 * i + 1] = y[i] as number;
  }
  return fromArray(out, 'complex64', a.shape);
});

/** complex64 of two real tensors of one shape. */
export const complex = named('aten::complex', (re: Tensor, im: Tensor): Tensor => {
  if (re.dtype === 'complex64' || im.dtype === 'complex64') throw new DTypeError('complex: the parts must be real');
  if (!sameShape(re.shape, im.shape)) {
    throw new ShapeError(`complex: parts of shapes [${re.shape.join(', ')}] and [${im.shape.join(', ')}]`);
  }
  return apply(complexOp, [re, im], undefined);
});

/** Every second number of a complex tensor, from `offset`. */
function part(t: Tensor, offset: 0 | 1): Tensor {
  const pairs = readArray(t) as Float32Array;
  const out = new Float32Array(t.size);
  for (let i = 0; i < out.length; i++) out[i] = pairs[2 * i + offset] as number;
  return fromArray(out, 'float32', t.shape);
}

const realOp = defineOp('real', 'real', ([t]) => part(t as Tensor, 0));
const imagOp = defineOp('imag', 'imag', ([t]) => part(t as Tensor, 1));

/** The real part, a copy; a real tensor is its own. */
export const real = named('aten::real', (t: Tensor): Tensor =>
  t.dtype === 'complex64' ? apply(realOp, [t], undefined) : t,
);

/** The imaginary part, a copy; zeros of a real tensor. */
export const imag = named('aten::imag', (t: Tensor): Tensor =>
  t.dtype === 'complex64' ? apply(imagOp, [t], undefined) : zerosLike(t),
);

/** re - i im. */
export const conj = named('aten::conj', (t: Tensor): Tensor =>
  t.dtype === 'complex64' ? complex(real(t), imag(t).neg()) : t,
);

/** The angle in the plane, in radians. */
export const angle = named('aten::angle', (t: Tensor): Tensor => imag(t).atan2(real(t)));

type Parts = readonly [re: Tensor, im: Tensor];

/** A function of complex numbers written on their parts. */
function onParts(t: Tensor, fn: (re: Tensor, im: Tensor) => Parts): Tensor {
  return complex(...fn(real(t), imag(t)));
}

export function complexSum(t: Tensor, fn: (part: Tensor) => Tensor): Tensor {
  return onParts(t, (re, im) => [fn(re), fn(im)]);
}

/** A bilinear function of two tensors, one of which at least is complex: products of all kinds. */
export function complexProduct(a: Tensor, b: Tensor, fn: (x: Tensor, y: Tensor) => Tensor): Tensor {
  const [ar, ai, br, bi] = [real(a), imag(a), real(b), imag(b)];
  return complex(fn(ar, br).sub(fn(ai, bi)), fn(ar, bi).add(fn(ai, br)));
}

export function complexQuotient(a: Tensor, b: Tensor): Tensor {
  const [br, bi] = [real(b), imag(b)];
  const scale = br.square().add(bi.square());
  return complexProduct(a, complex(br.div(scale), bi.neg().div(scale)), (x, y) => x.mul(y));
}

export function complexExp(t: Tensor): Tensor {
  return onParts(t, (re, im) => [re.exp().mul(im.cos()), re.exp().mul(im.sin())]);
}

/** The principal value. */
export function complexLog(t: Tensor): Tensor {
  return onParts(t, (re, im) => [re.square().add(im.square()).log().mul(0.5), im.atan2(re)]);
}

export function complexAbs(t: Tensor): Tensor {
  // In double precision, whose squares neither overflow nor vanish.
  const [re, im] = [real(t).to('float64'), imag(t).to('float64')];
  const squares = re.square().add(im.square());
  const zero = squares.detach().eq(0);
  // At zero the slope is taken to be zero.
  const size = zero.any().item() === 0 ? squares.sqrt() : squares.add(zero.to('float64')).sqrt().maskedFill(zero, 0);
  return size.to('float32');
}
