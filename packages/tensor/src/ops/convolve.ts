/** @file Convolutions of one group: by a kernel of the device, or as a product with columns. Of images, filters and results each is linear in the two others. */
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import type { Backend } from '../backends/backend.ts';
import { InvariantError } from '../errors.ts';
import { defineOp, type Op } from './define.ts';
import { backendFor, runKernel } from './kernels.ts';
import { matmul } from './matmul.ts';
import { apply } from './op.ts';
import { NUMBER, same } from './takes.ts';
import { fold, hasRoom, placed, unfold, type Windows } from './windows.ts';

const taps = (s: Windows): number => s.c * s.kernel[0] * s.kernel[1];

/** The device whose kernel computes what has to do with `filters` filters over the images of `s`. */
function deviceFor(kernel: string, a: Tensor, b: Tensor, filters: number, s: Windows): Backend | undefined {
  if (a.dtype !== 'float32' || b.dtype !== 'float32' || !hasRoom(s)) return undefined;
  const work = s.n * s.outH * s.outW * filters * taps(s);
  return work === 0 ? undefined : backendFor(kernel, 'matmul', work);
}

interface Kernel {
  readonly op: Op<Windows>;
  /** Whether there is a device for it. */
  has(a: Tensor, b: Tensor, s: Windows): boolean;
}

/** A kernel of two operands by their names, as an operation; it is asked for only where a device has it. */
function kernelOp(
  names: readonly [string, string],
  kernel: string,
  operands: readonly [string, string],
  filtersOf: (a: Tensor, b: Tensor) => number,
  shapeOf: (filters: number, s: Windows) => number[],
): Kernel {
  const device = (a: Tensor, b: Tensor, s: Windows): Backend | undefined => deviceFor(kernel, a, b, filtersOf(a, b), s);
  const op = defineOp<Windows>(names, same(NUMBER), ([a, b], s) => {
    const backend = device(a, b, s);
    if (backend === undefined) throw new InvariantError(`${kernel} was asked for where no device has it`);
    const filters = filtersOf(a, b);
    const shape = shapeOf(filters, s);
    const attrs = { size: sizeOf(shape), filters, ...placed(s) };
    return runKernel(backend, kernel, { [operands[0]]: a, [operands[1]]: b }, attrs, 'float32', shape);
  });
  return { op, has: (a, b, s) => device(a, b, s) !== undefined };
}

const forward = kernelOp(
  ['convolve', 'convolution'],
  'Convolve',
  ['x', 'filters'],
  (_, filters) => filters.shape[0] as number,
  (k, s) => [s.n, k, s.outH, s.outW],
);
const toFilters = kernelOp(
  ['convolveFilter', 'convolution_backward'],
  'ConvolveFilter',
  ['x', 'dy'],
  (_, dy) => dy.shape[1] as number,
  (k, s) => [k, s.c, ...s.kernel],
);
const toImages = kernelOp(
  ['convolveImages', 'convolution_backward'],
  'ConvolveImages',
  ['dy', 'filters'],
  (_, filters) => filters.shape[0] as number,
  (_, s) => [s.n, s.c, s.h, s.w],
);

/** Images [n, k, outH, outW] as rows [k, n outH outW]. */
function rowsOf(t: Tensor): Tensor {
  return t.permute([1, 0, 2, 3]).reshape([t.shape[1] as number, -1]);
}

/** Images [n, c, h, w] and filters [k, c, kh, kw] to [n, k, outH, outW]. */
export function convolve(images: Tensor, filters: Tensor, s: Windows): Tensor {
  if (forward.has(images, filters, s)) return apply(forward.op, [images, filters], s);
  const k = filters.shape[0] as number;
  const product = matmul(filters.reshape([k, taps(s)]), unfold(images, s));
  return product.reshape([k, s.n, s.outH, s.outW]).permute([1, 0, 2, 3]);
}

/** What `convolve` hands its filters of the gradient of its result. */
export function filterGradient(images: Tensor, grad: Tensor, s: Windows): Tensor {
  if (toFilters.has(images, grad, s)) return apply(toFilters.op, [images, grad], s);
  return matmul(rowsOf(grad), unfold(images, s).transpose(0, 1)).reshape([grad.shape[1] as number, s.c, ...s.kernel]);
}

/** What `convolve` hands its images of the gradient of its result. */
export function imageGradient(grad: Tensor, filters: Tensor, s: Windows): Tensor {
  if (toImages.has(grad, filters, s)) return apply(toImages.op, [grad, filters], s);
  const columns = filters.reshape([filters.shape[0] as number, taps(s)]).transpose(0, 1);
  return fold(matmul(columns, rowsOf(grad)), s);
}
