/** @file Products by the addon of TensorFlow.js, of operands on the heap where they lie: where its library cannot be called without it. */
import { TensorError } from '../errors.ts';
import type { Heap } from './heap.ts';
import type { MultiplyAll } from './products.ts';
import type { Handle, NativeOps } from './tf-native.ts';

/** @throws TensorError where the library does not compute in memory of ours. */
export function addonProducts(ops: NativeOps, ourHeap: Heap): MultiplyAll {
  checkSharing(ops, ourHeap);
  /** By whether the operands lie column by column. */
  const turns = [0, 1, 2, 3].map((turn) => [ops.flag('adj_x', turn > 1), ops.flag('adj_y', turn % 2 === 1)]);
  return (heap, { m, n, k, a, turnA, b, turnB, out }, batches) => {
    const held: Handle[] = [];
    const over = (from: number, rows: number, columns: number): Handle => {
      const shape = batches === 1 ? [1, rows, columns] : [1, batches, rows, columns];
      const bytes = new Uint8Array(heap.memory.buffer, from, 4 * batches * rows * columns);
      const made = ops.make(bytes, 'float32', shape);
      held.push(made);
      return made;
    };
    try {
      const x = over(a, turnA ? k : m, turnA ? m : k);
      const y = over(b, turnB ? n : k, turnB ? k : n);
      const result = ops.run('BatchMatMulV2', [x, y], turns[2 * Number(turnA) + Number(turnB)]);
      held.push(result);
      ops.put(over(out, m, n), result);
    } finally {
      // They are of memory that is the library's for this one operation.
      for (const handle of held) ops.free(handle);
    }
  };
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
