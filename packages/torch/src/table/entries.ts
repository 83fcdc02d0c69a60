/** @file The tensor table of a message, read: what each tensor is, over which storages, with no memory taken for it. */
import type { TensorDescriptor } from '@backwire/wire';
import { DEFAULT_WIRE_LIMITS, checkTensorTable, type WireLimits } from '@backwire/wire/internal';
import { PyTuple, ScriptDict, ScriptList } from '../values/containers.ts';
import { QUANTIZED, elementOfStorage, type TorchElement } from '../values/dtypes.ts';
import { PyName } from '../values/name.ts';
import { TorchDevice } from '../values/torch-types.ts';
import { PyFunction, globalKey, integerIn, tableOf } from '../pickle/builtin-globals.ts';
import { persistent, scalars, structures } from '../pickle/instructions.ts';
import { Machine, instructionTable, type Dialect } from '../pickle/machine.ts';
import { quoted, refuse } from '../pickle/refusal.ts';
import { tagGlobal, tensorListGlobal } from '../pickle/script-reader.ts';
import { readText } from '../pickle/text.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';

/** One tensor of a table. */
export interface TableEntry {
  /** The view that its bytes are read as: of an element type that is only handed on, uint8 with a last dimension of its width. */
  readonly descriptor: TensorDescriptor;
  /** Set for an element type that is only handed on. */
  readonly opaque: TorchElement | undefined;
  readonly requiresGrad: boolean;
  /** The elements are the conjugates, or the negatives, of what the storage holds. */
  readonly conjugate: boolean;
  readonly negative: boolean;
}

/** A storage as the table knows it. */
class StorageRef {
  readonly index: number;
  readonly element: TorchElement;

  constructor(index: number, element: TorchElement) {
    this.index = index;
    this.element = element;
  }
}

/** The class of a storage: 'FloatStorage'. */
class StorageClass extends PyName {
  readonly element: TorchElement;

  constructor(name: string, element: TorchElement) {
    super('torch', name);
    this.element = element;
  }
}

class Entry implements TableEntry {
  readonly descriptor: TensorDescriptor;
  readonly opaque: TorchElement | undefined;
  readonly requiresGrad: boolean;
  readonly conjugate: boolean;
  readonly negative: boolean;

  constructor(fields: TableEntry) {
    this.descriptor = fields.descriptor;
    this.opaque = fields.opaque;
    this.requiresGrad = fields.requiresGrad;
    this.conjugate = fields.conjugate;
    this.negative = fields.negative;
  }
}

const instructions = instructionTable(scalars, structures, persistent);

/**
 * Reads a table over storages of these sizes, and checks all of it: every view lies inside of its storage, and no size is over its limit.
 * @throws WireError 'decode-error' or 'limit'; quantised tensors and sparse layouts other than COO are refused by name.
 */
export function readTable(
  bytes: Uint8Array,
  storages: readonly number[],
  limits: TorchLimits = DEFAULT_TORCH_LIMITS,
): TableEntry[] {
  const dialect: Dialect = {
    name: 'a tensor table',
    protocols: [2],
    instructions,
    list: () => new ScriptList(),
    dict: () => new ScriptDict(),
    float: (value) => value,
    text: readText,
    persistent: (id) => storageOf(id, storages),
    global: globalOf,
  };
  const list = new Machine(bytes, dialect, limits).run();
  if (!(list instanceof ScriptList) || !list.every(isEntry)) throw refuse('a tensor table that is no list of tensors');
  const entries = list as readonly Entry[];
  const sizes = storages.map((nbytes) => ({ nbytes, placement: 'body' as const }));
  checkTensorTable({ storages: sizes, tensors: entries.map((entry) => entry.descriptor) }, wireLimits(limits));
  return [...entries];
}

/** torch's limits as the wire's checks take them. */
export function wireLimits(limits: TorchLimits): WireLimits {
  const { maxMessageBytes, maxMaterialisedBytes, maxTensors, maxRank } = limits;
  return { ...DEFAULT_WIRE_LIMITS, maxMessageBytes, maxMaterialisedBytes, maxTensors, maxRank };
}

function isEntry(value: unknown): value is Entry {
  return value instanceof Entry;
}

function globalOf(module: string, name: string): PyName | undefined {
  if (module !== 'torch') return tableGlobals.get(globalKey(module, name));
  const element = elementOfStorage(name);
  if (element !== undefined) return new StorageClass(name, element);
  if (QUANTIZED.has(name)) throw refuse(`quantised tensors (${name}) have no form here`);
  return undefined;
}

