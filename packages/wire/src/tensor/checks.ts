/** @file Checks what a tensor table says before any memory is taken for it. */
import { checkLimit, decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS, type WireLimits } from '../limits.ts';
import { type SparseDescriptor, type TensorDescriptor, type TensorTable, dtypeBytes } from './descriptor.ts';

/** dtypes whose tensors can require gradients. */
const DIFFERENTIABLE: ReadonlySet<string> = new Set(['float32', 'float64', 'float16', 'bfloat16', 'complex64']);

/**
 * Checks what a table says: every view lies inside its storage, the sizes are safe integers, and the tensors written out stay under
 * the limits (zero strides can make them far larger than what was sent). Throws 'decode-error' or 'limit'; nothing is allocated.
 */
export function checkTensorTable(table: TensorTable, limits: WireLimits = DEFAULT_WIRE_LIMITS): void {
  let total = 0;
  for (const storage of table.storages) {
    checkLimit('storage', storage.nbytes, limits.maxMessageBytes);
    total += storage.nbytes;
  }
  checkLimit('message', total, limits.maxMessageBytes);
  const budget = { left: limits.maxMaterialisedBytes, limits };
  for (const tensor of table.tensors) checkTensor(tensor, table.storages, budget);
}

interface Budget {
  left: number;
  readonly limits: WireLimits;
}

function checkTensor(tensor: TensorDescriptor, storages: readonly { readonly nbytes: number }[], budget: Budget): void {
  const { sparse } = tensor;
  const item = dtypeBytes(tensor.dtype);
  if (item === undefined) throw decodeError(`unknown dtype '${tensor.dtype}'`);
  if (tensor.requiresGrad && !DIFFERENTIABLE.has(tensor.dtype))
    throw decodeError(`a tensor of ${tensor.dtype} that requires gradients`);
  if (!tensor.shape.every(isSize) || !tensor.strides.every(isSize) || (sparse === undefined && !isSize(tensor.offset)))
    throw decodeError('a shape, stride or offset is no natural number');
  const elements = elementCount(tensor.shape, budget.limits);
  if (sparse !== undefined) {
    checkTensor(sparse.indices, storages, budget);
    checkTensor(sparse.values, storages, budget);
    checkSparse(tensor, sparse);
    return;
  }
  if (tensor.strides.length !== tensor.shape.length)
    throw decodeError('a tensor with another number of strides than dimensions');
  const storage = storages[tensor.storage];
  if (storage === undefined) throw decodeError(`storage ${tensor.storage} of ${storages.length}`);
  const room = Math.floor(storage.nbytes / item);
  let last = tensor.offset;
  if (elements > 0)
    for (let i = 0; i < tensor.shape.length; i++)
      last += ((tensor.shape[i] as number) - 1) * (tensor.strides[i] as number);
  // Products past 2^53 lose precision but stay far above any storage.
  if (elements > 0 ? last >= room : tensor.offset > room)
    throw decodeError(`a tensor reaches element ${last} of a storage of ${room}`);
  budget.left -= elements * item;
  if (budget.left < 0)
    checkLimit(
      'tensors written out',
      budget.limits.maxMaterialisedBytes - budget.left,
      budget.limits.maxMaterialisedBytes,
    );
}

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function elementCount(shape: readonly number[], limits: WireLimits): number {
  checkLimit('rank', shape.length, limits.maxRank);
  let elements = 1;
  let bound = 1;
  for (const size of shape) {
    elements *= size;
    // Zero-size dimensions do not excuse the others from being possible.
    bound *= Math.max(size, 1);
    if (bound > Number.MAX_SAFE_INTEGER) throw decodeError('a tensor of more than 2^53 elements');
  }
  return elements;
}

function checkSparse(tensor: TensorDescriptor, sparse: SparseDescriptor): void {
  const { indices, values } = sparse;
  const [dims, count] = indices.shape;
  if (indices.dtype !== 'int64' || indices.shape.length !== 2)
    throw decodeError('sparse indices are not an int64 matrix');
  if (values.dtype !== tensor.dtype) throw decodeError('sparse values of another dtype');
  const rest = tensor.shape.slice(dims);
  if ((dims as number) > tensor.shape.length || values.shape[0] !== count || values.shape.length !== rest.length + 1)
    throw decodeError('sparse indices and values do not fit the shape');
  if (!rest.every((size, i) => size === values.shape[i + 1])) throw decodeError('sparse values do not fit the shape');
}
