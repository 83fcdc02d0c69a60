/** @file The WebAssembly backend: kernels of our own on TensorFlow.js's heap, and TensorFlow.js's where there is none; both called directly, in place. */
import type * as tfjsWasm from '@tensorflow/tfjs-backend-wasm';
import { TensorError } from '../errors.ts';
import type { Backend, BackendName, DeviceBuffer, DeviceDType, DeviceTensor, DeviceUpdate, Worth } from './backend.ts';
import { addingUp, byFilters, columnKernels, type MultiplyAdd } from './columns.ts';
import { blockOf, Heap } from './heap.ts';
import type { OwnKernel } from './own-kernel.ts';
import type { Multiply } from './products.ts';
import { recurrentKernels } from './recurrent.ts';
import { CONSTANTS_BYTES, ownKernels, ownUpdate, multiplyBy, startSimd, type SimdExports } from './simd.ts';
import { loadTf, requireHere, tfCore, type Require, type TfInfo, type TfModule } from './tfjs.ts';
import { keepPackedApart } from './wasm-packing.ts';

type BackendWasm = tfjsWasm.BackendWasm;

const PACKAGE = '@tensorflow/tfjs-backend-wasm';
/** As in TensorFlow.js: of two backends that nobody chose between, the one with the larger number is taken. */
const PRIORITY = 2;

export const WASM_WORTH: Worth = {
  elementwise: 1024,
  broadcast: 1024,
  reduce: 2048,
  transpose: 4096,
  gather: 1024,
  matmul: 4096,
  update: 1024,
};

let opened: Wasm | undefined;
let parts: [TfModule, BackendWasm] | undefined;

/** What TensorFlow.js's backend is made of, started without waiting: for backends on the same heap. */
export function wasmParts(): readonly [TfModule, BackendWasm] {
  openWasm();
  return parts as [TfModule, BackendWasm];
}

/** Starts the backend without waiting (about 50 ms in Node, most of it reading TensorFlow.js); later calls share it. */
export function openWasm(): Wasm {
  return (opened ??= openNow());
}

const NOT_STARTED =
  'the wasm backend of TensorFlow.js did not start: in a page, the .wasm files of @tensorflow/tfjs-backend-wasm have to be where its ' +
  "setWasmPaths() says, else beside the script, and a content security policy has to allow 'wasm-unsafe-eval'";

/** The same where that is impossible, as in browsers and bundles: by TensorFlow.js's own way, which finds the binary by its URL. */
export async function loadWasm(): Promise<Backend> {
  if (opened !== undefined) return opened;
  const tf = await loadTf();
  await import('@tensorflow/tfjs-backend-wasm');
  const before = tf.getBackend();
  const keepListeners = withoutNewListeners();
  const started = await tf.setBackend('wasm');
  keepListeners();
  const backend = tf.engine().registry['wasm'];
  // What did not start would stay TensorFlow.js's first choice, and every function of it would fail.
  const chosen = before || (started ? '' : 'cpu');
  if (chosen) await tf.setBackend(chosen);
  if (!started || backend === undefined) throw new TensorError(NOT_STARTED);
  return (opened ??= ready(tf, backend as BackendWasm));
}

function openNow(): Wasm {
  const tf = tfCore();
  const require = requireHere();
  if (require === undefined) throw new TensorError('the wasm backend cannot be started at once here');
  const lib = require(PACKAGE) as typeof tfjsWasm;
  // The program may have started it before.
  const started = tf.engine().registry['wasm'];
  if (started !== undefined) return ready(tf, started as BackendWasm);
  const before = tf.getBackend();
  const backend = new lib.BackendWasm(startModule(require));
  // Its own factory waits; this one need not, and everybody gets the one instance.
  tf.removeBackend('wasm');
  tf.registerBackend('wasm', () => backend, PRIORITY);
  // At once, as the factory is: it makes the kernels ready for the instance. What the program chose for itself it keeps.
  void tf.setBackend('wasm');
  if (before && before !== 'wasm') void tf.setBackend(before);
  return ready(tf, backend);
}

function ready(tf: TfModule, backend: BackendWasm): Wasm {
  keepPackedApart(tf, backend);
  parts = [tf, backend];
  return new Wasm(tf, backend);
}

/** What Emscripten's start-up code leaves in the object it is given. */
interface Emscripten {
  /** There once it runs. */
  _malloc?: (bytes: number) => number;
  cwrap(name: string, returns: 'number' | null, takes: readonly 'number'[]): (...args: number[]) => number;
  instantiateWasm(imports: WebAssembly.Imports, done: (instance: WebAssembly.Instance) => void): WebAssembly.Exports;
}

/**
 * TensorFlow.js's WebAssembly module, compiled and started without waiting: as its `init` does it, but for the waiting.
 * Threads are for browsers only.
 */
function startModule(require: Require): BackendWasm['wasm'] {
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const start = require(`${PACKAGE}/wasm-out/tfjs-backend-wasm.js`) as (module: object) => Promise<unknown>;
  const file = require.resolve(
    `${PACKAGE}/wasm-out/tfjs-backend-wasm${WebAssembly.validate(SIMD) ? '-simd' : ''}.wasm`,
  );
  const module = {
    instantiateWasm(imports, done) {
      const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(file)), imports);
      done(instance);
      return instance.exports;
    },
  } as Emscripten;
  const keepListeners = withoutNewListeners();
  // It is ready when `start` returns; the promise tells only what went wrong meanwhile, a turn too late.
  start(module).catch(() => undefined);
  keepListeners();
  if (module._malloc === undefined) throw new TensorError('the WebAssembly module of TensorFlow.js did not start');
  const wrap = (name: string, count: number, returns: 'number' | null = null): ((...args: number[]) => number) =>
    module.cwrap(name, returns, new Array<'number'>(count).fill('number'));
  return Object.assign(module, {
    tfjs: {
      init: wrap('init', 0),
      initWithThreadsCount: wrap('init_with_threads_count', 1),
      getThreadsCount: wrap('get_threads_count', 0, 'number'),
      registerTensor: wrap('register_tensor', 3),
      disposeData: wrap('dispose_data', 1),
      dispose: wrap('dispose', 0),
    },
  });
}

