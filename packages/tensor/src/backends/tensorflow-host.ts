/**
 * @file The native TensorFlow backend on the processor: its products, of operands on the heap where they lie; all else is the wasm
 * backend, whose kernels have less around them than the addon's calls, and which has those that the addon lacks.
 */
import { TensorError } from '../errors.ts';
import type { BackendName } from './backend.ts';
import { addingUp, FEW_FILTERS } from './columns.ts';
import type { Heap } from './heap.ts';
import { at, input, type OwnKernel } from './own-kernel.ts';
import { productsOf, type Multiply, type Product } from './products.ts';
import type { Attribute, Handle, NativeOps } from './tf-native.ts';
import { Wasm, wasmParts } from './wasm.ts';

/** Multiply-adds up to which our own product takes no longer than a call of the addon. */
const SMALL_PRODUCT = 2 ** 18;

export class TensorflowOnHost extends Wasm {
  override readonly name: BackendName = 'tensorflow';
  private readonly ops: NativeOps;
  /** By whether the operands lie column by column. */
  private readonly turns: readonly (readonly Attribute[])[];

  /** @throws TensorError where the library does not compute in memory of ours. */
  constructor(ops: NativeOps) {
    super(...wasmParts());
    this.ops = ops;
    checkSharing(ops, this.heap);
    this.turns = [0, 1, 2, 3].map((turn) => [ops.flag('adj_x', turn > 1), ops.flag('adj_y', turn % 2 === 1)]);
    const small = this.kernels.get('BatchMatMul') as OwnKernel;
    this.kernels.set('BatchMatMul', (heap, inputs, attrs) => {
      const { batches, m, n, k, turnA, turnB } = productsOf(inputs, attrs);
      if (batches * m * n * k <= SMALL_PRODUCT) return small(heap, inputs, attrs);
      const [a, b] = [at(input(inputs, 'a')), at(input(inputs, 'b'))];
      return heap.filled(batches * m * n, (out) => this.products(heap, { m, n, k, a, turnA, b, turnB, out }, batches));
    });
    const replace: Multiply = (heap, product) => {
      const small = product.m * product.n * product.k <= SMALL_PRODUCT;
      if (small) this.multiply(heap, product);
      else this.products(heap, product, 1);
    };
    this.convolveBy(FEW_FILTERS, addingUp(this.exports, replace));
  }

  /** Products of matrices that lie one after the other; `out` is a multiple of 64. */
  private products(heap: Heap, { m, n, k, a, turnA, b, turnB, out }: Product, batches: number): void {
    const held: Handle[] = [];
    const over = (from: number, rows: number, columns: number): Handle => {
      const shape = batches === 1 ? [1, rows, columns] : [1, batches, rows, columns];
      const bytes = new Uint8Array(heap.memory.buffer, from, 4 * batches * rows * columns);
      const made = this.ops.make(bytes, 'float32', shape);
      held.push(made);
      return made;
    };
    try {
      const x = over(a, turnA ? k : m, turnA ? m : k);
      const y = over(b, turnB ? n : k, turnB ? k : n);
      const result = this.ops.run('BatchMatMulV2', [x, y], this.turns[2 * Number(turnA) + Number(turnB)]);
      held.push(result);
      this.ops.put(over(out, m, n), result);
    } finally {
      // They are of memory that is the library's for this one operation.
      for (const handle of held) this.ops.free(handle);
    }
  }
}

/** The library reads and writes in place what lies at a multiple of 64 bytes; elsewhere, and where that has changed, it would make copies. */
function checkSharing(ops: NativeOps, heap: Heap): void {
  const block = heap.make(16, 'float32');
  heap.view(block).fill(0);
  const [ours, other] = [
    ops.make(heap.view(block), 'float32', [1, 16]),
    ops.make(new Uint8Array(new Float32Array(16).fill(1).buffer), 'float32', [1, 16]),
  ];
  ops.put(ours, other);
  const written = new Float32Array(heap.memory.buffer, block.at, 16).every((value) => value === 1);
  for (const handle of [ours, other]) ops.free(handle);
  heap.free(block);
  if (!written) throw new TensorError('this TensorFlow does not compute in memory that is given to it');
}
