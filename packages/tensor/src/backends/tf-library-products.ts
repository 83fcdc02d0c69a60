/** @file Products by TensorFlow's library. */
import { TensorError } from '../errors.ts';
import type { Heap } from './heap.ts';
import { CHECK_SIZE, productsAreRight } from './product-check.ts';
import type { MultiplyAll } from './products.ts';
import type { TensorflowLibrary } from './tf-library.ts';

/** undefined where they are refused or not right. */
export function libraryProducts(library: TensorflowLibrary, heap: Heap): MultiplyAll | undefined {
  const multiply = productsBy(library);
  let right = false;
  try {
    heap.meanwhile(CHECK_SIZE, (at) => {
      const memory = new Float32Array(heap.memory.buffer, at, CHECK_SIZE);
      right = productsAreRight(memory, at, (product) => multiply(heap, product, 1));
    });
  } catch (error) {
    if (!(error instanceof TensorError)) throw error;
  }
  return right ? multiply : undefined;
}

function productsBy(library: TensorflowLibrary): MultiplyAll {
  // Not MatMul, also of one matrix: its kernel (oneDNN's sgemm, seen in TensorFlow 2.21) keeps what it works with where the frame of a signal
  // may come, and with a profiler on it destroys the process's memory.
  const name = library.text('BatchMatMulV2');
  const [first, second] = [library.flag('adj_x', true), library.flag('adj_y', true)];
  /** By whether the operands lie column by column. */
  const turned = [[], [second], [first], [first, second]] as const;
  return (heap, { m, n, k, a, turnA, b, turnB, out }, batches) => {
    const x = turnA ? [k, m] : [m, k];
    const y = turnB ? [n, k] : [k, n];
    if (batches !== 1) for (const dims of [x, y]) dims.unshift(batches);
    const operands = [
      { at: a, dims: x },
      { at: b, dims: y },
    ];
    library.run(heap, name, operands, turned[2 * Number(turnA) + Number(turnB)] ?? [], out, batches * m * n);
  };
}
