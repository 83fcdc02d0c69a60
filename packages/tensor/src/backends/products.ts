/** @file Batches of matrix products on the WebAssembly heap: what operands and attributes say, and our own kernel for it. */
import { sizeOf } from '../shape.ts';
import type { DeviceTensor } from './backend.ts';
import type { Block, Heap } from './heap.ts';
import { at, input, type OwnKernel } from './own-kernel.ts';

/** Products [m, k] times [k, n] of matrices that lie one after the other. */
interface Products {
  readonly batches: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Whether an operand lies column by column. */
  readonly turnA: boolean;
  readonly turnB: boolean;
}

/** What BatchMatMul is asked for. */
export function productsOf(
  inputs: Readonly<Record<string, DeviceTensor>>,
  { transposeA, transposeB }: Readonly<Record<string, unknown>>,
): Products {
  const [a, b] = [inputs['a'] as DeviceTensor, inputs['b'] as DeviceTensor];
  const [turnA, turnB] = [transposeA === true, transposeB === true];
  const rank = a.shape.length;
  const [p, q] = [a.shape[rank - 2] as number, a.shape[rank - 1] as number];
  const [m, k] = turnA ? [q, p] : [p, q];
  const n = b.shape[rank - (turnB ? 2 : 1)] as number;
  return { batches: sizeOf(a.shape.slice(0, -2)), m, n, k, turnA, turnB };
}

/** out[m, n] = a[m, k] b[k, n]: addresses on the heap, and whether an operand lies column by column. */
export interface Product {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: number;
  readonly turnA: boolean;
  readonly b: number;
  readonly turnB: boolean;
  readonly out: number;
}

export type Multiply = (heap: Heap, product: Product) => void;
/** Of matrices that lie one after the other. */
export type MultiplyAll = (heap: Heap, product: Product, batches: number) => void;

/** Products by the kernels `product` and `productSpace`. */
export function ownMultiply(product: (...args: number[]) => void, productSpace: () => number): Multiply {
  /** What it packs operands into, once for each heap. */
  const spaces = new WeakMap<Heap, Block>();
  return (heap, { m, n, k, a, turnA, b, turnB, out }) => {
    let space = spaces.get(heap);
    if (space === undefined) spaces.set(heap, (space = heap.make(productSpace() >> 2, 'float32')));
    const [a0, a1, b0, b1] = [turnA ? 1 : k, turnA ? m : 1, turnB ? 1 : n, turnB ? k : 1];
    product(a, a0, a1, b, b0, b1, out, m, n, k, space.at);
  };
}

/** BatchMatMul by products of our own. */
export function ownProduct(multiply: Multiply): OwnKernel {
  return (heap, inputs, attrs) => {
    const { batches, m, n, k, turnA, turnB } = productsOf(inputs, attrs);
    const out = heap.make(batches * m * n, 'float32');
    const [a, b] = [at(input(inputs, 'a')), at(input(inputs, 'b'))];
    for (let i = 0; i < batches; i++) {
      const [from, by, to] = [a + 4 * i * m * k, b + 4 * i * k * n, out.at + 4 * i * m * n];
      multiply(heap, { m, n, k, a: from, turnA, b: by, turnB, out: to });
    }
    return out;
  };
}
