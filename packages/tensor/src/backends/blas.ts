/** @file The backend of a BLAS library: its products, in place on the WebAssembly heap, and the kernels of the wasm backend for everything else. */
import type { BackendName, DeviceTensor } from './backend.ts';
import { openLibrary, type BlasLibrary } from './blas-library.ts';
import { blockOf, type Block, type Heap } from './heap.ts';
import { productsOf } from './products.ts';
import { getNumThreads, onThreads } from './threads.ts';
import { Wasm, wasmParts } from './wasm.ts';

let opened: Blas | undefined;

/** Opens the machine's BLAS. @throws TensorError with the reason where there is none that can be used. */
export function openBlas(): Blas {
  return (opened ??= new Blas(openLibrary()));
}

class Blas extends Wasm {
  override readonly name: BackendName = 'blas';
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
    attrs: Readonly<Record<string, unknown>>,
  ): Block {
    const { batches, m, n, k, turnA, turnB } = productsOf(inputs, attrs);
    const out = heap.make(batches * m * n, 'float32');
    // After the block was made: a heap that grows may move.
    const start = this.heapStart(heap);
    const [x, y] = [
      start + blockOf((inputs['a'] as DeviceTensor).buffer).at,
      start + blockOf((inputs['b'] as DeviceTensor).buffer).at,
    ];
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
