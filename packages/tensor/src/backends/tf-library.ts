/**
 * @file TensorFlow's library through its C interface and the optional package `koffi`: a call takes a tenth of what one of the addon takes.
 * Declarations: tensorflow/c/c_api.h, tf_tensor.h and eager/c_api.h.
 */
import { InvariantError, TensorError } from '../errors.ts';
import { heapStarts, type Heap } from './heap.ts';
import { addressOf, loadKoffi, type Koffi, type Loaded, type Native } from './koffi.ts';
import { getNumThreads } from './threads.ts';

/** The library in the folder of the addon's package, which has loaded it. */
const PATHS: Readonly<Record<string, readonly string[]>> = {
  linux: ['deps/lib/libtensorflow.so.2', 'deps/lib/libtensorflow.so'],
  darwin: ['deps/lib/libtensorflow.2.dylib', 'deps/lib/libtensorflow.dylib'],
};

/** An operand: float32 on the heap, or a list of whole numbers. */
export type Operand = { readonly at: number; readonly dims: readonly number[] } | { readonly list: readonly number[] };
/** Gives an operation one of its attributes. */
export type Attribute = (operation: number) => void;

/** Constants of TensorFlow's headers. */
const TF_FLOAT = 1;
const TF_INT32 = 3;
const TF_OK = 0;

/** Most sizes of a tensor, and most numbers of a list. */
const MOST = 8;
/** Words of 32 bits that calls are given the address of: sizes of a tensor or numbers of an attribute, a result and how many, lists, then texts. */
const NUMBERS = 0;
const RESULT = 2 * MOST;
const COUNT = RESULT + 2;
const LISTS = 32;
const TEXTS = 64;
const WORDS = 1024;

/** @throws TensorError, or what koffi throws, where the library cannot be loaded or lacks a function. */
export class TensorflowLibrary {
  readonly path: string;
  private readonly koffi: Koffi;
  private readonly words = new Int32Array(WORDS);
  private readonly at: number;
  private texts = TEXTS;
  private lists = LISTS;
  private readonly startOf: (heap: Heap) => number;
  private readonly call: Functions;
  private readonly status: number;
  private readonly context: number;

  /** The library of the addon in `folder`; undefined where `koffi` is missing, or the library cannot be called. */
  static open(folder: string): TensorflowLibrary | undefined {
    const koffi = loadKoffi();
    if (koffi === undefined) return undefined;
    for (const name of PATHS[process.platform] ?? []) {
      try {
        return new TensorflowLibrary(koffi, `${folder}/${name}`);
      } catch {
        // Not under this name, or without what is needed.
      }
    }
    return undefined;
  }

  private constructor(koffi: Koffi, path: string) {
    this.path = path;
    this.koffi = koffi;
    this.startOf = heapStarts((memory) => addressOf(koffi, memory));
    this.at = addressOf(koffi, this.words.buffer);
    this.call = functionsOf(koffi, koffi.load(path));
    this.status = this.call.newStatus() as number;
    this.context = this.newContext();
    this.check('start');
  }

  /** The address of a text that stays. */
  text(text: string): number {
    const bytes = new TextEncoder().encode(`${text}\0`);
    const at = 4 * this.texts;
    this.texts += Math.ceil(bytes.length / 4);
    if (this.texts > WORDS) throw new InvariantError('there is no more room for texts');
    new Uint8Array(this.words.buffer).set(bytes, at);
    return this.at + at;
  }

  flag(name: string, value: boolean): Attribute {
    const at = this.text(name);
    return (operation) => void this.call.setFlag(operation, at, Number(value));
  }

  word(name: string, value: string): Attribute {
    const [at, word] = [this.text(name), this.text(value)];
    return (operation) => void this.call.setString(operation, at, word, value.length);
  }

  /** Takes the numbers when it is used. */
  numbers(name: string): (values: readonly number[]) => Attribute {
    const at = this.text(name);
    return (values) => (operation) => void this.call.setNumbers(operation, at, this.int64s(values), values.length);
  }

  /**
   * Runs an operation, by the address of its name, with one result, which is copied to `out` on the heap.
   * @throws TensorError with the library's words where it fails or gives another number of elements than `size`.
   */
  run(
    heap: Heap,
    name: number,
    operands: readonly Operand[],
    attributes: readonly Attribute[],
    out: number,
    size: number,
  ): void {
    const { call, status, words } = this;
    const start = this.startOf(heap);
    const handles: number[] = [];
    words.fill(0, RESULT, COUNT);
    words[COUNT] = 1;
    this.lists = LISTS;
    const operation = call.newOp(this.context, name, status);
    if (operation === 0) this.check('an operation');
    try {
      for (const operand of operands) {
        const handle = 'at' in operand ? this.floats(start + operand.at, operand.dims) : this.list(operand.list);
        handles.push(handle);
        call.addInput(operation, handle, status);
      }
      this.check('its operands');
      for (const set of attributes) set(operation as number);
      call.execute(operation, this.at + 4 * RESULT, this.at + 4 * COUNT, status);
      this.check('an operation');
      const result = this.result();
      handles.push(result);
      if (call.sizeOf(result, status) !== size) throw new TensorError('TensorFlow gave a result of another size');
      const from = call.memoryOf(result, status);
      this.check('a result');
      call.copy(start + out, from, 4 * size);
    } finally {
      for (const handle of handles) call.deleteHandle(handle);
      call.deleteOp(operation);
    }
  }

