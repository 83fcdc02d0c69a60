/** @file The operations as methods of Tensor: their types and documentation. install.ts gives the bodies. */
import type { GradHook } from './autograd/meta.ts';
import type { DType, TypedArrayOf } from './dtype.ts';
import type { TfTensor } from './backends/tfjs.ts';
import type { Device, Nested, Tensor } from './tensor.ts';

/** Views share the storage: writing to one changes the others. */
export interface ViewMethods<D extends DType> {
  /** The same elements in another shape; one dimension may be -1. A view where the strides allow, else a copy. */
  reshape(shape: readonly number[]): Tensor<D>;
  /** As reshape, but throws where it would have to copy. */
  view(shape: readonly number[]): Tensor<D>;
  transpose(dim0: number, dim1: number): Tensor<D>;
  permute(dims: readonly number[]): Tensor<D>;
  /** `length` elements of `dim` from `start`. */
  narrow(dim: number, start: number, length: number): Tensor<D>;
  /** The slice at `index` of `dim`, without that dimension. */
  select(dim: number, index: number): Tensor<D>;
  /** Elements start, start + step, … before `end`; negative positions count from the end; `step` is positive. */
  slice(dim: number, start?: number, end?: number, step?: number): Tensor<D>;
  /** Repeats dimensions of one element without copying; -1 keeps a dimension. */
  expand(shape: readonly number[]): Tensor<D>;
  /** Without dimensions of one element: all of them, or `dim` if it is one. */
  squeeze(dim?: number): Tensor<D>;
  unsqueeze(dim: number): Tensor<D>;
  /** Dimensions start to end as one. */
  flatten(startDim?: number, endDim?: number): Tensor<D>;
  /** A new tensor over the same storage with the same shape. */
  alias(): Tensor<D>;
  /** Parts of `sizes` elements each along `dim` (default 0). As one of several views, a part may not be changed in place while recording. */
  split(sizes: number | readonly number[], dim?: number): Tensor<D>[];
  /** At most `count` parts of equal size along `dim` (default 0); exactly `count` of a dimension without elements. */
  chunk(count: number, dim?: number): Tensor<D>[];
  /** The slices along `dim` (default 0). */
  unbind(dim?: number): Tensor<D>[];
}

/** Access to elements, conversions, lifetime. */
export interface DataMethods<D extends DType> {
  /** The same storage outside the graph. */
  detach(): Tensor<D>;
  clone(): Tensor<D>;
  /** This tensor if it is contiguous, else a copy that is. The result is a new handle either way. */
  contiguous(): Tensor<D>;
  to<E extends DType>(dtype: E): Tensor<E>;
  to(device: Device): Tensor<D>;
  /** The value of a tensor of one element as a number. */
  item(): number;
  itemAsync(): Promise<number>;
  /** Nested arrays of numbers; bigint for int64, boolean for bool. */
  toArray(): Nested<number | bigint | boolean>;
  /** The elements in row-major order, converted to `as` if given. A snapshot: later in-place changes do not show. Not to be written to. */
  data(): Promise<TypedArrayOf<D>>;
  data<E extends DType>(as: E): Promise<TypedArrayOf<E>>;
  dataSync(): TypedArrayOf<D>;
  /** Same dtype, shape and elements; NaN equals nothing. */
  /** A TensorFlow.js tensor with a copy of the elements, for the caller to dispose. int64 must fit int32; small types widen. */
  toTf(): TfTensor;
  equal(other: Tensor): boolean;
  /** |a - b| <= atol + rtol |b| everywhere; defaults rtol 1e-5, atol 1e-8. */
  allClose(other: Tensor, options?: { rtol?: number; atol?: number; equalNaN?: boolean }): boolean;
}

/** Differentiation. */
export interface AutogradMethods {
  /** Adds d this / d leaf into `.grad` of every leaf; `gradient` is needed unless this is a scalar. */
  backward(gradient?: Tensor, options?: { retainGraph?: boolean; createGraph?: boolean }): void;
  /** Called with each gradient computed for this tensor; may return another. Returns how to remove it. */
  registerHook(hook: GradHook): () => void;
  /** Makes a backward pass leave the gradient of this inner tensor in its `.grad`. */
  retainGrad(): void;
}

