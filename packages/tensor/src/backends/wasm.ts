/** @file The WebAssembly backend of TensorFlow.js: kernels are called directly, and its heap is read and written in place. */
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import { TensorError } from '../errors.ts';
import type { Backend, DeviceBuffer, DeviceDType } from './backend.ts';
import { loadTf, type TfInfo, type TfModule } from './tfjs.ts';

let opened: Promise<Backend> | undefined;

/** Starts the backend (about 10 ms in Node); later calls share it. */
export function openWasm(): Promise<Backend> {
  return (opened ??= open());
}

const BYTES: Readonly<Record<DeviceDType, number>> = { float32: 4, int32: 4, bool: 1 };

async function open(): Promise<Backend> {
  const tf = await loadTf();
  await import('@tensorflow/tfjs-backend-wasm');
  const before = tf.getBackend();
  const keepListeners = withoutNewListeners();
  const started = await tf.setBackend('wasm');
  keepListeners();
  if (!started) {
    if (before !== '') await tf.setBackend(before);
    throw new TensorError('the wasm backend of TensorFlow.js did not start');
  }
  return new Wasm(tf, tf.backend() as BackendWasm);
}

/** Emscripten's start-up code takes over the process's uncaught errors; what this returns gives them back. */
function withoutNewListeners(): () => void {
  const { process } = globalThis;
  const events = ['uncaughtException', 'unhandledRejection'] as const;
  const before = new Map(events.map((event) => [event, new Set<unknown>(process?.listeners?.(event as never) ?? [])]));
  return () => {
    for (const event of events) {
      for (const listener of process?.listeners?.(event as never) ?? []) {
        if (before.get(event)?.has(listener) !== true) process.removeListener(event, listener as () => void);
      }
    }
  };
}

/** What the engine keeps of one kernel. */
type KernelFunc = (call: { inputs: object; attrs: object; backend: object }) => TfInfo | TfInfo[];

class Wasm implements Backend {
  readonly name = 'wasm';
  // Uploads are copied into the heap.
  readonly aliasesUploads = false;
  readonly worth = {
    elementwise: 2048,
    broadcast: 2048,
    // Its sums run in single precision, one element after the other.
    reduce: Infinity,
    transpose: 16_384,
    gather: Infinity,
    matmul: 16_384,
  };
  // transposeA/B take a path 18 to 30 times slower than an explicit transpose.
  readonly fastTransposedMatmul = false;
  private readonly tf: TfModule;
  private readonly backend: BackendWasm;
  private readonly kernels = new Map<string, KernelFunc | undefined>();

  constructor(tf: TfModule, backend: BackendWasm) {
    this.tf = tf;
    this.backend = backend;
  }

  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    const info = this.backend.makeOutput([bytes.byteLength / BYTES[dtype]], dtype);
    const buffer = { dataId: info.dataId, dtype, nbytes: bytes.byteLength };
    this.view(buffer).set(bytes);
    return buffer;
  }

  view(buffer: DeviceBuffer): Uint8Array {
    const at = this.backend.getMemoryOffset(buffer.dataId);
    const heap = (this.backend.wasm as unknown as { HEAPU8: Uint8Array }).HEAPU8;
    return new Uint8Array(heap.buffer, at, buffer.nbytes);
  }

  /**
   * XNNPACK packs the right operand of a product when it first sees it, and finds the packed form by the tensor's id: after a change
   * in place the old id must be forgotten. The memory itself stays where it is.
   */
  renew(buffer: DeviceBuffer): DeviceBuffer {
    const { dataId, dtype, nbytes } = buffer;
    const record = this.backend.dataIdMap.get(dataId);
    (this.backend.wasm as unknown as { tfjs: { disposeData(id: number): void } }).tfjs.disposeData(record.id);
    this.backend.dataIdMap.delete(dataId);
    const renewed = this.backend.makeOutput([nbytes / BYTES[dtype]], dtype, record.memoryOffset);
    return { dataId: renewed.dataId, dtype, nbytes };
  }

  download(buffer: DeviceBuffer): Uint8Array {
    return this.view(buffer).slice();
  }

  free(buffer: DeviceBuffer): void {
    this.backend.disposeData(buffer.dataId);
  }

  has(kernel: string): boolean {
    return this.find(kernel) !== undefined;
  }

  run(
    kernel: string,
    inputs: Readonly<Record<string, { readonly buffer: DeviceBuffer; readonly shape: readonly number[] }>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer {
    const fn = this.find(kernel);
    if (fn === undefined) throw new TensorError(`the wasm backend has no kernel ${kernel}`);
    const infos: Record<string, TfInfo> = {};
    for (const [name, { buffer, shape }] of Object.entries(inputs)) {
      infos[name] = { dataId: buffer.dataId, dtype: buffer.dtype, shape: shape as number[] };
    }
    const out = fn({ inputs: infos, attrs, backend: this.backend }) as TfInfo;
    const size = out.shape.reduce((a, b) => a * b, 1);
    const dtype = out.dtype as DeviceDType;
    return { dataId: out.dataId, dtype, nbytes: size * BYTES[dtype] };
  }

  private find(kernel: string): KernelFunc | undefined {
    if (this.kernels.has(kernel)) return this.kernels.get(kernel);
    const fn = this.tf.getKernel(kernel, 'wasm')?.kernelFunc as unknown as KernelFunc | undefined;
    this.kernels.set(kernel, fn);
    return fn;
  }
}
