/** @file Convolutions of one group: by a kernel that reads windows where they lie, or as a product with columns, whichever is faster. */
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import type { Backend } from '../backends/backend.ts';
import { InvariantError } from '../errors.ts';
import { defineOp } from './define.ts';
import { backendFor, runKernel } from './kernels.ts';
import { matmul } from './matmul.ts';
import { apply } from './op.ts';
import { NUMBER, same } from './takes.ts';
import { fold, placed, unfold, type Windows } from './windows.ts';

/** The narrowest result that the kernel takes: it computes four neighbours at once. */
const NARROWEST = 4;

/** The device whose kernel is the faster way of `filters` over the images of `s`. */
function direct(images: Tensor, other: Tensor, filters: number, s: Windows): Backend | undefined {
  if (images.dtype !== 'float32' || other.dtype !== 'float32') return undefined;
  if (s.outW < NARROWEST) return undefined;
  const work = s.n * s.outH * s.outW * filters * s.c * s.kernel[0] * s.kernel[1];
  if (work === 0) return undefined;
  const backend = backendFor('Convolve', 'matmul', work);
  return backend !== undefined && filters <= (backend.convolves ?? 0) ? backend : undefined;
}

/** For operations that are made only where there is one. */
function kernelOf(backend: Backend | undefined): Backend {
  if (backend === undefined)
    throw new InvariantError('a convolution without columns was asked for where no device has it');
  return backend;
}

const convolveOp = defineOp<Windows>(['convolve', 'convolution'], same(NUMBER), ([x, w], s) => {
  const [images, filters] = [x as Tensor, w as Tensor];
  const k = filters.shape[0] as number;
  const shape = [s.n, k, s.outH, s.outW];
  const backend = kernelOf(direct(images, filters, k, s));
  const attrs = { size: sizeOf(shape), filters: k, ...placed(s) };
  return runKernel(backend, 'Convolve', { x: images, filters }, attrs, 'float32', shape);
});

const filterOp = defineOp<Windows>(['convolveFilter', 'convolution_backward'], same(NUMBER), ([x, g], s) => {
  const [images, dy] = [x as Tensor, g as Tensor];
  const k = dy.shape[1] as number;
  const shape = [k, s.c, ...s.kernel];
  const backend = kernelOf(direct(images, dy, k, s));
  const attrs = { size: sizeOf(shape), filters: k, ...placed(s) };
  return runKernel(backend, 'ConvolveFilter', { x: images, dy }, attrs, 'float32', shape);
});

const taps = (s: Windows): number => s.c * s.kernel[0] * s.kernel[1];

/** Images [n, k, outH, outW] as rows [k, n outH outW]. */
function rowsOf(t: Tensor): Tensor {
  return t.permute([1, 0, 2, 3]).reshape([t.shape[1] as number, -1]);
}

/** Images [n, c, h, w] and filters [k, c, kh, kw] to [n, k, outH, outW]. */
export function convolve(images: Tensor, filters: Tensor, s: Windows): Tensor {
  const k = filters.shape[0] as number;
  if (direct(images, filters, k, s) !== undefined) return apply(convolveOp, [images, filters], s);
  const product = matmul(filters.reshape([k, taps(s)]), unfold(images, s));
  return product.reshape([k, s.n, s.outH, s.outW]).permute([1, 0, 2, 3]);
}

/** What `convolve` hands its filters of the gradient of its result. */
export function filterGradient(images: Tensor, grad: Tensor, s: Windows): Tensor {
  const k = grad.shape[1] as number;
  if (direct(images, grad, k, s) !== undefined) return apply(filterOp, [images, grad], s);
  return matmul(rowsOf(grad), unfold(images, s).transpose(0, 1)).reshape([k, s.c, ...s.kernel]);
}

/** What `convolve` hands its images of the gradient of its result. */
export function imageGradient(grad: Tensor, filters: Tensor, s: Windows): Tensor {
  const columns = filters.reshape([filters.shape[0] as number, taps(s)]).transpose(0, 1);
  return fold(matmul(columns, rowsOf(grad)), s);
}
