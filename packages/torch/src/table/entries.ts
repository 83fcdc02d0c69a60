/** @file The tensor table of a message, read: what each tensor is, over which storages, with no memory taken for it. */
import type { TensorDescriptor } from '@backwire/wire';
import { DEFAULT_WIRE_LIMITS, checkTensorTable, type WireLimits } from '@backwire/wire/internal';
import { PyTuple, ScriptDict, ScriptList } from '../values/containers.ts';
import type { TorchElement } from '../values/dtypes.ts';
import type { PyName } from '../values/name.ts';
import { bytewise } from '../values/opaque-tensor.ts';
import { TorchDevice } from '../values/torch-types.ts';
import { PyFunction, globalKey, integerIn, tableOf } from '../pickle/builtin-globals.ts';
import { persistent, scalars, structures } from '../pickle/instructions.ts';
import { Machine, instructionTable, type Dialect } from '../pickle/machine.ts';
import { refuse } from '../pickle/refusal.ts';
import { tagGlobal, tensorListGlobal } from '../pickle/script-reader.ts';
import { readText } from '../pickle/text.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';
import { ReadTables } from './known.ts';
import { StorageClass, denseParts, flagIn, sizesIn, storageClass } from './parts.ts';

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
const seen = new ReadTables<TableEntry>();

/**
 * Reads a table over storages of these sizes, and checks all of it: every view lies inside of its storage, and no size is over its limit.
 * @throws WireError 'decode-error' or 'limit'; quantised tensors and sparse layouts other than COO are refused by name.
 */
export function readTable(
  bytes: Uint8Array,
  storages: readonly number[],
  limits: TorchLimits = DEFAULT_TORCH_LIMITS,
): readonly TableEntry[] {
  const known = seen.find(bytes, storages, limits);
  if (known !== undefined) return known;
  const entries = readNew(bytes, storages, limits);
  seen.keep(bytes, storages, limits, entries);
  return entries;
}

function readNew(bytes: Uint8Array, storages: readonly number[], limits: TorchLimits): readonly TableEntry[] {
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
  const entries: readonly Entry[] = [...list];
  const sizes = storages.map((nbytes) => ({ nbytes, placement: 'body' as const }));
  checkTensorTable({ storages: sizes, tensors: entries.map((entry) => entry.descriptor) }, wireLimits(limits));
  return entries;
}

/** torch's limits as the wire's checks take them. */
export function wireLimits(limits: TorchLimits): WireLimits {
  const known = wireLimitsOf.get(limits);
  if (known !== undefined) return known;
  const { maxMessageBytes, maxMaterialisedBytes, maxTensors, maxRank } = limits;
  const made = { ...DEFAULT_WIRE_LIMITS, maxMessageBytes, maxMaterialisedBytes, maxTensors, maxRank };
  wireLimitsOf.set(limits, made);
  return made;
}

const wireLimitsOf = new WeakMap<TorchLimits, WireLimits>();

function isEntry(value: unknown): value is Entry {
  return value instanceof Entry;
}

function globalOf(module: string, name: string): PyName | undefined {
  return storageClass(module, name) ?? tableGlobals.get(globalKey(module, name));
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

function dense(args: readonly unknown[]): Entry {
  const [storage, , , , , hooks] = args;
  if (!(storage instanceof StorageRef) || hooks !== null) throw refuse('a tensor without a storage, or with hooks');
  const { element, index } = storage;
  const { requiresGrad, conjugate, negative, ...view } = denseParts(args, element);
  const plain = { storage: index, device: 'cpu' as const };
  const flags = { requiresGrad, conjugate, negative };
  if (element.dtype !== undefined)
    return new Entry({
      descriptor: { ...plain, dtype: element.dtype, ...view, requiresGrad },
      opaque: undefined,
      ...flags,
    });
  const bytes = bytewise(view, element.bytes);
  return new Entry({ descriptor: { ...plain, ...bytes, requiresGrad: false }, opaque: element, ...flags });
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
