/** @file Calls device kernels on Tensors, or answers undefined where the host loop should do the work. */
import { relieveDevice } from '../device-memory.ts';
import { dtypes, type DType } from '../dtype.ts';
import { TensorError } from '../errors.ts';
import { aligned, readBytes, over } from '../host.ts';
import { contiguousStrides, sizeOf, type Shape } from '../shape.ts';
import { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';
import type { Backend, DeviceBuffer, DeviceDType, DeviceTensor, Worth } from '../backends/backend.ts';
import { backendWorth, currentBackend } from '../backends/current.ts';
import { usable } from '../backends/quirks.ts';

/** Kinds of work with their own break-even size. */
export type WorkClass = keyof Worth;

/** The backend, when it has `kernel` and `work` units make it pay. */
export function backendFor(kernel: string, work: WorkClass, units: number): Backend | undefined {
  const backend = backendWorth(work, units);
  return backend?.has(kernel) === true && usable(backend.name, kernel) ? backend : undefined;
}

/** Dimensions that every kernel takes; XNNPACK's write nothing for more, and say so on the console alone. */
export const KERNEL_RANK = 6;

/** Whether the device computes in this dtype. */
export function isDeviceDType(dtype: DType): dtype is DeviceDType {
  return dtype === 'float32' || dtype === 'int32' || dtype === 'bool';
}

/** A borrowed argument: its storage's own device memory, or a temporary. */
export interface Argument extends DeviceTensor {
  readonly temporary: boolean;
}

/** `t` as a kernel argument, contiguous. Transposed views are transposed on the device where that pays. */
export function argument(backend: Backend, t: Tensor): Argument {
  const dtype = t.dtype as DeviceDType;
  // What lies in other memory stays there: the kernel gets a copy.
  const elsewhere = t.device !== 'cpu' && t.device !== (backend.device ?? 'cpu');
  if (!elsewhere && t.offset === 0 && t.isContiguous && t.size * dtypes[dtype].bytes === t.storage.nbytes) {
    return { buffer: t.storage.toDevice(backend, dtype), shape: t.shape, temporary: false };
  }
  const turned = elsewhere ? undefined : transposed(backend, t);
  if (turned !== undefined) return { buffer: turned, shape: t.shape, temporary: true };
  const bytes = readBytes(t);
  // A slice of device memory would move when the upload grows the heap.
  const source = t.storage.onHost || !t.isContiguous ? bytes : bytes.slice();
  return { buffer: backend.upload(source, dtype), shape: t.shape, temporary: true };
}

/** A contiguous `t` as an operand of a product where the device reads those of the host in place; undefined where `t` is on a device. */
export function lent(backend: Backend, t: Tensor): Argument | undefined {
  if (backend.lend === undefined || t.dtype !== 'float32' || t.device !== 'cpu') return undefined;
  if (t.storage.onDevice || !t.isContiguous) return undefined;
  return { buffer: backend.lend(aligned(readBytes(t), 4)), shape: t.shape, temporary: false };
}

/** Gives temporaries back. */
export function freeArguments(backend: Backend, list: readonly Argument[]): void {
  for (const a of list) if (a.temporary) backend.free(a.buffer);
}

/** Runs one kernel on tensors; the result is a contiguous tensor of `shape` without history. `seen`: other shapes of inputs for the kernel. */
export function runKernel<D extends DType>(
  backend: Backend,
  kernel: string,
  inputs: Readonly<Record<string, Tensor>>,
  attrs: Readonly<Record<string, unknown>>,
  dtype: D,
  shape: Shape,
  seen?: Readonly<Record<string, Shape>>,
): Tensor<D> {
  relieveDevice();
  const borrowed: Record<string, Argument> = {};
  try {
    for (const [name, t] of Object.entries(inputs)) {
      const given = argument(backend, t);
      borrowed[name] = seen === undefined ? given : { ...given, shape: seen[name] as Shape };
    }
    const device = backend.run(kernel, borrowed, attrs);
    return over(new Storage({ device, backend }), dtype, shape);
  } finally {
    freeArguments(backend, Object.values(borrowed));
  }
}

/** What is larger than this is rare, and would stay the heap's when it is gone: WebAssembly gives no memory back. */
const MAX_WRITTEN_BYTES = 64 * 2 ** 20;

/**
 * A contiguous tensor whose bytes `write` gives, in the device's own memory where that can be written from here and its size pays: such
 * memory is used again when the tensor is gone, where an array would be the collector's. Read operands in `write`, not before: making room
 * may move the device's memory.
 */
export function written<D extends DType>(dtype: D, shape: Shape, write: (bytes: Uint8Array) => void): Tensor<D> {
  const size = sizeOf(shape);
  const nbytes = size * dtypes[dtype].bytes;
  const made = isDeviceDType(dtype) && nbytes <= MAX_WRITTEN_BYTES ? roomFor(dtype, size) : undefined;
  if (made === undefined) {
    const bytes = new Uint8Array(nbytes);
    write(bytes);
    return over(new Storage(bytes), dtype, shape);
  }
  const { backend, device } = made;
  try {
    write(backend.view(device) as Uint8Array);
  } catch (error) {
    backend.free(device);
    throw error;
  }
  return over(new Storage({ device, backend }), dtype, shape);
}

/** Memory of the device; undefined where it is not worth it, cannot be addressed, or is full. */
function roomFor(dtype: DeviceDType, size: number): { backend: Backend; device: DeviceBuffer } | undefined {
  const backend = backendWorth('elementwise', size);
  if (backend?.make === undefined) return undefined;
  relieveDevice();
  try {
    return { backend, device: backend.make(size, dtype) };
  } catch (error) {
    if (error instanceof TensorError) return undefined;
    throw error;
  }
}

/** A contiguous copy of a permuted view made by the device, when it has the memory and that pays. */
export function contiguousOnDevice<D extends DType>(t: Tensor<D>): Tensor<D> | undefined {
  if (!isDeviceDType(t.dtype) || t.isContiguous) return undefined;
  const backend = t.storage.onDevice ? currentBackend() : backendWorth('transpose', t.size);
  if (backend === undefined) return undefined;
  if (t.device !== (backend.device ?? 'cpu')) return undefined;
  relieveDevice();
  const device = transposed(backend, t);
  return device === undefined ? undefined : over(new Storage({ device, backend }), t.dtype, t.shape);
}

/** A view of device memory as contiguous elements, where its dimensions merge into four. */
function copiedView(backend: Backend, t: Tensor, dtype: DeviceDType): DeviceBuffer | undefined {
  if (dtype === 'bool') return undefined;
  // What lies on the host goes there first where the view is all of it, which costs less than the copy.
  if (!t.storage.onDevice && t.size * dtypes[dtype].bytes !== t.storage.nbytes) return undefined;
  const dims = mergedDims(t.shape, t.strides);
  if (dims.length > 4) return undefined;
  while (dims.length < 4) dims.unshift({ n: 1, step: 0 });
  const buffer = t.storage.toDevice(backend, dtype);
  const attrs = { offset: t.offset, sizes: dims.map(({ n }) => n), strides: dims.map(({ step }) => step) };
  return backend.run('CopyStrided', { x: { buffer, shape: t.shape } }, attrs);
}

/** The dimensions of a view with those merged that are walked as one, and none of one element. */
export function mergedDims(shape: Shape, strides: Shape): { n: number; step: number }[] {
  const dims: { n: number; step: number }[] = [];
  for (let d = 0; d < shape.length; d++) {
    const [n, step] = [shape[d] as number, strides[d] as number];
    if (n === 1) continue;
    const before = dims.at(-1);
    if (before !== undefined && before.step === step * n) dims[dims.length - 1] = { n: before.n * n, step };
    else dims.push({ n, step });
  }
  return dims;
}

/** The view materialised by a Transpose kernel, when it is a permutation of its whole storage. */
function transposed(backend: Backend, t: Tensor): DeviceBuffer | undefined {
  const dtype = t.dtype as DeviceDType;
  if (t.size < backend.worth.transpose) return undefined;
  if (backend.has('CopyStrided')) return copiedView(backend, t, dtype);
  if (t.offset !== 0 || !backend.has('Transpose')) return undefined;
  if (t.rank > KERNEL_RANK) return undefined;
  if (t.size * dtypes[dtype].bytes !== t.storage.nbytes) return undefined;
  // Sorting the dimensions by stride undoes the permutation, if it is one.
  const order = t.shape.map((_, i) => i).sort((a, b) => (t.strides[b] as number) - (t.strides[a] as number) || a - b);
  const base = order.map((d) => t.shape[d] as number);
  const expected = contiguousStrides(base);
  const fits = order.every((d, i) => t.shape[d] === 1 || t.strides[d] === expected[i]);
  if (!fits) return undefined;
  const perm = t.shape.map((_, i) => order.indexOf(i));
  const buffer = t.storage.toDevice(backend, dtype);
  return backend.run('Transpose', { x: { buffer, shape: base } }, { perm });
}
