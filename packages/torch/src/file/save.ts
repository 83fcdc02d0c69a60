/** @file Writes files that torch.load reads: what its `weights_only`, which is its default, admits. */
import { Parameter, Tensor, noGrad } from '@backwire/tensor';
import type { Storage } from '@backwire/tensor/internal';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { ObjectWriter } from '../pickle/object-writer.ts';
import { Op } from '../pickle/opcode.ts';
import { reductionOf } from '../pickle/reductions.ts';
import { nameOf } from '../pickle/writer.ts';
import { PyByteArray, PyOrderedDict, TorchSize, tupleOf } from '../values/containers.ts';
import { elementNamed, elementOf, type TorchElement } from '../values/dtypes.ts';
import { PyName } from '../values/name.ts';
import { PyComplex } from '../values/numbers.ts';
import { OpaqueTensor, type TensorLike } from '../values/opaque-tensor.ts';
import { TorchDevice, TorchLayout } from '../values/torch-types.ts';
import { writeZip } from './zip.ts';

const PROTOCOL = 2;
/** torch puts every record at a multiple of this, so that it can be mapped into memory. */
const ALIGNMENT = 64;
const FOLDER = 'archive';
const FORMAT = '3\n';

/**
 * A file that `torch.load(…, weights_only=True)` reads: tensors, parameters, numbers, texts, Uint8Arrays, arrays, PyTuples, Maps and plain
 * objects, Sets, and torch's own small values. Storages that tensors share are saved once, and whole, as `torch.save` does.
 * @throws TypeError for a value that torch.load would not read, naming its place; RangeError for a file of 4 GiB or more.
 */
export function saveTorchFile(value: unknown): Uint8Array {
  return new FileWriter().write(value);
}

/** A file with a state dict: `model.load_state_dict(torch.load(path))` takes it. The tensors' gradients are no part of it. */
export function saveStateDict(tensors: ReadonlyMap<string, Tensor | OpaqueTensor>): Uint8Array {
  const state = new PyOrderedDict<string, TensorLike>();
  const handles: Tensor[] = [];
  for (const [name, tensor] of tensors) {
    if (tensor instanceof OpaqueTensor || !tensor.requiresGrad) state.set(name, tensor);
    else {
      const plain = tensor.detach();
      handles.push(plain);
      state.set(name, plain);
    }
  }
  try {
    return saveTorchFile(state);
  } finally {
    for (const handle of handles) handle.dispose();
  }
}

/** The names of Python 2 that protocol 2 has for Python's builtins. */
const BUILTINS = '__builtin__';
const codecs = new PyName('_codecs', 'encode');
const set = new PyName('builtins', 'set');
const byteArray = new PyName('builtins', 'bytearray');

class FileWriter extends ObjectWriter {
  /** The key of each storage, and the element type that it is saved as. */
  private readonly storages = new Map<Storage, { readonly key: string; readonly element: TorchElement }>();
  private readonly records = new Map<string, Uint8Array>();
  /** What had to be copied; freed when the file is there. */
  private readonly copies: Tensor[] = [];

  constructor() {
    super(DEFAULT_TORCH_LIMITS.maxWriteDepth);
  }

  write(value: unknown): Uint8Array {
    try {
      return this.file(value);
    } finally {
      for (const copy of this.copies) copy.dispose();
    }
  }

  private file(value: unknown): Uint8Array {
    const text = (content: string): Uint8Array => new TextEncoder().encode(content);
    this.out.pair(Op.PROTO, PROTOCOL);
    this.value(value);
    this.op(Op.STOP);
    const contents: [string, Uint8Array][] = [
      ['data.pkl', this.out.written()],
      ['.format_version', text('1')],
      ['.storage_alignment', text(String(ALIGNMENT))],
      ['byteorder', text('little')],
      ...Array.from(this.records, ([key, bytes]): [string, Uint8Array] => [`data/${key}`, bytes]),
      ['version', text(FORMAT)],
    ];
    return writeZip(new Map(contents.map(([name, content]) => [`${FOLDER}/${name}`, content])), ALIGNMENT);
  }

  protected override memoize(): number {
    return this.remember();
  }

  override global(module: string, name: string): void {
    super.global(module === 'builtins' ? BUILTINS : module, name);
  }

  protected override formless(value: unknown): never {
    throw new TypeError(`torch.load reads no ${typeof value}${this.place()}`);
  }

