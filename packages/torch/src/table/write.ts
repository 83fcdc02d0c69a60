/** @file Writes the tensor table of a message, and says which storages go with it. */
import { Tensor, noGrad } from '@backwire/tensor';
import type { Storage } from '@backwire/tensor/internal';
import type { TensorDescriptor } from '@backwire/wire';
import { checkLimit, checkTensorTable, planTensors, type TensorPlan } from '@backwire/wire/internal';
import { elementNamed, elementOf, type TorchElement } from '../values/dtypes.ts';
import { OpaqueTensor, ParameterData, type TravellingTensor } from '../values/opaque-tensor.ts';
import { Op } from '../pickle/opcode.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';
import { wireLimits } from './entries.ts';
import { WrittenTables } from './known.ts';

/** A table with the storages that it speaks of, in order. Their bytes stay as they are until `release`, which is called once. */
export interface OutgoingTable {
  readonly bytes: Uint8Array;
  readonly storages: readonly Uint8Array[];
  release(): void;
}

/**
 * The table of a message's tensors. Storages that tensors share travel once, small views of large ones as copies (torch's own rule).
 * The tensors may be disposed and changed afterwards. Everything is checked before: a table that does not fit ends torch's process.
 * @throws WireError 'limit'; DisposedError for a tensor that was disposed; nothing is pinned then.
 */
export function writeTable(
  tensors: readonly TravellingTensor[],
  limits: TorchLimits = DEFAULT_TORCH_LIMITS,
): OutgoingTable {
  checkLimit('tensors', tensors.length, limits.maxTensors);
  const carriers = tensors.map(carrierOf);
  const copies = tensors.length === 1 && carriers[0]?.sparse === undefined ? [] : separate(carriers, tensors);
  let plan: TensorPlan;
  try {
    plan = planTensors(carriers);
  } finally {
    for (const copy of copies) copy.release();
  }
  try {
    plan.secure();
    const storages = plan.storages.map((storage) => storage.bytes);
    return { bytes: tableOf(tensors, plan.tensors, storages, limits), storages, release: () => plan.release() };
  } catch (error) {
    plan.release();
    throw error;
  }
}

const written = new WrittenTables();

function tableOf(
  tensors: readonly TravellingTensor[],
  descriptors: readonly TensorDescriptor[],
  storages: readonly Uint8Array[],
  limits: TorchLimits,
): Uint8Array {
  const [tensor] = tensors;
  const [descriptor] = descriptors;
  const alone = tensors.length === 1 && tensor instanceof Tensor && descriptor?.sparse === undefined;
  const key = alone && descriptor !== undefined ? written.keyOf(descriptor, storages[0]?.length ?? 0) : undefined;
  const known = key === undefined ? undefined : written.find(key, limits);
  if (known !== undefined) return known;
  const sizes = storages.map(({ length }) => ({ nbytes: length, placement: 'body' as const }));
  checkLimit('storages', storages.length, limits.maxTensors);
  checkTensorTable({ storages: sizes, tensors: descriptors }, wireLimits(limits));
  const bytes = new TableWriter(storages).write(tensors, descriptors);
  if (key !== undefined) written.keep(key, limits, bytes);
  return bytes;
}

/** The tensor whose storage travels. */
function carrierOf(tensor: TravellingTensor): Tensor {
  if (tensor instanceof OpaqueTensor) return tensor.bytes;
  return tensor instanceof ParameterData ? tensor.parameter : tensor;
}

/** torch ends itself over two element types in one storage: puts copies in place of tensors that would be the second. */
function separate(carriers: Tensor[], tensors: readonly TravellingTensor[]): Tensor[] {
  const types = new Map<Storage, string>();
  const copies: Tensor[] = [];
  const clashes = (storage: Storage, type: string): boolean => {
    const known = types.get(storage);
    if (known === undefined) types.set(storage, type);
    return known !== undefined && known !== type;
  };
  carriers.forEach((carrier, i) => {
    const { sparse } = carrier;
    const travelling = tensors[i];
    const type = travelling instanceof OpaqueTensor ? travelling.dtype : carrier.dtype;
    const parts = sparse === undefined ? [carrier] : [sparse.indices, sparse.values];
    if (!parts.some((part) => clashes(part.storage, part === carrier ? type : part.dtype))) return;
    const copy = noGrad(() => carrier.clone());
    copies.push(copy);
    carriers[i] = copy;
  });
  return copies;
}

