/** @file The Tensor handle: a strided (or sparse) view of a Storage, with its place in the autograd graph. */
import { ambient } from './ambient.ts';
import type { AutogradMeta, GradFn, ViewInfo } from './autograd/meta.ts';
import { isDifferentiable, type DType } from './dtype.ts';
import { AutogradError, DisposedError } from './errors.ts';
import { limits } from './limits.ts';
import type { TensorMethods } from './methods.ts';
import { keep, noteCreated, untracked } from './scope.ts';
import { isContiguous, sameShape, sizeOf, type Shape } from './shape.ts';
import type { Storage } from './storage.ts';

/** Where a tensor lives. The wasm backend counts as the cpu: its memory is the process's own. */
export type Device = 'cpu' | `gpu:${number}`;

/** Values at any depth of nesting: a scalar, a vector, a matrix and so on. */
export type Nested<T> = T | readonly Nested<T>[];

/** What a sparse COO tensor consists of: indices int64 [sparseDims, nnz], values [nnz, ...denseDims]. */
export interface SparseParts {
  readonly indices: Tensor<'int64'>;
  readonly values: Tensor;
  readonly coalesced: boolean;
}

export interface TensorInit<D extends DType> {
  readonly storage: Storage;
  readonly dtype: D;
  readonly shape: Shape;
  readonly strides: Shape;
  readonly offset: number;
  readonly meta?: AutogradMeta | undefined;
  readonly sparse?: SparseParts | undefined;
}

const TENSOR = Symbol.for('backwire.isTensor');

/**
 * A handle on bytes: shape, strides and offset (in elements) over a Storage, which views share. Handles are cheap; each counts as an
 * owner of its storage until `dispose` or until it is unreachable. Operations are methods here and functions of the package.
 */