type Operand = Tensor | number;
type Dims = number | readonly number[];

/** Arithmetic and comparison: operands broadcast and promote as in PyTorch. */
export interface ArithmeticMethods {
  /** this + alpha other. */
  add(other: Operand, options?: { alpha?: number }): Tensor;
  sub(other: Operand, options?: { alpha?: number }): Tensor;
  mul(other: Operand): Tensor;
  div(other: Operand): Tensor;
  floorDivide(other: Operand): Tensor;
  remainder(other: Operand): Tensor;
  pow(other: Operand): Tensor;
  maximum(other: Operand): Tensor;
  minimum(other: Operand): Tensor;
  atan2(other: Operand): Tensor;
  eq(other: Operand): Tensor;
  ne(other: Operand): Tensor;
  lt(other: Operand): Tensor;
  le(other: Operand): Tensor;
  gt(other: Operand): Tensor;
  ge(other: Operand): Tensor;
  logicalAnd(other: Operand): Tensor;
  logicalOr(other: Operand): Tensor;
  logicalXor(other: Operand): Tensor;
}

/** Functions of each element. */
export interface UnaryMethods {
  neg(): Tensor;
  abs(): Tensor;
  sign(): Tensor;
  exp(): Tensor;
  expm1(): Tensor;
  log(): Tensor;
  log1p(): Tensor;
  log2(): Tensor;
  sqrt(): Tensor;
  rsqrt(): Tensor;
  square(): Tensor;
  reciprocal(): Tensor;
  relu(): Tensor;
  sigmoid(): Tensor;
  tanh(): Tensor;
  sin(): Tensor;
  cos(): Tensor;
  tan(): Tensor;
  asin(): Tensor;
  acos(): Tensor;
  atan(): Tensor;
  sinh(): Tensor;
  cosh(): Tensor;
  asinh(): Tensor;
  acosh(): Tensor;
  atanh(): Tensor;
  erf(): Tensor;
  softplus(): Tensor;
  logSigmoid(): Tensor;
  floor(): Tensor;
  ceil(): Tensor;
  round(): Tensor;
  trunc(): Tensor;
  logicalNot(): Tensor;
  isNaN(): Tensor;
  isInf(): Tensor;
  isFinite(): Tensor;
  /** At least one bound; NaN as a bound makes all NaN. */
  clamp(min?: number, max?: number): Tensor;
  /** With `value` where `mask` (bool, broadcast) holds. */
  maskedFill(mask: Tensor, value: number): Tensor;
}

/** Reductions over one dimension, several, or all. */
export interface ReductionMethods {
  sum(dim?: Dims, keepDim?: boolean): Tensor;
  mean(dim?: Dims, keepDim?: boolean): Tensor;
  prod(dim?: number, keepDim?: boolean): Tensor;
  amax(dim?: Dims, keepDim?: boolean): Tensor;
  amin(dim?: Dims, keepDim?: boolean): Tensor;
  argMax(dim?: number, keepDim?: boolean): Tensor;
  argMin(dim?: number, keepDim?: boolean): Tensor;
  any(dim?: Dims, keepDim?: boolean): Tensor;
  all(dim?: Dims, keepDim?: boolean): Tensor;
  cumsum(dim: number): Tensor;
  cumprod(dim: number): Tensor;
}

/** Along one dimension; the last also along several. */
export interface SoftmaxMethods {
  softmax(dim: number): Tensor;
  logSoftmax(dim: number): Tensor;
  logSumExp(dim: Dims, keepDim?: boolean): Tensor;
}

/** Activation functions and other compositions. */
export interface CompositeMethods {
  gelu(approximate?: 'none' | 'tanh'): Tensor;
  silu(): Tensor;
  mish(): Tensor;
  leakyRelu(slope?: number): Tensor;
  elu(alpha?: number): Tensor;
  selu(): Tensor;
  relu6(): Tensor;
  hardtanh(low?: number, high?: number): Tensor;
  hardSigmoid(): Tensor;
  hardSwish(): Tensor;
  softsign(): Tensor;
  /** this + weight (end - this). */
  lerp(end: Tensor, weight: Tensor | number): Tensor;
  variance(dim?: Dims, options?: { correction?: number; keepDim?: boolean }): Tensor;
  std(dim?: Dims, options?: { correction?: number; keepDim?: boolean }): Tensor;
  norm(p?: number, dim?: Dims, keepDim?: boolean): Tensor;
  tile(counts: readonly number[]): Tensor;
  roll(shift: number, dim?: number): Tensor;
}

