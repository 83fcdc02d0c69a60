/** @file Keeps the right operands that XNNPACK packs apart: its cache finds them by the id of their memory, whatever shape that is read in. */
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import type { TfInfo, TfModule } from './tfjs.ts';

/** Kernels that keep the packed form of operand `b`. Conv2D's key has all sizes in it, and the others keep nothing of an operand. */
const PACKING = ['BatchMatMul', '_FusedMatMul'] as const;

interface Call {
  readonly inputs: Readonly<Record<string, TfInfo>>;
  readonly attrs: { readonly transposeA?: boolean; readonly transposeB?: boolean };
  readonly backend: object;
}
type Kernel = (call: Call) => TfInfo | TfInfo[];

/** Replaces the kernels that would take the packed form of one shape for that of another: for lifted code, too. */
export function keepPackedApart(tf: TfModule, backend: BackendWasm): void {
  const packed = new PackedOperands(backend);
  for (const name of PACKING) {
    const config = tf.getKernel(name, 'wasm');
    if (config === undefined) continue;
    const kernel = config.kernelFunc as unknown as Kernel;
    const guarded: Kernel = (call) => packed.run(kernel, call);
    tf.unregisterKernel(name, 'wasm');
    tf.registerKernel({ ...config, kernelFunc: guarded as never });
  }
}

/** The object that stands for one memory, and on it the rows of the matrix that this was packed as: with its size they fix the shape. */
interface Packed {
  packedRows?: number;
}

class PackedOperands {
  private readonly backend: BackendWasm;

  constructor(backend: BackendWasm) {
    this.backend = backend;
  }

  run(kernel: Kernel, call: Call): TfInfo | TfInfo[] {
    const b = call.inputs['b'] as TfInfo;
    const { transposeA = false, transposeB = false } = call.attrs;
    // Transposed operands and batches take a loop of their own, which packs nothing.
    if (transposeA || transposeB || batchesOf(b.shape) !== 1) return kernel(call);
    const rows = b.shape[b.shape.length - 2] as number;
    const memory: Packed = b.dataId;
    memory.packedRows ??= rows;
    if (memory.packedRows === rows) return kernel(call);
    return this.withAlias(b, (alias) => kernel({ ...call, inputs: { ...call.inputs, b: alias } }));
  }

  /** Runs `use` with the memory of `b` under an id of its own, which with what was packed for it ends with the call. */
  private withAlias<T>(b: TfInfo, use: (alias: TfInfo) => T): T {
    const { backend } = this;
    const alias = backend.makeOutput(b.shape, b.dtype, backend.getMemoryOffset(b.dataId));
    try {
      return use(alias);
    } finally {
      forgetId(backend, alias.dataId);
    }
  }
}

function batchesOf(shape: readonly number[]): number {
  let batches = 1;
  for (let d = shape.length - 3; d >= 0; d--) batches *= shape[d] as number;
  return batches;
}

/** Ends an id, and what was packed for it, but not its memory. */
export function forgetId(backend: BackendWasm, dataId: object): void {
  const { id } = backend.dataIdMap.get(dataId);
  (backend.wasm as unknown as { tfjs: { disposeData(id: number): void } }).tfjs.disposeData(id);
  backend.dataIdMap.delete(dataId);
}