/** A module with one instruction on 128 bits. */
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

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

/** Kernels of our own and, where there is none, TensorFlow.js's, on one heap. */
export class Wasm implements Backend {
  readonly name: BackendName = 'wasm';
  // Uploads are copied into the heap.
  readonly aliasesUploads = false;
  readonly worth: Worth = WASM_WORTH;
  protected readonly heap: Heap;
  protected readonly kernels: Map<string, OwnKernel>;
  private readonly own: ReadonlyMap<string, OwnKernel>;
  private readonly tf: TfModule;
  private readonly backend: BackendWasm;
  protected readonly exports: SimdExports;
  /** Our own product, without what a library's call has around it. */
  protected readonly multiply: Multiply;
  private readonly foreign = new Map<string, KernelFunc | undefined>();

  constructor(tf: TfModule, backend: BackendWasm) {
    this.tf = tf;
    this.backend = backend;
    this.heap = new Heap(backend);
    this.exports = startSimd(this.heap.memory, this.heap.make(CONSTANTS_BYTES >> 2, 'float32').at);
    this.multiply = multiplyBy(this.exports);
    this.own = ownKernels(this.exports, this.multiply);
    this.kernels = new Map(this.own);
    // Its products are no faster than sums without columns.
    this.layersBy(Infinity, addingUp(this.exports, this.multiply));
  }

  /** Recurrent layers by products, and convolutions by products with columns; those of up to `few` filters without, where that is possible. */
  protected layersBy(few: number, multiply: MultiplyAdd): void {
    const replace: Multiply = (heap, product) => multiply(heap, product, false);
    for (const [name, kernel] of recurrentKernels(this.exports, replace)) this.kernels.set(name, kernel);
    for (const [name, columns] of columnKernels(this.exports, multiply)) {
      const direct = this.own.get(name);
      this.kernels.set(name, direct === undefined ? columns : byFilters(few, direct, columns));
    }
  }

  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    const block = this.heap.make(dtype === 'bool' ? bytes.byteLength : bytes.byteLength >> 2, dtype);
    this.heap.view(block).set(bytes);
    return block;
  }

  make(count: number, dtype: DeviceDType): DeviceBuffer {
    return this.heap.make(count, dtype);
  }

  view(buffer: DeviceBuffer): Uint8Array {
    return this.heap.view(blockOf(buffer));
  }

  /** XNNPACK finds what it has packed by the operand's id: after a change in place the old id must be forgotten. The memory stays. */
  renew(buffer: DeviceBuffer): DeviceBuffer {
    this.heap.unpack(blockOf(buffer));
    return buffer;
  }

  download(buffer: DeviceBuffer): Uint8Array {
    return this.view(buffer).slice();
  }

  downloadInto(buffer: DeviceBuffer, into: Uint8Array): void {
    into.set(this.view(buffer));
  }

  free(buffer: DeviceBuffer): void {
    this.heap.free(blockOf(buffer));
  }

  has(kernel: string): boolean {
    return this.kernels.has(kernel) || this.find(kernel) !== undefined;
  }

  run(
    kernel: string,
    inputs: Readonly<Record<string, DeviceTensor>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer {
    const own = this.kernels.get(kernel);
    if (own !== undefined) return own(this.heap, inputs, attrs);
    const fn = this.find(kernel);
    if (fn === undefined) throw new TensorError(`the ${this.name} backend has no kernel ${kernel}`);
    const infos: Record<string, TfInfo> = {};
    for (const [name, { buffer, shape }] of Object.entries(inputs)) {
      infos[name] = { dataId: this.heap.idOf(blockOf(buffer)), dtype: buffer.dtype, shape: shape as number[] };
    }
    const out = fn({ inputs: infos, attrs, backend: this.backend }) as TfInfo;
    const size = out.shape.reduce((a, b) => a * b, 1);
    const dtype = out.dtype as DeviceDType;
    return this.heap.adopt(out.dataId, dtype === 'bool' ? size : size * 4, dtype);
  }

  update(update: DeviceUpdate, targets: readonly DeviceTensor[], gradient: DeviceTensor): void {
    const blocks = targets.map(({ buffer }) => blockOf(buffer));
    // They are about to change: what was packed of them is old.
    for (const block of blocks) this.heap.unpack(block);
    ownUpdate(this.exports, update, blocks, blockOf(gradient.buffer));
  }

  descendRows(target: DeviceTensor, ids: DeviceTensor, gradient: DeviceTensor, lr: number): void {
    const [p, rows, g] = [blockOf(target.buffer), blockOf(ids.buffer), blockOf(gradient.buffer)];
    this.heap.unpack(p);
    const n = rows.nbytes >> 2;
    if (n > 0) this.exports['descendRows']?.(p.at, rows.at, g.at, n, g.nbytes / 4 / n, lr);
  }

  private find(kernel: string): KernelFunc | undefined {
    if (this.foreign.has(kernel)) return this.foreign.get(kernel);
    const fn = this.tf.getKernel(kernel, 'wasm')?.kernelFunc as unknown as KernelFunc | undefined;
    this.foreign.set(kernel, fn);
    return fn;
  }
}