/** ('storage', torch.FloatStorage, '0', 'cpu', elements) */
function storageOf(id: unknown, storages: readonly number[]): StorageRef {
  if (!(id instanceof PyTuple) || id.length !== 5 || id[0] !== 'storage')
    throw refuse('a storage without its five parts');
  const [, type, key, location, elements] = id;
  if (!(type instanceof StorageClass)) throw refuse('a storage without a class');
  if (typeof key !== 'string' || !/^\d{1,6}$/.test(key)) throw refuse('a storage without a number');
  if (typeof location !== 'string') throw refuse('a storage without a location');
  TorchDevice.parse(location);
  const index = Number(key);
  const nbytes = storages[index];
  if (nbytes === undefined) throw refuse(`storage ${index} of ${storages.length}`);
  const { element } = type;
  integerIn(elements, 0, Math.floor(nbytes / element.bytes), `the size of storage ${index}`);
  return new StorageRef(index, element);
}

function sizesIn(value: unknown, what: string): number[] {
  if (!(value instanceof PyTuple)) throw refuse(`${what} is no tuple`);
  return value.map((size) => integerIn(size, 0, Number.MAX_SAFE_INTEGER, what));
}

function flagIn(value: unknown): boolean {
  if (typeof value !== 'boolean') throw refuse('a flag of a tensor is no bool');
  return value;
}

/** (storage, offset, shape, strides, requires_grad, hooks[, {'conj': True}]) */
function dense(args: readonly unknown[]): Entry {
  const [storage, offset, sizes, steps, grad, hooks, metadata] = args;
  if (args.length < 6 || args.length > 7 || !(storage instanceof StorageRef))
    throw refuse('a tensor without its six parts');
  if (hooks !== null) throw refuse('a tensor with hooks');
  const shape = sizesIn(sizes, 'the shape of a tensor');
  const strides = sizesIn(steps, 'the strides of a tensor');
  const first = integerIn(offset, 0, Number.MAX_SAFE_INTEGER, 'the offset of a tensor');
  const requiresGrad = flagIn(grad);
  const { element, index } = storage;
  const flags = flagsIn(metadata);
  if ((flags.conjugate || flags.negative) && element.dtype === undefined)
    throw refuse(`a view of ${element.name} that is conjugated or negated`);
  const plain = { storage: index, device: 'cpu' as const };
  if (element.dtype !== undefined)
    return new Entry({
      descriptor: { ...plain, dtype: element.dtype, shape, strides, offset: first, requiresGrad },
      opaque: undefined,
      requiresGrad,
      ...flags,
    });
  const width = element.bytes;
  const bytewise = {
    dtype: 'uint8',
    shape: [...shape, width],
    strides: [...strides.map((stride) => stride * width), 1],
    offset: first * width,
    requiresGrad: false,
  };
  return new Entry({ descriptor: { ...plain, ...bytewise }, opaque: element, requiresGrad, ...flags });
}

function flagsIn(metadata: unknown): { conjugate: boolean; negative: boolean } {
  if (metadata === undefined) return { conjugate: false, negative: false };
  if (!(metadata instanceof ScriptDict)) throw refuse('the flags of a tensor are no dict');
  for (const key of metadata.keys())
    if (key !== 'conj' && key !== 'neg')
      throw refuse(`a tensor with the flag ${typeof key === 'string' ? quoted(key) : '?'}`);
  return { conjugate: metadata.get('conj') === true, negative: metadata.get('neg') === true };
}

const COO = 1;

/** (layout, shape, requires_grad, indices, values, hooks) */
function sparse(args: readonly unknown[]): Entry {
  const [layout, sizes, grad, indices, values] = args;
  if (layout !== COO) throw refuse('a sparse tensor of a layout other than COO');
  if (!(indices instanceof Entry) || !(values instanceof Entry))
    throw refuse('a sparse tensor without indices or values');
  if (values.opaque !== undefined) throw refuse(`a sparse tensor of ${values.opaque.name}`);
  for (const part of [indices, values])
    if (part.conjugate || part.negative || part.descriptor.sparse !== undefined)
      throw refuse('a sparse tensor of parts that are not plain');
  const requiresGrad = flagIn(grad);
  const { dtype } = values.descriptor;
  const plainValues = { ...values.descriptor, requiresGrad: false };
  return new Entry({
    descriptor: {
      dtype,
      shape: sizesIn(sizes, 'the shape of a sparse tensor'),
      strides: [],
      offset: 0,
      storage: -1,
      requiresGrad,
      device: 'cpu',
      sparse: { indices: indices.descriptor, values: plainValues, coalesced: false },
    },
    opaque: undefined,
    requiresGrad,
    conjugate: false,
    negative: false,
  });
}

const tableGlobals: ReadonlyMap<string, PyName> = tableOf([
  tagGlobal,
  tensorListGlobal,
  new PyFunction('torch._utils', '_rebuild_tensor_v2', (...args) => dense(args)),
  new PyFunction('torch._utils', '_rebuild_sparse_tensor', (...args) => sparse(args)),
  new PyFunction('torch._utils', '_rebuild_qtensor', () => {
    throw refuse('quantised tensors have no form here');
  }),
  new PyFunction('collections', 'OrderedDict', () => null),
]);