class TableWriter extends ScriptWriter {
  private readonly known = new Map<number, number>();
  private readonly storages: readonly Uint8Array[];

  constructor(storages: readonly Uint8Array[]) {
    super();
    this.storages = storages;
  }

  write(tensors: readonly TravellingTensor[], descriptors: readonly TensorDescriptor[]): Uint8Array {
    const written = new Map<TravellingTensor, number>();
    this.global('torch.jit._pickle', 'build_tensorlist');
    this.reduce(() => {
      this.op(Op.EMPTY_LIST);
      this.op(Op.MARK);
      tensors.forEach((tensor, i) => {
        const before = written.get(tensor);
        if (before !== undefined) return this.recall(before);
        this.entry(tensor, descriptors[i] as TensorDescriptor);
        written.set(tensor, this.remember());
      });
      this.op(Op.APPENDS);
    });
    return this.finish();
  }

  private entry(tensor: TravellingTensor, descriptor: TensorDescriptor): void {
    if (tensor instanceof OpaqueTensor) {
      const element = elementNamed(tensor.dtype);
      if (element === undefined) throw new TypeError(`torch has no ${tensor.dtype}`);
      const width = element.bytes;
      const shape = descriptor.shape.slice(0, -1);
      const strides = descriptor.strides.slice(0, -1).map((stride) => stride / width);
      const offset = descriptor.offset / width;
      this.dense({ ...descriptor, shape, strides, offset, requiresGrad: tensor.requiresGrad }, element);
    } else if (descriptor.sparse !== undefined) this.sparse(descriptor, descriptor.sparse);
    else {
      const data = tensor instanceof ParameterData;
      const { dtype } = data ? tensor.parameter : tensor;
      this.dense({ ...descriptor, requiresGrad: !data && tensor.requiresGrad }, elementOf(dtype));
    }
  }

  private dense(descriptor: TensorDescriptor, element: TorchElement): void {
    this.global('torch._utils', '_rebuild_tensor_v2');
    this.reduce(() => {
      this.storage(descriptor.storage, element);
      this.int(descriptor.offset);
      this.sizes(descriptor.shape);
      this.sizes(descriptor.strides);
      this.bool(descriptor.requiresGrad);
      this.hooks();
    });
  }

  private sparse(descriptor: TensorDescriptor, parts: NonNullable<TensorDescriptor['sparse']>): void {
    this.global('torch._utils', '_rebuild_sparse_tensor');
    this.reduce(() => {
      this.int(1);
      this.sizes(descriptor.shape);
      this.bool(descriptor.requiresGrad);
      this.dense({ ...parts.indices, requiresGrad: false }, elementOf('int64'));
      const values = elementNamed(parts.values.dtype);
      if (values === undefined) throw new Error(`invariant: torch has no ${parts.values.dtype}`);
      this.dense({ ...parts.values, requiresGrad: false }, values);
      this.hooks();
    });
  }

  private storage(index: number, element: TorchElement): void {
    const before = this.known.get(index);
    if (before !== undefined) return this.recall(before);
    const { length } = this.storages[index] as Uint8Array;
    this.marked(() => {
      this.string('storage');
      this.global('torch', `${element.storage}Storage`);
      this.string(String(index));
      this.string('cpu');
      this.int(Math.floor(length / element.bytes));
    });
    this.op(Op.BINPERSID);
    this.known.set(index, this.remember());
  }

  private sizes(sizes: readonly number[]): void {
    this.marked(() => {
      for (const size of sizes) this.int(size);
    });
  }

  /** Backward hooks, of which none travel. */
  private hooks(): void {
    this.global('collections', 'OrderedDict');
    this.op(Op.EMPTY_TUPLE);
    this.op(Op.REDUCE);
  }
}