interface Picked {
  values: Tensor;
  /** int64 positions along the dimension. */
  indices: Tensor;
}

/** Triangles, order and search. */
export interface StructureMethods {
  tril(k?: number): Tensor;
  triu(k?: number): Tensor;
  /** The diagonal of the last two dimensions, as a view. */
  diagonal(): Tensor;
  trace(): Tensor;
  diagEmbed(): Tensor;
  flip(dims: readonly number[]): Tensor;
  /** Pairs [before, after] from the last dimension backwards. */
  pad(pads: readonly number[], value?: number): Tensor;
  argSort(dim?: number, descending?: boolean): Tensor;
  sort(dim?: number, descending?: boolean): Picked;
  topK(k: number, dim?: number, largest?: boolean): Picked;
  max(dim: number, keepDim?: boolean): Picked;
  min(dim: number, keepDim?: boolean): Picked;
  nonzero(): Tensor;
  /** The elements where `mask` (bool) holds, as a vector; both broadcast. */
  maskedSelect(mask: Tensor): Tensor;
  unique(): { values: Tensor; inverse: Tensor; counts: Tensor };
  inverse(): Tensor;
  det(): Tensor;
  cholesky(): Tensor;
}

/** Choosing and adding by integer indices. */
export interface IndexMethods {
  /** The slices at `index` (a vector) along `dim`. */
  indexSelect(dim: number, index: Tensor): Tensor;
  /** With slice i of `source` added at index[i] along `dim`. */
  indexAdd(dim: number, index: Tensor, source: Tensor): Tensor;
  gather(dim: number, index: Tensor): Tensor;
  scatterAdd(dim: number, index: Tensor, source: Tensor): Tensor;
  scatter(dim: number, index: Tensor, source: Tensor): Tensor;
}

/** Matrix products. */
export interface MatrixMethods {
  matmul(other: Tensor): Tensor;
  bmm(other: Tensor): Tensor;
  mm(other: Tensor): Tensor;
  dot(other: Tensor): Tensor;
  /** beta this + alpha (a b). */
  addmm(a: Tensor, b: Tensor, options?: { alpha?: number; beta?: number }): Tensor;
}

/**
 * In-place forms: they change the storage, count a version, and become part of this tensor's history. They throw where an operand lies in
 * part of the memory that changes, and, while recording, for leaves and for views that `noGrad`, `split`, `chunk` or `unbind` made.
 */
export interface InPlaceMethods {
  copy_(source: Tensor): this;
  fill_(value: number): this;
  zero_(): this;
  add_(other: Operand, options?: { alpha?: number }): this;
  sub_(other: Operand, options?: { alpha?: number }): this;
  mul_(other: Operand): this;
  div_(other: Operand): this;
  pow_(other: Operand): this;
  neg_(): this;
  exp_(): this;
  sqrt_(): this;
  relu_(): this;
  sigmoid_(): this;
  tanh_(): this;
}

/** Sparse tensors. */
export interface SparseMethods<D extends DType> {
  /** Sorted, unique indices; values of equal indices summed. */
  coalesce(): Tensor<D>;
  /** int64 [sparseDims, nnz] of a coalesced tensor. */
  indices(): Tensor<'int64'>;
  /** [nnz, ...denseDims] of a coalesced tensor. */
  values(): Tensor<D>;
  toDense(): Tensor<D>;
  toSparse(): Tensor<D>;
  readonly isCoalesced: boolean;
}

export interface TensorMethods<D extends DType>
  extends
    ViewMethods<D>,
    DataMethods<D>,
    AutogradMethods,
    ArithmeticMethods,
    UnaryMethods,
    ReductionMethods,
    SoftmaxMethods,
    CompositeMethods,
    StructureMethods,
    IndexMethods,
    MatrixMethods,
    InPlaceMethods,
    SparseMethods<D> {}
