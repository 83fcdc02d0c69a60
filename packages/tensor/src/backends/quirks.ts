/** @file Everything in which TensorFlow.js's backends differ from what this package promises, and where it is made good: one table. */
import type { BackendName } from './backend.ts';

export interface Quirk {
  readonly backend: BackendName | 'all';
  /** The kernels it concerns; empty where it concerns no kernel in particular. */
  readonly kernels: readonly string[];
  /** What the backend does. */
  readonly does: string;
  /** What is done about it. `avoid`: `usable` refuses the kernels, and the host's loop does the work. */
  readonly answer: 'avoid' | { readonly at: string };
}

export const QUIRKS: readonly Quirk[] = [
  {
    backend: 'wasm',
    kernels: ['ClipByValue', 'Relu6'],
    does: 'loses NaN',
    answer: 'avoid',
  },
  {
    backend: 'wasm',
    kernels: ['Maximum', 'Minimum'],
    does: 'loses NaN of the right operand',
    answer: { at: 'kernels of our own: backends/simd.ts' },
  },
  {
    backend: 'wasm',
    kernels: ['BatchMatMul'],
    does: 'takes transposed operands, and batches, by a way 18 to 90 times slower than the product of two matrices',
    answer: { at: 'a kernel of our own: backends/products.ts' },
  },
  {
    backend: 'wasm',
    kernels: ['BatchMatMul', '_FusedMatMul', 'Conv2D', 'Prelu'],
    does: 'keeps the packed form of a right operand, a filter or a slope under its id, also after that has changed in place',
    answer: { at: 'Backend.renew, backends/wasm.ts' },
  },
  {
    backend: 'wasm',
    kernels: ['BatchMatMul', '_FusedMatMul'],
    does: 'takes the packed form of a right operand also where the same memory is read in another shape: wrong values, a damaged heap',
    answer: { at: 'another id for another shape, backends/wasm-packing.ts' },
  },
  {
    backend: 'wasm',
    kernels: ['Add', 'Sub', 'Multiply', 'RealDiv', 'Transpose'],
    does: 'returns memory nobody wrote for operands of more than 6 dimensions',
    answer: { at: 'KERNEL_RANK, ops/kernels.ts: fewer dimensions where they merge, else the host' },
  },
  {
    backend: 'wasm',
    kernels: ['BatchMatMul', 'Sum', 'Mean'],
    does: 'returns memory nobody wrote for operands without elements',
    answer: { at: 'empty operands never reach a kernel: ops/elementwise.ts, ops/matmul.ts, ops/reduce.ts' },
  },
  {
    backend: 'wasm',
    kernels: [
      'UnsortedSegmentSum',
      'Conv2DBackpropFilter',
      'DepthwiseConv2dNativeBackpropFilter',
      'Complex',
      'Real',
      'Imag',
    ],
    does: 'has no such kernel, which lifted TensorFlow.js code may need',
    answer: { at: 'onCapableBackend, interop.ts: again on the cpu kernels' },
  },
  {
    backend: 'wasm',
    kernels: [],
    does: 'moves its heap when it grows, which ends every view of it; is at an end for good at 4 GiB',
    answer: { at: 'Storage.peek and mutate give views for immediate use; device-memory.ts keeps a budget' },
  },
  {
    backend: 'wasm',
    kernels: [],
    does: "takes over the process's uncaught errors when it starts",
    answer: { at: 'withoutNewListeners, backends/wasm.ts' },
  },
  {
    backend: 'wasm',
    kernels: ['MaxPool'],
    does: 'gives the gradient of tied elements to the last; PyTorch and the others give it to the first',
    answer: { at: 'pooling is made of windows here: ops/windows.ts' },
  },
  {
    backend: 'cpu',
    kernels: ['UnsortedSegmentSum'],
    does: 'takes time by the product of rows and segments: 77 s for 512 rows of a table of 10,000',
    answer: { at: 'indexAdd and sparse gradients have loops of their own: ops/indexing.ts, ops/sparse/coo.ts' },
  },
  {
    backend: 'cpu',
    kernels: [],
    does: 'is slower with every kernel than a plain loop over typed arrays',
    answer: { at: 'backends/cpu.ts has no kernels' },
  },
  {
    backend: 'tensorflow',
    kernels: [],
    does: 'reads uploads late, and later still where their address is a multiple of 64: the memory given is its own from then on',
    answer: { at: 'Backend.aliasesUploads, Storage.toDevice' },
  },
  {
    backend: 'tensorflow',
    kernels: ['_FusedMatMul'],
    does: 'damages its heap in the native operation MatMul while the profiler of Node runs',
    answer: { at: 'products are its BatchMatMulV2 or those of a BLAS: backends/tf-library-products.ts' },
  },
  {
    backend: 'tensorflow',
    kernels: ['Reshape'],
    does: 'runs a real operation for another shape of the same memory',
    answer: { at: 'backends/tensorflow.ts keeps the latest shape of a buffer' },
  },
  {
    backend: 'tensorflow',
    kernels: ['Add', 'RealDiv'],
    does: 'refuses bool operands, divides int32 to int32',
    answer: { at: 'only float32 goes to kernels: ops/elementwise.ts' },
  },
  {
    backend: 'tensorflow',
    kernels: [],
    does: 'calls util.isNullOrUndefined, which Node 23 removed; writes its messages to stderr',
    answer: { at: 'backends/tfjs-node.ts' },
  },
  {
    backend: 'webgpu',
    kernels: ['Exp', 'Log', 'Sigmoid', 'Tanh', 'Sqrt', 'Rsqrt', 'Erf', 'Softmax', 'Pow', 'Sin', 'Cos', 'Tan'],
    does: 'computes with the few digits that the WebGPU shading language promises: 180 units in the last place for exp(88)',
    answer: 'avoid',
  },
  {
    backend: 'webgpu',
    kernels: ['Maximum', 'Minimum'],
    does: 'may lose NaN, as the shading language allows',
    answer: 'avoid',
  },
  {
    backend: 'webgpu',
    kernels: [],
    does: 'reads its memory asynchronously only',
    answer: { at: 'the device has a thread that synchronous reads wait for: backends/webgpu-thread.ts' },
  },
  {
    backend: 'all',
    kernels: [
      'Maximum',
      'Minimum',
      'SquaredDifference',
      'Max',
      'Min',
      'Abs',
      'Relu6',
      'Prelu',
      'Pow',
      'Atan2',
      'Unpack',
    ],
    does: 'has gradients unlike PyTorch: no sum over broadcast dimensions, all to one of tied elements, other slopes at kinks',
    answer: { at: 'own derivatives: autograd/derivatives; for lifted code backends/tf-gradients.ts' },
  },
  {
    backend: 'all',
    kernels: ['Sum', 'Mean', 'Softmax', 'LogSoftmax'],
    does: 'adds up in float32, in an order of its own',
    answer: {
      at: 'sums run on the host in double precision and index order: ops/reduce.ts, ops/softmax.ts, ops/whiten.ts',
    },
  },
  {
    backend: 'all',
    kernels: [],
    does: 'has float32, int32, bool, and (not wasm) complex64 only',
    answer: { at: 'the other dtypes are computed on the host: dtype.ts' },
  },
];

/** Whose kernels are those of wasm but for the products. */
const onItsHeap: ReadonlySet<string> = new Set(['blas', 'tensorflow']);

const avoided = new Map<string, ReadonlySet<string>>(
  (['cpu', 'wasm', 'blas', 'tensorflow', 'webgpu'] as const).map((name) => [
    name,
    new Set(
      QUIRKS.filter(
        (q) =>
          q.answer === 'avoid' &&
          (q.backend === name || q.backend === 'all' || (q.backend === 'wasm' && onItsHeap.has(name))),
      ).flatMap((q) => q.kernels),
    ),
  ]),
);

/** Whether a kernel of a backend may be used; the table above says why not. */
export function usable(backend: BackendName, kernel: string): boolean {
  return avoided.get(backend)?.has(kernel) !== true;
}
