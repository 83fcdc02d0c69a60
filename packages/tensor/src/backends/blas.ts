/** @file The backend of a BLAS library: its products, in place on the WebAssembly heap, and the kernels of the wasm backend for everything else. */
import { sizeOf } from '../shape.ts';
import type { BackendName, DeviceTensor, Worth } from './backend.ts';
import { openLibrary, type BlasLibrary } from './blas-library.ts';
import { blockOf, type Block, type Heap } from './heap.ts';
import { getNumThreads, onThreads } from './threads.ts';
import { Wasm, WASM_WORTH, wasmParts } from './wasm.ts';

/** A call costs a quarter of a microsecond. */
export const BLAS_WORTH: Worth = { ...WASM_WORTH, matmul: 4096 };

let opened: Blas | undefined;

/** Opens the machine's BLAS. @throws TensorError with the reason where there is none that can be used. */
export function openBlas(): Blas {
  return (opened ??= new Blas(openLibrary()));
}

class Blas extends Wasm {
  override readonly name: BackendName = 'blas';
  override readonly worth = BLAS_WORTH;
  override readonly fastTransposedMatmul = true;
  readonly detail: string;
  private readonly library: BlasLibrary;
  private memory: ArrayBufferLike | undefined;
  /** Where the heap starts in this process. */
  private base = 0;

  constructor(library: BlasLibrary) {
    super(...wasmParts());
    this.library = library;
    this.detail = library.path;
    library.setThreads?.(getNumThreads());
    onThreads((threads) => library.setThreads?.(threads));
    this.kernels.set('BatchMatMul', (heap, inputs, attrs) => this.product(heap, inputs, attrs));
  }

  private product(
    heap: Heap,
    inputs: Readonly<Record<string, DeviceTensor>>,
    { transposeA, transposeB }: Readonly<Record<string, unknown>>,
  ): Block {
    const [a, b] = [inputs['a'] as DeviceTensor, inputs['b'] as DeviceTensor];
    const [turnA, turnB] = [transposeA === true, transposeB === true];
    const rank = a.shape.length;
    const batches = sizeOf(a.shape.slice(0, -2));
    const [p, q] = [a.shape[rank - 2] as number, a.shape[rank - 1] as number];
    const [m, k] = turnA ? [q, p] : [p, q];
    const n = b.shape[rank - (turnB ? 2 : 1)] as number;
    const out = heap.make(batches * m * n, 'float32');
    // After the block was made: a heap that grows may move.
    const start = this.heapStart(heap);
    const [x, y] = [start + blockOf(a.buffer).at, start + blockOf(b.buffer).at];
    for (let i = 0; i < batches; i++)
      this.library.multiply(
        m,
        n,
        k,
        x + 4 * i * m * k,
        turnA,
        y + 4 * i * k * n,
        turnB,
        start + out.at + 4 * i * m * n,
      );
    return out;
  }

  private heapStart(heap: Heap): number {
    const { buffer } = heap.memory;
    if (buffer !== this.memory) {
      this.memory = buffer;
      this.base = this.library.addressOf(buffer);
    }
    return this.base;
  }
}
