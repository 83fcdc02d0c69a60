/**
 * @file The native TensorFlow backend on a processor without a BLAS: its products, of operands on the heap where they lie; all else is the wasm
 * backend, whose kernels have less around them than the addon's calls, and which has those that the addon lacks.
 */
import type { BackendName } from './backend.ts';
import { addingUp, FEW_FILTERS } from './columns.ts';
import type { Heap } from './heap.ts';
import { at, input, type OwnKernel } from './own-kernel.ts';
import type { SimdExports } from './simd.ts';
import { productsOf, type Multiply, type MultiplyAll } from './products.ts';
import { Wasm, wasmParts } from './wasm.ts';

/** Multiply-adds up to which our own product takes no longer than a call of the library. */
const SMALL_PRODUCT = 2 ** 18;

/** What native TensorFlow computes. */
export interface NativeKernels {
  /** Products that are not small. */
  readonly multiply: MultiplyAll;
  /** Convolutions, those that pay, else `own`. */
  readonly convolutions: (own: ReadonlyMap<string, OwnKernel>) => ReadonlyMap<string, OwnKernel>;
  /** For people. */
  readonly detail: string;
}

export class TensorflowOnHost extends Wasm {
  override readonly name: BackendName = 'tensorflow';
  readonly detail: string;
  readonly slow: string;

  /** @param slow why there is no BLAS */
  constructor(slow: string, kernelsOn: (heap: Heap, exports: SimdExports) => NativeKernels) {
    super(...wasmParts());
    this.slow = slow;
    const { multiply, convolutions, detail } = kernelsOn(this.heap, this.exports);
    this.detail = detail;
    const small = this.kernels.get('BatchMatMul') as OwnKernel;
    this.kernels.set('BatchMatMul', (heap, inputs, attrs) => {
      const { batches, m, n, k, turnA, turnB } = productsOf(inputs, attrs);
      if (batches * m * n * k <= SMALL_PRODUCT) return small(heap, inputs, attrs);
      const [a, b] = [at(input(inputs, 'a')), at(input(inputs, 'b'))];
      return heap.filled(batches * m * n, (out) => multiply(heap, { m, n, k, a, turnA, b, turnB, out }, batches));
    });
    const replace: Multiply = (heap, product) => {
      if (product.m * product.n * product.k <= SMALL_PRODUCT) this.multiply(heap, product);
      else multiply(heap, product, 1);
    };
    this.layersBy(FEW_FILTERS, addingUp(this.exports, replace));
    for (const [name, kernel] of convolutions(new Map(this.kernels))) this.kernels.set(name, kernel);
  }
}