  private result(): number {
    return ((this.words[RESULT] as number) >>> 0) + 2 ** 32 * (this.words[RESULT + 1] as number);
  }

  /** The tensor of what lies at an address: in place where that is a multiple of 64, else of a copy. */
  private floats(at: number, dims: readonly number[]): number {
    let bytes = 4;
    for (const n of dims) bytes *= n;
    return this.tensorOf(TF_FLOAT, dims, at, bytes);
  }

  private list(values: readonly number[]): number {
    const { lists } = this;
    if (lists + values.length > TEXTS) throw new InvariantError('there is no more room for lists');
    this.words.set(values, lists);
    this.lists += values.length;
    return this.tensorOf(TF_INT32, [values.length], this.at + 4 * lists, 4 * values.length);
  }

  private tensorOf(dtype: number, dims: readonly number[], at: number, bytes: number): number {
    const { call, status } = this;
    const tensor = call.newTensor(dtype, this.int64s(dims), dims.length, at, bytes, call.nothing, 0);
    const handle = call.newHandle(tensor, status) as number;
    call.deleteTensor(tensor);
    this.check('a tensor');
    return handle;
  }

  private int64s(values: readonly number[]): number {
    const { words } = this;
    if (values.length > MOST) throw new InvariantError(`TensorFlow is given at most ${MOST} sizes`);
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      words[NUMBERS + 2 * i] = value;
      words[NUMBERS + 2 * i + 1] = Math.floor(value / 2 ** 32);
    }
    return this.at + 4 * NUMBERS;
  }

  private check(what: string): void {
    const { call, status } = this;
    if (call.codeOf(status) !== TF_OK)
      throw new TensorError(`TensorFlow refused ${what}: ${String(call.messageOf(status))}`);
  }

  /** With as many threads a kernel as the backend was started with. */
  private newContext(): number {
    const { call, status } = this;
    // A message ConfigProto: intra_op_parallelism_threads is its field 2, inter_op_parallelism_threads its field 5.
    const config = Uint8Array.of(2 << 3, Math.min(getNumThreads(), 127), 5 << 3, 1);
    const options = call.newOptions();
    call.setConfig(options, addressOf(this.koffi, config.buffer), config.length, status);
    const context = call.newContext(options, status) as number;
    call.deleteOptions(options);
    return context;
  }
}

type Functions = Readonly<Record<keyof typeof DECLARATIONS | 'copy', Native>> & { readonly nothing: number };

const DECLARATIONS = {
  newStatus: 'uintptr_t TF_NewStatus()',
  codeOf: 'int TF_GetCode(uintptr_t)',
  messageOf: 'const char *TF_Message(uintptr_t)',
  newTensor: 'uintptr_t TF_NewTensor(int, uintptr_t, int, uintptr_t, size_t, uintptr_t, uintptr_t)',
  deleteTensor: 'void TF_DeleteTensor(uintptr_t)',
  newOptions: 'uintptr_t TFE_NewContextOptions()',
  setConfig: 'void TFE_ContextOptionsSetConfig(uintptr_t, uintptr_t, size_t, uintptr_t)',
  deleteOptions: 'void TFE_DeleteContextOptions(uintptr_t)',
  newContext: 'uintptr_t TFE_NewContext(uintptr_t, uintptr_t)',
  newHandle: 'uintptr_t TFE_NewTensorHandle(uintptr_t, uintptr_t)',
  deleteHandle: 'void TFE_DeleteTensorHandle(uintptr_t)',
  sizeOf: 'int64_t TFE_TensorHandleNumElements(uintptr_t, uintptr_t)',
  memoryOf: 'uintptr_t TFE_TensorHandleDevicePointer(uintptr_t, uintptr_t)',
  newOp: 'uintptr_t TFE_NewOp(uintptr_t, uintptr_t, uintptr_t)',
  deleteOp: 'void TFE_DeleteOp(uintptr_t)',
  addInput: 'void TFE_OpAddInput(uintptr_t, uintptr_t, uintptr_t)',
  setFlag: 'void TFE_OpSetAttrBool(uintptr_t, uintptr_t, uint8_t)',
  setString: 'void TFE_OpSetAttrString(uintptr_t, uintptr_t, uintptr_t, size_t)',
  setNumbers: 'void TFE_OpSetAttrIntList(uintptr_t, uintptr_t, uintptr_t, int)',
  execute: 'void TFE_Execute(uintptr_t, uintptr_t, uintptr_t, uintptr_t)',
} as const;

function functionsOf(koffi: Koffi, library: Loaded): Functions {
  const system = koffi.load(null);
  const found = Object.entries(DECLARATIONS).map(([name, declaration]) => [name, library.func(declaration)] as const);
  return {
    ...(Object.fromEntries(found) as Record<keyof typeof DECLARATIONS, Native>),
    copy: system.func('uintptr_t memcpy(uintptr_t, uintptr_t, size_t)'),
    // Memory is ours before and after: the library has to call something when it is done with it, and this does nothing.
    nothing: Number(koffi.address(system.symbol('abs', 'int'))),
  };
}