  protected override special(value: object): void {
    if (value instanceof PyByteArray)
      return this.reduction(value, { how: 'call', callee: byteArray, args: [latin1(value), 'latin-1'] });
    if (value instanceof Uint8Array)
      return this.reduction(value, { how: 'call', callee: codecs, args: [latin1(value), 'latin1'] });
    if (value instanceof Set && value.constructor === Set)
      return this.reduction(value, { how: 'call', callee: set, args: [[...(value as Set<unknown>)]] });
    const admitted = ADMITTED.some((type) => value instanceof type);
    const reduction = admitted ? reductionOf(value) : undefined;
    if (reduction === undefined) throw new TypeError(`torch.load would not read ${nameOf(value)}${this.place()}`);
    this.reduction(value, reduction);
  }

  protected override tensor(tensor: TensorLike): void {
    if (tensor instanceof Parameter) {
      this.global('torch._utils', '_rebuild_parameter');
      this.strided(tensor, false);
      this.bool(tensor.requiresGrad);
      this.hooks();
      this.op(Op.TUPLE3);
      this.memoize();
      this.call();
    } else if (tensor instanceof Tensor && tensor.sparse !== undefined) this.sparse(tensor, tensor.sparse);
    else this.strided(tensor, tensor.requiresGrad);
  }

  /** `_rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)`; v3 has the element type behind. */
  private strided(tensor: TensorLike, requiresGrad: boolean): void {
    const element = tensor instanceof OpaqueTensor ? elementNamed(tensor.dtype) : elementOf(tensor.dtype);
    if (element === undefined) throw new TypeError(`torch has no ${tensor.dtype}${this.place()}`);
    const own = tensor instanceof OpaqueTensor ? tensor.bytes : tensor;
    const known = this.storages.get(own.storage);
    // Two element types in one storage are what torch.save refuses, too: the second gets memory of its own.
    const view = known === undefined || known.element === element ? own : this.copyOf(own);
    const width = tensor instanceof OpaqueTensor ? element.bytes : 1;
    this.global('torch._utils', element.hasStorageClass ? '_rebuild_tensor_v2' : '_rebuild_tensor_v3');
    this.op(Op.MARK);
    this.storage(view.storage, element);
    this.int(view.offset / width);
    this.tuple(tupleOf(tensor.shape));
    this.tuple(tupleOf(view.strides.slice(0, tensor.shape.length).map((stride) => stride / width)));
    this.bool(requiresGrad);
    this.hooks();
    if (!element.hasStorageClass) this.global('torch', element.name);
    this.op(Op.TUPLE);
    this.memoize();
    this.call();
  }

  private copyOf(tensor: Tensor): Tensor {
    const copy = noGrad(() => tensor.clone());
    this.copies.push(copy);
    return copy;
  }

  private storage(storage: Storage, element: TorchElement): void {
    let known = this.storages.get(storage);
    if (known === undefined) {
      known = { key: String(this.records.size), element };
      this.storages.set(storage, known);
      this.records.set(known.key, storage.hostBytes());
    }
    this.op(Op.MARK);
    this.string('storage');
    if (element.hasStorageClass) this.global('torch', `${element.storage}Storage`);
    else this.global('torch.storage', 'UntypedStorage');
    this.string(known.key);
    this.string('cpu');
    this.int(element.hasStorageClass ? Math.floor(storage.nbytes / element.bytes) : storage.nbytes);
    this.op(Op.TUPLE);
    this.memoize();
    this.op(Op.BINPERSID);
  }

  /** `_rebuild_sparse_tensor(layout, (indices, values, size, is_coalesced))` */
  private sparse(tensor: Tensor, { indices, values, coalesced }: NonNullable<Tensor['sparse']>): void {
    this.global('torch._utils', '_rebuild_sparse_tensor');
    this.value(new TorchLayout('torch.sparse_coo'));
    this.op(Op.MARK);
    this.strided(indices, false);
    this.strided(values, false);
    this.value(tupleOf(tensor.shape));
    this.bool(coalesced);
    this.op(Op.TUPLE);
    this.memoize();
    this.op(Op.TUPLE2);
    this.memoize();
    this.call();
  }

  /** Backward hooks, of which none are saved. */
  private hooks(): void {
    this.global('collections', 'OrderedDict');
    this.op(Op.EMPTY_TUPLE);
    this.call();
  }
}

const ADMITTED = [PyOrderedDict, PyComplex, TorchDevice, TorchSize, TorchLayout] as const;

/** Bytes as text of their code points. */
function latin1(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return text;
}
