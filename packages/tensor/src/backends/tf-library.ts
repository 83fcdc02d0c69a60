/**
 * @file Products by TensorFlow's library through its C interface and the optional package `koffi`: a call takes a tenth of what one of the
 * addon takes. Declarations: tensorflow/c/c_api.h, tf_tensor.h and eager/c_api.h.
 */
import { TensorError } from '../errors.ts';
import type { Heap } from './heap.ts';
import { addressOf, loadKoffi, type Koffi, type Loaded } from './koffi.ts';
import { CHECK_SIZE, productsAreRight } from './product-check.ts';
import type { MultiplyAll, Product } from './products.ts';
import { getNumThreads } from './threads.ts';

/** The library in the folder of the addon's package, which has loaded it. */
const PATHS: Readonly<Record<string, readonly string[]>> = {
  linux: ['deps/lib/libtensorflow.so.2', 'deps/lib/libtensorflow.so'],
  darwin: ['deps/lib/libtensorflow.2.dylib', 'deps/lib/libtensorflow.dylib'],
};

export interface TensorflowLibrary {
  readonly path: string;
  readonly multiply: MultiplyAll;
}

/** The library of the addon in `folder`; undefined where `koffi` is missing, or the library cannot be called or does not compute as it should. */
export function openTensorflowLibrary(folder: string, heap: Heap): TensorflowLibrary | undefined {
  const koffi = loadKoffi();
  if (koffi === undefined) return undefined;
  for (const name of PATHS[process.platform] ?? []) {
    const path = `${folder}/${name}`;
    try {
      const multiply = productsBy(koffi, koffi.load(path));
      checkProducts(multiply, heap);
      return { path, multiply };
    } catch {
      // Not under this name, or without what is needed.
    }
  }
  return undefined;
}

function checkProducts(multiply: MultiplyAll, heap: Heap): void {
  heap.meanwhile(CHECK_SIZE, (at) => {
    const memory = new Float32Array(heap.memory.buffer, at, CHECK_SIZE);
    if (!productsAreRight(memory, at, (product) => multiply(heap, product, 1)))
      throw new TensorError('a product of it is wrong');
  });
}

/** Constants of TensorFlow's headers. */
const TF_FLOAT = 1;
const TF_OK = 0;

/** What calls are given by address: sizes of tensors, tensors that come back, names. */
class Scratch {
  readonly at: number;
  private readonly words = new Uint32Array(1024);
  private used = 16;

  constructor(koffi: Koffi) {
    this.at = addressOf(koffi, this.words.buffer);
  }

  /** Where the sizes of one tensor are, as int64. */
  dims(...sizes: number[]): number {
    sizes.forEach((size, i) => {
      this.words[2 * i] = size;
      this.words[2 * i + 1] = 0;
    });
    return this.at;
  }

  /** Room for the address of one result, and how many there is room for. */
  results(): [handles: number, count: number] {
    this.words.set([0, 0, 1], 8);
    return [this.at + 32, this.at + 40];
  }

  result(): number {
    return (this.words[8] as number) + 2 ** 32 * (this.words[9] as number);
  }

  /** The address of a text that stays. */
  text(text: string): number {
    const bytes = new TextEncoder().encode(`${text}\0`);
    const at = 4 * this.used;
    new Uint8Array(this.words.buffer).set(bytes, at);
    this.used += Math.ceil(bytes.length / 4);
    return this.at + at;
  }
}

