/**
 * @file The operations as methods of Tensor: their types and documentation. install.ts gives the bodies. They are written for a `Tensor`
 * that tensor.ts puts in, and `Own`, which is the same with this tensor's dtype.
 */
import type { DType, TypedArrayOf } from './dtype.ts';
import type { ArrangingMethods, Picked } from './arranging-methods.ts';
import type { TfTensor } from './backends/tfjs.ts';

/** Values at any depth of nesting: a scalar, a vector, a matrix and so on. */
export type Nested<T> = T | readonly Nested<T>[];

/** Views share the storage: writing to one changes the others. */
interface ViewMethods<Own> {
  /** The same elements in another shape; one dimension may be -1. A view where the strides allow, else a copy. */
  reshape(shape: readonly number[]): Own;
  /** As reshape, but throws where it would have to copy. */
  view(shape: readonly number[]): Own;
  transpose(dim0: number, dim1: number): Own;
  /** A matrix with its two dimensions swapped; vectors and scalars stay as they are. */
  t(): Own;
  permute(dims: readonly number[]): Own;
  /** `length` elements of `dim` from `start`. */
  narrow(dim: number, start: number, length: number): Own;
  /** The slice at `index` of `dim`, without that dimension. */
  select(dim: number, index: number): Own;
  /** Elements start, start + step, … before `end`; negative positions count from the end; `step` is positive. */
  slice(dim: number, start?: number, end?: number, step?: number): Own;
  /** Repeats dimensions of one element without copying; -1 keeps a dimension. */
  expand(shape: readonly number[]): Own;
  /** Without dimensions of one element: all of them, or `dim` if it is one. */
  squeeze(dim?: number): Own;
  unsqueeze(dim: number): Own;
  /** Dimensions start to end as one. */
  flatten(startDim?: number, endDim?: number): Own;
  /** A new tensor over the same storage with the same shape. */
  alias(): Own;
  /** Parts of `sizes` elements each along `dim` (default 0). As one of several views, a part may not be changed in place while recording. */
  split(sizes: number | readonly number[], dim?: number): Own[];
  /** At most `count` parts of equal size along `dim` (default 0); exactly `count` of a dimension without elements. */
  chunk(count: number, dim?: number): Own[];
  /** The slices along `dim` (default 0). */
  unbind(dim?: number): Own[];
}

/** Access to elements, conversions, lifetime. */
interface DataMethods<D extends DType, Own, Tensor> {
  /** The same storage outside the graph. */
  detach(): Own;
  clone(): Own;
  /** This tensor if it is contiguous, else a copy that is. The result is a new handle either way. */
  contiguous(): Own;
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
interface AutogradMethods<Tensor> {
  /** Adds d this / d leaf into `.grad` of every leaf; `gradient` is needed unless this is a scalar. */
  backward(gradient?: Tensor, options?: { retainGraph?: boolean; createGraph?: boolean }): void;
  /**
   * Called with each gradient computed for this tensor; may return another. Returns how to remove it. The gradient is the hook's: one that
   * is large and done with is best disposed of.
   */
  registerHook(hook: (grad: Tensor) => Tensor | void): () => void;
  /** Makes backward passes add the gradient of this inner tensor, as its hooks leave it, to its `.grad`. */
  retainGrad(): void;
}

type Dims = number | readonly number[];

/** Arithmetic and comparison: operands broadcast and promote as in PyTorch. */
interface ArithmeticMethods<Tensor, Operand = Tensor | number> {
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
interface UnaryMethods<Tensor> {
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
interface ReductionMethods<Tensor> {
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
interface SoftmaxMethods<Tensor> {
  softmax(dim: number): Tensor;
  logSoftmax(dim: number): Tensor;
  logSumExp(dim: Dims, keepDim?: boolean): Tensor;
}

/** Activation functions and other compositions. */
interface CompositeMethods<Tensor> {
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

/** Triangles, order and search. */
interface StructureMethods<Tensor> {
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
  sort(dim?: number, descending?: boolean): Picked<Tensor>;
  topK(k: number, dim?: number, largest?: boolean): Picked<Tensor>;
  /** The largest along `dim`, and where. The largest of all is `amax()`, the larger of two tensors `maximum()`. */
  max(dim: number, keepDim?: boolean): Picked<Tensor>;
  /** The smallest along `dim`, and where. The smallest of all is `amin()`, the smaller of two tensors `minimum()`. */
  min(dim: number, keepDim?: boolean): Picked<Tensor>;
  nonzero(): Tensor;
  /** The elements where `mask` (bool) holds, as a vector; both broadcast. */
  maskedSelect(mask: Tensor): Tensor;
  unique(): { values: Tensor; inverse: Tensor; counts: Tensor };
  inverse(): Tensor;
  det(): Tensor;
  cholesky(): Tensor;
}

/** Choosing and adding by integer indices. */
interface IndexMethods<Tensor> {
  /** The slices at `index` (a vector) along `dim`. */
  indexSelect(dim: number, index: Tensor): Tensor;
  /** With slice i of `source` added at index[i] along `dim`. */
  indexAdd(dim: number, index: Tensor, source: Tensor): Tensor;
  gather(dim: number, index: Tensor): Tensor;
  scatterAdd(dim: number, index: Tensor, source: Tensor): Tensor;
  scatter(dim: number, index: Tensor, source: Tensor | number): Tensor;
}

/** Matrix products. */
interface MatrixMethods<Tensor> {
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
interface InPlaceMethods<Tensor, Operand = Tensor | number> {
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
interface SparseMethods<Own> {
  /** Sorted, unique indices; values of equal indices summed. */
  coalesce(): Own;
  /** [nnz, ...denseDims] of a coalesced tensor. */
  values(): Own;
  toDense(): Own;
  toSparse(): Own;
  readonly isCoalesced: boolean;
}

export interface TensorMethods<D extends DType, Own, Tensor>
  extends
    ViewMethods<Own>,
    DataMethods<D, Own, Tensor>,
    AutogradMethods<Tensor>,
    ArithmeticMethods<Tensor>,
    UnaryMethods<Tensor>,
    ReductionMethods<Tensor>,
    SoftmaxMethods<Tensor>,
    CompositeMethods<Tensor>,
    StructureMethods<Tensor>,
    IndexMethods<Tensor>,
    MatrixMethods<Tensor>,
    InPlaceMethods<Tensor>,
    ArrangingMethods<Tensor>,
    SparseMethods<Own> {}