// The operations are put on the prototype by install.ts; interface merging gives them their types.
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export class Tensor<D extends DType = DType> {
  readonly shape: Shape;
  readonly strides: Shape;
  readonly offset: number;
  readonly dtype: D;
  /** The parts of a sparse tensor. @internal */
  sparse: SparseParts | undefined;
  /** Gradient state, shared by all handles of one variable. @internal */
  meta: AutogradMeta | undefined;
  /** Made by library code that frees it again: no program has seen it. @internal */
  temporary: boolean;
  private held: Storage;
  private gone: Error | true | undefined;
  private count: number;

  /** Not for programs: use `tensor`, `zeros`, `fromBytes` and so on. */
  constructor(init: TensorInit<D>) {
    this.shape = init.shape;
    this.strides = init.strides;
    this.offset = init.offset;
    this.dtype = init.dtype;
    this.sparse = init.sparse;
    this.meta = init.meta;
    this.held = init.storage;
    this.gone = undefined;
    this.count = -1;
    this.temporary = false;
    init.storage.retain();
    noteCreated(this);
  }

  get [TENSOR](): true {
    return true;
  }

  /** The bytes; for a sparse tensor, those of its values. Throws DisposedError after `dispose`. */
  get storage(): Storage {
    if (this.gone !== undefined) throw disposedError(this.gone);
    return this.held;
  }

  get layout(): 'strided' | 'sparse_coo' {
    return this.sparse === undefined ? 'strided' : 'sparse_coo';
  }

  get device(): Device {
    return 'cpu';
  }

  /** The number of elements. */
  get size(): number {
    return this.count === -1 ? (this.count = sizeOf(this.shape)) : this.count;
  }

  /** The number of dimensions. */
  get rank(): number {
    return this.shape.length;
  }

  /** Whether the elements lie in row-major order without gaps. */
  get isContiguous(): boolean {
    return isContiguous(this.shape, this.strides);
  }

  /** The gradient state, after what happened to the base of a view. */
  private get current(): AutogradMeta | undefined {
    const { meta } = this;
    if (meta?.view !== undefined) refreshView(this, meta);
    return meta;
  }

  /** Whether operations on this tensor are recorded. May be set on leaves of floating dtype only. */
  get requiresGrad(): boolean {
    const { meta } = this;
    if (meta === undefined) return false;
    return meta.requiresGrad || meta.node !== undefined || (meta.view !== undefined && this.joined(meta.view));
  }
  set requiresGrad(value: boolean) {
    if (this.current?.node !== undefined) {
      if (value) return;
      throw new AutogradError(
        "you can only change requiresGrad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use `detach()`.",
      );
    }
    if (value && !isDifferentiable(this.dtype)) {
      throw new AutogradError(
        `only Tensors of floating point and complex dtype can require gradients, not of ${this.dtype}`,
      );
    }
    if (this.meta !== undefined) this.meta.requiresGrad = value;
    else if (value) this.meta = newMeta(true);
  }

  /** Whether a view that was no part of the graph is one by now, through its base. */
  private joined(view: ViewInfo): boolean {
    const { base, generation, version, origin } = view;
    if (origin === 'recorded') return base.node !== undefined && generation !== base.generation;
    return (base.node !== undefined || base.requiresGrad) && !this.disposed && version !== this.storage.version;
  }

  /** Whether this was made by the program, not by a recorded operation. */
  get isLeaf(): boolean {
    return this.current?.node === undefined;
  }

  /** The function that made this tensor, for tensors that require gradients and are not leaves. */
  get gradFn(): GradFn | null {
    return this.current?.node ?? null;
  }

  /** The gradient accumulated in a leaf by `backward`; null before the first. One that is assigned must have this shape and dtype. */
  get grad(): Tensor | null {
    const { meta } = this;
    if (meta === undefined || meta.grad === null) return null;
    meta.gradSeen = true;
    return meta.grad;
  }
  set grad(value: Tensor | null) {
    if (value !== null) {
      checkGrad(this, value);
      keep(value);
    }
    if (this.meta === undefined) {
      if (value === null) return;
      this.meta = newMeta(false);
    }
    this.meta.grad = value;
    this.meta.gradSeen = true;
  }

  /** Whether `dispose` was called on this handle. */
  get disposed(): boolean {
    return this.gone !== undefined;
  }

  /** Frees this handle now; the storage when no other handle, graph or message holds it. Disposing twice is allowed. */
  dispose(): void {
    if (this.gone !== undefined) return;
    const where = traceHere();
    this.release();
    this.gone = where ?? true;
  }

  /** As `dispose`, without remembering where: for the library's temporaries. @internal */
  release(): void {
    if (this.gone !== undefined) return;
    this.gone = true;
    this.held.release();
    if (this.sparse !== undefined) {
      this.sparse.indices.release();
      this.sparse.values.release();
    }
  }

  /** Takes over the parts of another sparse tensor, as its own handles. @internal */
  adoptSparse(other: Tensor): void {
    const { sparse: before } = this;
    const { sparse } = other;
    if (before === undefined || sparse === undefined) throw new TypeError('adoptSparse is for sparse tensors');
    const old = this.storage;
    other.storage.retain();
    this.held = other.storage;
    old.release();
    this.sparse = { ...sparse, indices: second(sparse.indices), values: second(sparse.values) };
    before.indices.release();
    before.values.release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The operations as methods; see methods.ts. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- its members come from methods.ts
export interface Tensor<D extends DType = DType> extends TensorMethods<D> {}

/** A leaf that a module learns: it requires gradients, and belongs to its module, so no scope frees it. */
export class Parameter<D extends DType = DType> extends Tensor<D> {
  /** Takes over the storage of `data`; `requiresGrad` defaults to true. */
  constructor(data: Tensor<D> | TensorInit<D>, requiresGrad = true) {
    super({
      storage: data.storage,
      dtype: data.dtype,
      shape: data.shape,
      strides: data.strides,
      offset: data.offset,
      meta: newMeta(requiresGrad),
    });
    keep(this);
  }
}

function checkGrad(t: Tensor, grad: Tensor): void {
  if (!sameShape(grad.shape, t.shape)) {
    throw new AutogradError(
      `assigned grad has data of a different size: [${grad.shape.join(', ')}] instead of [${t.shape.join(', ')}]`,
    );
  }
  if (grad.dtype !== t.dtype) {
    throw new AutogradError(`assigned grad has data of a different type: ${grad.dtype} instead of ${t.dtype}`);
  }
}

/** Another handle of the same storage. */
function second<D extends DType>(t: Tensor<D>): Tensor<D> {
  const { storage, dtype, shape, strides, offset, meta } = t;
  return untracked(() => new Tensor({ storage, dtype, shape, strides, offset, meta }));
}

let refreshView: (t: Tensor, meta: AutogradMeta) => void;

/** Gives views the way to follow their base, which is made of operations: set once while the package loads. */
export function setViewRefresh(fn: (t: Tensor, meta: AutogradMeta) => void): void {
  refreshView = fn;
}

/** Fresh gradient state for a leaf. */
export function newMeta(requiresGrad: boolean): AutogradMeta {
  return {
    requiresGrad,
    grad: null,
    gradSeen: false,
    node: undefined,
    outputIndex: 0,
    accumulator: undefined,
    hooks: undefined,
    view: undefined,
    generation: 0,
  };
}

let traces = 0;

/** The calling program's place, while the budget for such traces lasts: one costs as much as several small operations. */
function traceHere(): Error | undefined {
  if (traces >= limits.disposalTraces && !ambient().anomaly) return undefined;
  traces++;
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 4;
  const where = new Error('disposed here');
  Error.stackTraceLimit = limit;
  return where;
}

function disposedError(where: Error | true): DisposedError {
  const place =
    where === true
      ? ''
      : ` (${(where.stack ?? '')
          .split('\n')
          .slice(1, 5)
          .map((l) => l.trim())
          .join(' < ')})`;
  return new DisposedError(`this tensor was disposed${place}`, where === true ? {} : { cause: where });
}