function productsBy(koffi: Koffi, library: Loaded): MultiplyAll {
  const system = koffi.load(null);
  const status = library.func('uintptr_t TF_NewStatus()')() as number;
  const codeOf = library.func('int TF_GetCode(uintptr_t)');
  const messageOf = library.func('const char *TF_Message(uintptr_t)');
  const tensorOver = library.func(
    'uintptr_t TF_NewTensor(int, uintptr_t, int, uintptr_t, size_t, uintptr_t, uintptr_t)',
  );
  const deleteTensor = library.func('void TF_DeleteTensor(uintptr_t)');
  const newHandle = library.func('uintptr_t TFE_NewTensorHandle(uintptr_t, uintptr_t)');
  const deleteHandle = library.func('void TFE_DeleteTensorHandle(uintptr_t)');
  const memoryOf = library.func('uintptr_t TFE_TensorHandleDevicePointer(uintptr_t, uintptr_t)');
  const newOp = library.func('uintptr_t TFE_NewOp(uintptr_t, uintptr_t, uintptr_t)');
  const deleteOp = library.func('void TFE_DeleteOp(uintptr_t)');
  const addInput = library.func('void TFE_OpAddInput(uintptr_t, uintptr_t, uintptr_t)');
  const setFlag = library.func('void TFE_OpSetAttrBool(uintptr_t, uintptr_t, uint8_t)');
  const execute = library.func('void TFE_Execute(uintptr_t, uintptr_t, uintptr_t, uintptr_t)');
  const copy = system.func('uintptr_t memcpy(uintptr_t, uintptr_t, size_t)');
  // The memory is ours before and after: the library has to call something when it is done with it, and this does nothing.
  const nothing = Number(koffi.address(system.symbol('abs', 'int')));

  const scratch = new Scratch(koffi);
  const one = { name: scratch.text('MatMul'), turnA: scratch.text('transpose_a'), turnB: scratch.text('transpose_b') };
  const many = { name: scratch.text('BatchMatMulV2'), turnA: scratch.text('adj_x'), turnB: scratch.text('adj_y') };

  const check = (): void => {
    if (codeOf(status) !== TF_OK) throw new TensorError(`TensorFlow's product failed: ${String(messageOf(status))}`);
  };
  const context = newContext(koffi, library, status);
  check();

  /** The tensor of what lies at `at`: in place where that is a multiple of 64, else a copy. */
  const handleOver = (at: number, batches: number, rows: number, columns: number): number => {
    const dims = batches === 1 ? scratch.dims(rows, columns) : scratch.dims(batches, rows, columns);
    const bytes = 4 * batches * rows * columns;
    const tensor = tensorOver(TF_FLOAT, dims, batches === 1 ? 2 : 3, at, bytes, nothing, 0) as number;
    const handle = newHandle(tensor, status) as number;
    deleteTensor(tensor);
    check();
    return handle;
  };

  /** Where the heap starts in this process. */
  const start = startOf(koffi);
  return (heap, { m, n, k, a, turnA, b, turnB, out }: Product, batches) => {
    const base = start(heap);
    const { name, turnA: first, turnB: second } = batches === 1 ? one : many;
    const [handles, count] = scratch.results();
    const op = newOp(context, name, status);
    let [x, y] = [0, 0];
    try {
      x = handleOver(base + a, batches, turnA ? k : m, turnA ? m : k);
      y = handleOver(base + b, batches, turnB ? n : k, turnB ? k : n);
      addInput(op, x, status);
      addInput(op, y, status);
      if (turnA) setFlag(op, first, 1);
      if (turnB) setFlag(op, second, 1);
      execute(op, handles, count, status);
      check();
      const from = memoryOf(scratch.result(), status);
      check();
      copy(base + out, from, 4 * batches * m * n);
    } finally {
      for (const handle of [scratch.result(), x, y]) if (handle !== 0) deleteHandle(handle);
      deleteOp(op);
    }
  };
}

/** With as many threads a kernel as the backend was started with. */
function newContext(koffi: Koffi, library: Loaded, status: number): number {
  // A message ConfigProto: intra_op_parallelism_threads is its field 2, inter_op_parallelism_threads its field 5.
  const config = Uint8Array.of(2 << 3, Math.min(getNumThreads(), 127), 5 << 3, 1);
  const options = library.func('uintptr_t TFE_NewContextOptions()')();
  const set = library.func('void TFE_ContextOptionsSetConfig(uintptr_t, uintptr_t, size_t, uintptr_t)');
  set(options, addressOf(koffi, config.buffer), config.length, status);
  const context = library.func('uintptr_t TFE_NewContext(uintptr_t, uintptr_t)')(options, status) as number;
  library.func('void TFE_DeleteContextOptions(uintptr_t)')(options);
  return context;
}

function startOf(koffi: Koffi): (heap: Heap) => number {
  let memory: ArrayBufferLike | undefined;
  let start = 0;
  return (heap) => {
    const { buffer } = heap.memory;
    if (buffer !== memory) {
      memory = buffer;
      start = addressOf(koffi, buffer);
    }
    return start;
  };
}
