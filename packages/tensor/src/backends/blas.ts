/**
 * @file The backend of a BLAS library, also what `tensorflow` is on a processor that has one: its products, of operands on host or heap where
 * they lie; all else is the wasm backend.
 */
import type { Backend, BackendName, DeviceBuffer, DeviceTensor } from './backend.ts';
import { openLibrary, type BlasLibrary } from './blas-library.ts';
import { blockOf, heapStarts, type Block, type Heap } from './heap.ts';
import { FEW_FILTERS } from './columns.ts';
import type { OwnKernel } from './own-kernel.ts';
import { productsOf, type Product } from './products.ts';
import { sideBySide, type ProductOfLines } from './side-by-side.ts';
import { getNumThreads, onThreads } from './threads.ts';
import { Wasm, wasmParts } from './wasm.ts';

let opened: Blas | undefined;

/** Opens the machine's BLAS. @throws TensorError with the reason where there is none that can be used. */
export function openBlas(): Backend {
  return (opened ??= new Blas('blas', openLibrary()));
}

/** What another backend computes with where its own products cost more than a BLAS's. @throws TensorError as `openBlas`. */
export function blasFor(name: BackendName): Backend {
  return new Blas(name, openLibrary());
}

/** An operand on the host. */
class Lent implements DeviceBuffer {
  readonly dtype = 'float32';
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  get nbytes(): number {
    return this.bytes.byteLength;
  }

  get dataId(): object {
    return this;
  }
}

class Blas extends Wasm {
  override readonly name: BackendName;
  readonly detail: string;
  private readonly library: BlasLibrary;
  private readonly heapStart: (heap: Heap) => number;

  constructor(name: BackendName, library: BlasLibrary) {
    super(...wasmParts());
    this.name = name;
    this.library = library;
    this.heapStart = heapStarts((memory) => library.addressOf(memory));
    this.detail = library.path;
    library.setThreads?.(getNumThreads());
    onThreads((threads) => library.setThreads?.(threads));
    this.kernels.set('BatchMatMul', (heap, inputs, attrs) => this.product(heap, inputs, attrs));
    const multiply = (
      heap: Heap,
      { m, n, k, a, lineA, turnA, b, lineB, turnB, out, lineOut }: Product & Partial<ProductOfLines>,
      add: boolean,
    ): void => {
      const start = this.heapStart(heap);
      library.multiply(m, n, k, start + a, turnA, start + b, turnB, start + out, add, lineA, lineB, lineOut);
    };
    this.layersBy(FEW_FILTERS, multiply);
    const columns = (name: string): OwnKernel => this.kernels.get(name) as OwnKernel;
    for (const [name, kernel] of sideBySide(this.exports, multiply, columns)) this.kernels.set(name, kernel);
  }

  lend(bytes: Uint8Array): DeviceBuffer {
    return new Lent(bytes);
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
    const x = this.placeOf((inputs['a'] as DeviceTensor).buffer, start);
    const y = this.placeOf((inputs['b'] as DeviceTensor).buffer, start);
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

  /** Where an operand lies in this process. Small arrays lie in V8's own heap, which moves, until somebody asks for their buffer, as here. */
  private placeOf(operand: DeviceBuffer, heapStart: number): number {
    if (!(operand instanceof Lent)) return heapStart + blockOf(operand).at;
    const { buffer, byteOffset } = operand.bytes;
    return this.library.addressOf(buffer) + byteOffset;
  }
}
