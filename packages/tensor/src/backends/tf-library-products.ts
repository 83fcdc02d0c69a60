/** @file Products by TensorFlow's library. */
import type { Heap } from './heap.ts';
import { CHECK_SIZE, productsAreRight } from './product-check.ts';
import type { MultiplyAll } from './products.ts';
import type { TensorflowLibrary } from './tf-library.ts';

/** undefined where they are not right. */
export function libraryProducts(library: TensorflowLibrary, heap: Heap): MultiplyAll | undefined {
  const multiply = productsBy(library);
  let right = false;
  heap.meanwhile(CHECK_SIZE, (at) => {
    const memory = new Float32Array(heap.memory.buffer, at, CHECK_SIZE);
    right = productsAreRight(memory, at, (product) => multiply(heap, product, 1));
  });
  return right ? multiply : undefined;
}

function productsBy(library: TensorflowLibrary): MultiplyAll {
  const way = (name: string, first: string, second: string) => {
    const [turnA, turnB] = [library.flag(first, true), library.flag(second, true)];
    // By whether the operands lie column by column.
    return { name: library.text(name), turned: [[], [turnB], [turnA], [turnA, turnB]] } as const;
  };
  const one = way('MatMul', 'transpose_a', 'transpose_b');
  const many = way('BatchMatMulV2', 'adj_x', 'adj_y');
  return (heap, { m, n, k, a, turnA, b, turnB, out }, batches) => {
    const x = turnA ? [k, m] : [m, k];
    const y = turnB ? [n, k] : [k, n];
    if (batches !== 1) for (const dims of [x, y]) dims.unshift(batches);
    const { name, turned } = batches === 1 ? one : many;
    const attributes = turned[2 * Number(turnA) + Number(turnB)] ?? [];
    const operands = [
      { at: a, dims: x },
      { at: b, dims: y },
    ];
    library.run(heap, name, operands, attributes, out, batches * m * n);
  };
}
