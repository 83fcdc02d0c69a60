/** @file Reads files of torch.save: a closed list of names, tensors over the file's own bytes. */
import { show } from '@backwire/rpc/internal';
import { Parameter, type Tensor, TensorError, sparseCooTensor } from '@backwire/tensor';
import { storageFromBytes, tensorFromParts, type Storage } from '@backwire/tensor/internal';
import { WireError } from '@backwire/wire/internal';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';
import { PyFunction, builtinGlobals, globalKey, integerIn, tableOf } from '../pickle/builtin-globals.ts';
import { persistent, pythonic, scalars, structures } from '../pickle/instructions.ts';
import { Machine, instructionTable, type Dialect } from '../pickle/machine.ts';
import { exactFloat } from '../pickle/python-reader.ts';
import { quoted, refuse } from '../pickle/refusal.ts';
import { readText } from '../pickle/text.ts';
import { torchConstant, torchGlobals } from '../pickle/torch-globals.ts';
import { PyTuple } from '../values/containers.ts';
import { elementNamed, type TorchElement } from '../values/dtypes.ts';
import { PyName } from '../values/name.ts';
import { StorageClass, denseParts, resolved, storageClass } from '../table/parts.ts';
import { OpaqueTensor, bytewise, isTensor, type TensorLike } from '../values/opaque-tensor.ts';
import { TorchDType, TorchLayout } from '../values/torch-types.ts';
import { ZipArchive, isZip } from './zip.ts';

/** How a file of `torch.save` is read. */
export interface TorchFileOptions {
  /** Whether whole floats become PyFloat, so that they are saved as floats again. @default false */
  readonly exact?: boolean | undefined;
  /** What a file may ask for: lengths, depths, bytes. All of them are given. @default those of `joinTorch` */
  readonly limits?: TorchLimits | undefined;
}

/**
 * What `torch.save` wrote into a file: dicts are Maps, lists arrays, tuples PyTuples, None is null. Tensors are views of `bytes` where
 * alignment allows, which must not change afterwards; those that share a storage share it here. Element types that nothing computes with
 * come as OpaqueTensor.
 * @throws TensorError for a file that is damaged, that an old torch wrote (before 1.6), or that holds objects of Python classes: these
 * are not read, whatever they are. TypeError for what are no bytes.
 */
export function loadTorchFile(bytes: Uint8Array, options: TorchFileOptions = {}): unknown {
  const { limits = DEFAULT_TORCH_LIMITS, exact = false } = options;
  if (!(bytes instanceof Uint8Array))
    throw new TypeError(`a file of torch.save is read from its bytes, a Uint8Array; got ${show(bytes)}`);
  try {
    return new FileReader(bytes, limits).read(exact);
  } catch (error) {
    if (error instanceof WireError) throw new TensorError(`not a file of torch.save: ${error.what}`, { cause: error });
    throw error;
  }
}

/**
 * The tensors of a state dict that `torch.save` wrote, by name. `at` names the keys that lead to it in a larger checkpoint.
 * @throws TensorError as `loadTorchFile` does, and for an entry that is no tensor to compute with.
 */
export function loadStateDict(
  bytes: Uint8Array,
  options: { readonly at?: readonly string[] | undefined; readonly limits?: TorchLimits | undefined } = {},
): Map<string, Tensor> {
  const { at = [], ...rest } = options;
  let found = loadTorchFile(bytes, rest);
  at.forEach((key, i) => {
    if (!(found instanceof Map) || !found.has(key)) throw noStateDict(at.slice(0, i + 1), 'is not there');
    found = (found as Map<unknown, unknown>).get(key);
  });
  if (!(found instanceof Map)) throw noStateDict(at, 'is no dict');
  const tensors = new Map<string, Tensor>();
  for (const [name, value] of found as Map<unknown, unknown>) {
    if (typeof name !== 'string') throw noStateDict(at, 'has a key that is no text');
    if (value instanceof OpaqueTensor)
      throw noStateDict([...at, name], `is ${value.dtype}, which nothing here computes with`);
    if (!isTensor(value)) throw noStateDict([...at, name], 'is no tensor');
    tensors.set(name, value);
  }
  return tensors;
}

