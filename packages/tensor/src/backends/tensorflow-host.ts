/**
 * @file The native TensorFlow backend on the processor: its products, of operands on the heap where they lie; all else is the wasm
 * backend, whose kernels have less around them than the addon's calls, and which has those that the addon lacks.
 */
import { TensorError } from '../errors.ts';
import type { BackendName, DeviceTensor } from './backend.ts';
import { blockOf, type Block, type Heap } from './heap.ts';
import type { OwnKernel } from './own-kernel.ts';
import { FEW_FILTERS, productsOf } from './products.ts';
import type { Attribute, Handle, NativeOps } from './tf-native.ts';
import { Wasm, wasmParts } from './wasm.ts';

/** Multiply-adds up to which our own product takes no longer than a call of the addon. */
const SMALL_PRODUCT = 2 ** 18;

type Inputs = Readonly<Record<string, DeviceTensor>>;

export class TensorflowOnHost extends Wasm {
  override readonly name: BackendName = 'tensorflow';
  // With more of them the library's product makes good for the columns.
  override readonly convolves = FEW_FILTERS;
  private readonly ops: NativeOps;
  private readonly small: OwnKernel;
  /** By whether the operands lie column by column. */
  private readonly turns: readonly (readonly Attribute[])[];

  /** @throws TensorError where the library does not compute in memory of ours. */
  constructor(ops: NativeOps) {
    super(...wasmParts());
    this.ops = ops;
    checkSharing(ops, this.heap);
    this.small = this.kernels.get('BatchMatMul') as OwnKernel;
    this.turns = [0, 1, 2, 3].map((turn) => [ops.flag('adj_x', turn > 1), ops.flag('adj_y', turn % 2 === 1)]);
    this.kernels.set('BatchMatMul', (heap, inputs, attrs) => this.product(heap, inputs, attrs));
  }

  private product(heap: Heap, inputs: Inputs, attrs: Readonly<Record<string, unknown>>): Block {
    const { batches, m, n, k, turnA, turnB } = productsOf(inputs, attrs);
    if (batches * m * n * k <= SMALL_PRODUCT) return this.small(heap, inputs, attrs);
    // Before the operands are looked at: a heap that grows may move.
    const out = heap.make(batches * m * n, 'float32');
    const held: Handle[] = [];
    const over = (block: Block, rows: number, columns: number): Handle => {
      const shape = batches === 1 ? [1, rows, columns] : [1, batches, rows, columns];
      const made = this.ops.make(heap.view(block), 'float32', shape);
      held.push(made);
      return made;
    };
    try {
      const [a, b] = [blockOf((inputs['a'] as DeviceTensor).buffer), blockOf((inputs['b'] as DeviceTensor).buffer)];
      const x = over(a, turnA ? k : m, turnA ? m : k);
      const y = over(b, turnB ? n : k, turnB ? k : n);
      const result = this.ops.run('BatchMatMulV2', [x, y], this.turns[2 * Number(turnA) + Number(turnB)]);
      held.push(result);
      this.ops.put(over(out, m, n), result);
      return out;
    } catch (error) {
      heap.free(out);
      throw error;
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
