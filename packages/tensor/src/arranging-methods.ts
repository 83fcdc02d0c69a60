/** @file Methods of Tensor for indexing, arranging, order statistics, bits, and their in-place forms: types and documentation. */

/** Part of a dimension, as `start:end:step`; what is left out is the whole. */
export interface Slice {
  readonly start?: number;
  readonly end?: number;
  readonly step?: number;
}

type List = readonly (number | bigint | boolean | List)[];

/**
 * What names part of a tensor, a dimension each: a number (its dimension goes), a slice as text (':', '1:3', '::2', '-2:') or as an
 * object, '...' for all dimensions that are not named, null for a new one of size 1, positions (a tensor of integers, or a list), and
 * a mask (a tensor of bool, or a list) for as many dimensions as it has.
 */
export type IndexItem<Tensor> = number | string | null | Slice | Tensor | List;

/** How `indexPut` writes. */
export interface IndexPutOptions {
  /** Adds instead of writing, equal positions as often as they are named. @default false */
  accumulate?: boolean;
}

/** Between two elements: in proportion, the one or the other, the nearer, or the middle. */
export type Interpolation = 'linear' | 'lower' | 'higher' | 'nearest' | 'midpoint';

/** What becomes of several values for one place. */
export type ScatterReduction = 'sum' | 'prod' | 'mean' | 'amax' | 'amin';

/** What `topK`, `sort`, `max(dim)` and their like find along a dimension. */
export interface Picked<Tensor> {
  values: Tensor;
  /** int64 positions along the dimension. */
  indices: Tensor;
}

/** Naming part of a tensor. */
interface SubscriptMethods<Tensor> {
  /**
   * The part that `items` name, one for each dimension: `x.index([0, ':', '-2:'])` gives a view, `x.index([mask])` and
   * `x.index([':', ids])` a copy.
   */
  index(items: readonly IndexItem<Tensor>[]): Tensor;
  /** A copy with `value` written to what `items` name. */
  indexPut(items: readonly IndexItem<Tensor>[], value: Tensor | number, options?: IndexPutOptions): Tensor;
  /** Writes `value` to what `items` name: `x.indexPut_([mask], 0)`. */
  indexPut_(items: readonly IndexItem<Tensor>[], value: Tensor | number, options?: IndexPutOptions): this;
  /** With the slices of `source` written at `index` (a vector) along `dim`. */
  indexCopy(dim: number, index: Tensor, source: Tensor): Tensor;
  indexFill(dim: number, index: Tensor, value: number): Tensor;
  take(index: Tensor): Tensor;
  takeAlongDim(index: Tensor, dim?: number): Tensor;
  scatterReduce(
    dim: number,
    index: Tensor,
    source: Tensor,
    reduce: ScatterReduction,
    options?: { includeSelf?: boolean },
  ): Tensor;
}

interface ArrangeMethods<Tensor> {
  repeat(counts: readonly number[]): Tensor;
  repeatInterleave(repeats: number | readonly number[] | Tensor, dim?: number): Tensor;
  movedim(from: number | readonly number[], to: number | readonly number[]): Tensor;
  /** Dimension `dim` as several. */
  unflatten(dim: number, sizes: readonly number[]): Tensor;
  broadcastTo(shape: readonly number[]): Tensor;
  diff(n?: number, dim?: number): Tensor;
}

interface OrderMethods<Tensor> {
  /** The lower of the middle elements; with `dim` of each line, and where. */
  median(): Tensor;
  median(dim: number, keepDim?: boolean): Picked<Tensor>;
  kthValue(k: number, dim?: number, keepDim?: boolean): Picked<Tensor>;
  quantile(q: number | Tensor, dim?: number, options?: { keepDim?: boolean; interpolation?: Interpolation }): Tensor;
  countNonzero(dim?: number | readonly number[]): Tensor;
}

interface BitMethods<Tensor> {
  bitwiseAnd(other: Tensor | number): Tensor;
  bitwiseOr(other: Tensor | number): Tensor;
  bitwiseXor(other: Tensor | number): Tensor;
  bitwiseNot(): Tensor;
  bitwiseLeftShift(other: Tensor | number): Tensor;
  bitwiseRightShift(other: Tensor | number): Tensor;
}

interface AddedMethods<Tensor> {
  /** this + value a b. */
  addcmul(a: Tensor, b: Tensor, options?: { value?: number }): Tensor;
  /** this + value a / b. */
  addcdiv(a: Tensor, b: Tensor, options?: { value?: number }): Tensor;
  baddbmm(a: Tensor, b: Tensor, options?: { alpha?: number; beta?: number }): Tensor;
  bernoulli(): Tensor;
  multinomial(count: number, options?: { replacement?: boolean }): Tensor;
}

/** In-place forms of what chooses, writes and draws; the rules are those of `add_` and its relatives. */
interface WritingMethods<Tensor> {
  clamp_(min?: number, max?: number): this;
  maskedFill_(mask: Tensor, value: number): this;
  indexAdd_(dim: number, index: Tensor, source: Tensor): this;
  indexCopy_(dim: number, index: Tensor, source: Tensor): this;
  indexFill_(dim: number, index: Tensor, value: number): this;
  scatter_(dim: number, index: Tensor, source: Tensor | number): this;
  scatterAdd_(dim: number, index: Tensor, source: Tensor): this;
  scatterReduce_(
    dim: number,
    index: Tensor,
    source: Tensor,
    reduce: ScatterReduction,
    options?: { includeSelf?: boolean },
  ): this;
  lerp_(end: Tensor, weight: Tensor | number): this;
  addcmul_(a: Tensor, b: Tensor, options?: { value?: number }): this;
  addcdiv_(a: Tensor, b: Tensor, options?: { value?: number }): this;
  abs_(): this;
  sign_(): this;
  square_(): this;
  rsqrt_(): this;
  reciprocal_(): this;
  log_(): this;
  log1p_(): this;
  expm1_(): this;
  sin_(): this;
  cos_(): this;
  floor_(): this;
  ceil_(): this;
  round_(): this;
  trunc_(): this;
  /** Normal with the given mean and standard deviation. */
  normal_(mean?: number, std?: number): this;
  /** Uniform in [low, high). */
  uniform_(low?: number, high?: number): this;
  /** 1 with probability p, else 0. */
  bernoulli_(p?: number | Tensor): this;
}

export interface ArrangingMethods<Tensor>
  extends
    SubscriptMethods<Tensor>,
    ArrangeMethods<Tensor>,
    OrderMethods<Tensor>,
    BitMethods<Tensor>,
    AddedMethods<Tensor>,
    WritingMethods<Tensor> {}