function noStateDict(at: readonly string[], why: string): TensorError {
  const place = at.length === 0 ? 'the file' : at.map((key) => `[${quoted(key)}]`).join('');
  return new TensorError(`not a state dict: ${place} ${why}`);
}

/** torch.storage.UntypedStorage: bytes, whose element type the tensors over them say. */
const untyped = new PyName('torch.storage', 'UntypedStorage');

/** A storage, and its element type where the file says it. */
class StorageRef {
  readonly storage: Storage;
  readonly element: TorchElement | undefined;

  constructor(storage: Storage, element: TorchElement | undefined) {
    this.storage = storage;
    this.element = element;
  }
}

const instructions = instructionTable(scalars, structures, pythonic, persistent);
const LEGACY = [0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

class FileReader {
  private readonly archive: ZipArchive;
  private readonly limits: TorchLimits;
  private readonly prefix: string;
  private readonly storages = new Map<string, StorageRef>();

  constructor(bytes: Uint8Array, limits: TorchLimits) {
    if (LEGACY.every((byte, i) => bytes[i] === byte))
      throw refuse('it is of the form before torch 1.6; load and save it with a newer torch');
    if (!isZip(bytes)) throw refuse('it is no archive');
    this.limits = limits;
    this.archive = new ZipArchive(bytes, limits.maxFileEntries);
    const names = this.archive.names();
    const pickle = names.find((name) => /^[^/]*\/data\.pkl$/.test(name));
    if (pickle === undefined) throw refuse('it has no data.pkl');
    this.prefix = pickle.slice(0, -'data.pkl'.length);
    if (names.includes(`${this.prefix}constants.pkl`)) throw refuse('it is a TorchScript program');
    const order = this.archive.read(`${this.prefix}byteorder`);
    if (order !== undefined && new TextDecoder().decode(order) !== 'little')
      throw refuse('it was written on a big-endian machine');
  }

  read(exact: boolean): unknown {
    const own = this.globals();
    const dialect: Dialect = {
      name: 'data.pkl',
      protocols: [2],
      instructions,
      list: () => [],
      dict: () => new Map(),
      float: exact ? exactFloat : (value) => value,
      text: readText,
      persistent: (id) => this.storage(id),
      global: (module, name) => this.global(module, name, own),
    };
    return new Machine(this.record('data.pkl'), dialect, this.limits).run();
  }

  private record(name: string): Uint8Array {
    const found = this.archive.read(this.prefix + name);
    if (found === undefined) throw refuse(`it has no ${quoted(name)}`);
    return found;
  }

  private global(module: string, name: string, own: ReadonlyMap<string, PyName>): unknown {
    // Protocol 2 has the names of Python 2.
    const key = globalKey(module === '__builtin__' ? 'builtins' : module, name);
    return storageClass(module, name) ?? own.get(key) ?? fileGlobals.get(key) ?? torchConstant(module, name);
  }

  /** ('storage', torch.FloatStorage, '0', 'cpu', elements) */
  private storage(id: unknown): StorageRef {
    const [what, type, key, , elements] = id instanceof PyTuple ? id : [];
    const element = type instanceof StorageClass ? type.element : undefined;
    if (what !== 'storage' || (element === undefined && type !== untyped) || typeof key !== 'string')
      throw refuse('a storage without its five parts');
    const known = this.storages.get(key);
    if (known !== undefined) {
      if (known.element !== element) throw refuse(`storage ${quoted(key)} is of two element types`);
      return known;
    }
    const content = this.record(`data/${key}`);
    integerIn(elements, 0, Math.floor(content.length / (element?.bytes ?? 1)), `the size of storage ${quoted(key)}`);
    // Of bools any byte may be in a file; they are made 0 or 1 in memory of their own.
    const own = content.byteOffset % 8 !== 0 || element?.dtype === 'bool';
    const storage = storageFromBytes(own ? new Uint8Array(content) : content);
    if (!own) storage.escaped = true;
    const made = new StorageRef(storage, element);
    this.storages.set(key, made);
    return made;
  }

  private globals(): ReadonlyMap<string, PyName> {
    return tableOf([
      untyped,
      new PyFunction('torch._utils', '_rebuild_tensor_v2', (...args) => dense(args)),
      new PyFunction('torch._utils', '_rebuild_tensor_v3', (...args) => denseOfBytes(args)),
      new PyFunction('torch._utils', '_rebuild_sparse_tensor', sparse),
      new PyFunction('torch._utils', '_rebuild_parameter', parameter),
      new PyFunction('torch._utils', '_rebuild_qtensor', () => {
        throw refuse('quantised tensors have no form here');
      }),
    ]);
  }
}

/** Of the names that calls may use, those of data. */
const NAMES =
  `builtins complex,builtins bytearray,builtins set,builtins frozenset,builtins list,builtins slice,builtins range,_codecs encode,
collections OrderedDict,collections defaultdict,collections deque,datetime datetime,datetime timedelta,datetime timezone,
torch device,torch Size,torch.serialization _get_layout`.split(/,\s*/);
const fileGlobals: ReadonlyMap<string, PyName> = new Map(
  NAMES.map((name) => [name, builtinGlobals.get(name) ?? (torchGlobals.get(name) as PyName)]),
);

function dense(args: readonly unknown[]): TensorLike {
  const [ref] = args;
  if (!(ref instanceof StorageRef) || ref.element === undefined) throw refuse('a tensor without a storage');
  return over(ref.storage, ref.element, args);
}

/** The same with the element type behind the hooks. */
function denseOfBytes(args: readonly unknown[]): TensorLike {
  const [ref, , , , , , dtype, ...rest] = args;
  const element = dtype instanceof TorchDType ? elementNamed(dtype.name) : undefined;
  if (!(ref instanceof StorageRef) || element === undefined)
    throw refuse('a tensor without a storage or an element type');
  return over(ref.storage, element, [...args.slice(0, 6), ...rest]);
}

function over(storage: Storage, element: TorchElement, args: readonly unknown[]): TensorLike {
  const { requiresGrad, conjugate, negative, ...view } = denseParts(args, element);
  if (element.dtype === undefined) {
    const bytes = tensorFromParts({ storage, ...bytewise(view, element.bytes) });
    return new OpaqueTensor(element.name, bytes as Tensor<'uint8'>, requiresGrad);
  }
  const tensor = resolved(tensorFromParts({ storage, dtype: element.dtype, ...view }), { conjugate, negative });
  if (requiresGrad) tensor.requiresGrad = true;
  return tensor;
}

/** (layout, (indices, values, size[, is_coalesced])) */
function sparse(layout: unknown, parts: unknown): Tensor {
  if (!(layout instanceof TorchLayout) || layout.name !== 'torch.sparse_coo')
    throw refuse('a sparse tensor of a layout other than COO');
  const [indices, values, size] = parts instanceof PyTuple ? parts : [];
  if (!isTensor(indices) || !isTensor(values)) throw refuse('a sparse tensor without indices or values');
  if (!Array.isArray(size)) throw refuse('a sparse tensor without a size');
  return sparseCooTensor(
    indices,
    values,
    size.map((n) => integerIn(n, 0, Number.MAX_SAFE_INTEGER, 'the size of a sparse tensor')),
  );
}

function parameter(data: unknown, requiresGrad: unknown): Parameter | OpaqueTensor {
  if (data instanceof OpaqueTensor) return data;
  if (!isTensor(data) || typeof requiresGrad !== 'boolean') throw refuse('a parameter without a tensor');
  return new Parameter(data, requiresGrad);
}
