/** @file The Tensor handle: a strided (or sparse) view of a Storage, with its place in the autograd graph. */
import { ambient } from './ambient.ts';
import type { Device } from './device.ts';
import { isDifferentiable, type DType } from './dtype.ts';
import { AutogradError, DisposedError } from './errors.ts';
import { limits } from './limits.ts';
import type { Nested, TensorMethods } from './methods.ts';
import { handlesIn, keep, noteCreated, untracked } from './scope.ts';
import { isContiguous, sameShape, sizeOf, type Shape } from './shape.ts';
import type { Storage } from './storage.ts';
import { DISPOSE } from './disposal.ts';

export type { Nested };

/** What a sparse COO tensor consists of: indices int64 [sparseDims, nnz], values [nnz, ...denseDims]. */
export interface SparseParts {
  readonly indices: Tensor<'int64'>;
  readonly values: Tensor;
  readonly coalesced: boolean;
}

/** A step of the recorded graph, as programs see it. */
export interface GradFn {
  readonly name: string;
  readonly nextFunctions: readonly (GradFn | null)[];
}

/** May look at a gradient, or replace it by returning another. */
export type GradHook = (grad: Tensor) => Tensor | void;

/** Gradients of one step, none where null. */
export type Grads = readonly (Tensor | null)[];

/** Where a gradient goes: output `inputIndex` of the forward function `node`. */
export interface Edge {
  readonly node: Node;
  readonly inputIndex: number;
}

/** What is known of one forward output: gradients for it must fit. */
export interface OutputInfo {
  readonly shape: Shape;
  readonly dtype: DType;
}

/** A step of the recorded graph: gradients for the outputs of one forward function in, gradients for its inputs out. See `FunctionNode`. */
export interface Node extends GradFn {
  /** Order of creation in this process; later functions run earlier in a backward pass. */
  readonly sequence: number;
  readonly nextEdges: readonly (Edge | null)[];
  /** How many gradients `apply` takes: the number of forward outputs. */
  readonly inputs: number;
  readonly outputs: OutputInfo[];
  /** Where the operation was called, in anomaly mode. */
  readonly origin: string | undefined;
  /** Runs the hooks and the function. */
  apply(grads: Grads): Grads;
  /** As `apply`, of gradients that `hooked` gave. */
  applyHooked(grads: Grads): Grads;
  /** The gradients after the hooks of the variables they belong to. */
  hooked(grads: Grads): Grads;
  /** Calls the post hooks; for engines that do a leaf's work themselves. */
  runPostHooks(gradInputs: Grads): void;
  /** Shares `hooks` with the variable that is output `index`. */
  attachHooks(index: number, hooks: Set<GradHook>): void;
  /** Leaves the gradients of output `index` in the variable `meta`, while that variable is this output. */
  retainIn(index: number, meta: AutogradMeta): void;
  /** Called after this function ran, with the gradients it produced; returns how to remove it. */
  addPostHook(hook: (gradInputs: Grads) => void): () => void;
  /** Frees what the function saved; it cannot run again. */
  release(): void;
}

/** How a view was made: recorded like any operation, without recording, as one of several, or inside a custom function. */
export type ViewOrigin = 'recorded' | 'noGrad' | 'several' | 'custom';

/** How a view lies in its base; strides and offset are in elements of the storage they share. */
export interface ViewInfo {
  readonly base: AutogradMeta;
  /** complex64 where the view is of its real or imaginary parts. */
  readonly baseDType: DType;
  readonly baseShape: Shape;
  readonly baseStrides: Shape;
  readonly baseOffset: number;
  /** The base's `generation` when `node` was made: an in-place change of the base makes it stale. */
  generation: number;
  /** The storage's version then; changes that were not recorded count too. */
  version: number;
  /** All but 'recorded' may not be changed in place while recording, nor used after such a change. */
  readonly origin: ViewOrigin;
}

/** The gradient state of a variable, shared by all its handles. */
export interface AutogradMeta {
  requiresGrad: boolean;
  grad: Tensor | null;
  /** Whether the program has asked for `grad`, and may hold it. */
  gradSeen: boolean;
  node: Node | undefined;
  outputIndex: number;
  /** The end of the graph for a leaf. */
  accumulator: Node | undefined;
  hooks: Set<GradHook> | undefined;
  /** Whether the gradient of this inner variable is wanted, too: `retainGrad`. */
  retains: boolean;
  view: ViewInfo | undefined;
  /** Counts in-place changes that were recorded. */
  generation: number;
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
 * @example
 * ```ts
 * const x: Tensor = tensor([1, 2, 3, 4, 5, 6]).reshape([2, 3]);
 * console.log(x.transpose(0, 1).shape, x.add(1).mul(x).sum().item()); // [ 3, 2 ] 112
 * ```
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
  private gone: Error | 'released' | 'scope' | undefined;
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

  /** Where it was made, or moved to; its views are there too. A result that moves to the host while a device is short of memory stays its. */
  get device(): Device {
    return this.held.device;
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

  /** Whether operations on this tensor are recorded. May be set on leaves of floating dtype only. */
  get requiresGrad(): boolean {
    const { meta } = this;
    if (meta === undefined) return false;
    return meta.requiresGrad || meta.node !== undefined || (meta.view !== undefined && this.joined(meta.view));
  }
  set requiresGrad(value: boolean) {
    if (currentMeta(this)?.node !== undefined) {
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
    return currentMeta(this)?.node === undefined;
  }

  /** The function that made this tensor, for tensors that require gradients and are not leaves. */
  get gradFn(): GradFn | null {
    return currentMeta(this)?.node ?? null;
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
    this.gone = where ?? 'released';
  }

  /** As `dispose`, without remembering where: for the library's temporaries, and for scopes, whose end says nothing of that. @internal */
  release(how: 'released' | 'scope' = 'released'): void {
    if (this.gone !== undefined) return;
    this.gone = how;
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

  /** Takes the elements of `other`, of this shape, for its own, in their dtype and layout; views keep the old ones. @internal */
  become(other: Tensor): void {
    other.storage.retain();
    const old = this.held;
    this.held = other.storage;
    const { dtype, strides, offset } = other;
    Object.assign(this, { dtype, strides, offset });
    old.release();
  }

  [DISPOSE](): void {
    this.dispose();
  }
}

/** The operations as methods; those that are not here are in methods.ts. */
export interface Tensor<D extends DType = DType> extends TensorMethods<D, Tensor<D>, Tensor> {
  to<E extends DType>(dtype: E): Tensor<E>;
  to(device: Device): Tensor<D>;
  /** The elements in columns, of many those at the edges, and what is not the default; so `console.log` shows it, too. */
  toString(): string;
  /** As to('float32'), and so on. */
  float(): Tensor<'float32'>;
  double(): Tensor<'float64'>;
  half(): Tensor<'float16'>;
  bfloat16(): Tensor<'bfloat16'>;
  long(): Tensor<'int64'>;
  int(): Tensor<'int32'>;
  bool(): Tensor<'bool'>;
  /** In the dtype and on the device of `other`. */
  typeAs<E extends DType>(other: Tensor<E>): Tensor<E>;
  /** In the shape of `other`. */
  expandAs(other: Tensor): Tensor<D>;
  viewAs(other: Tensor): Tensor<D>;
  reshapeAs(other: Tensor): Tensor<D>;
  /** int64 [sparseDims, nnz] of a coalesced sparse tensor. */
  indices(): Tensor<'int64'>;
}

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

/** Tensors reachable through arrays, maps, sets and the own fields of objects. */
export function tensorsIn(value: unknown): Set<Tensor> {
  return handlesIn(value, false) as Set<Tensor>;
}

let refreshView: (t: Tensor, meta: AutogradMeta) => void;

/** Gives views the way to follow their base, which is made of operations: set once while the package loads. */
export function setViewRefresh(fn: (t: Tensor, meta: AutogradMeta) => void): void {
  refreshView = fn;
}

/** The gradient state, after what happened to the base of a view. */
export function currentMeta(t: Tensor): AutogradMeta | undefined {
  const { meta } = t;
  if (meta?.view !== undefined) refreshView(t, meta);
  return meta;
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
    retains: false,
    view: undefined,
    generation: 0,
  };
}

let traces = 0;

/** The calling program's place, while the budget for such traces lasts: one costs as much as several small operations. */
function traceHere(): Error | undefined {
  if (traces >= limits.disposalTraces && !ambient().anomaly) return undefined;
  traces++;
  const { stackTraceLimit: limit, captureStackTrace: capture } = Error as Partial<ErrorConstructor>;
  // The program's own lines alone, where the engine can tell them; one trace instead of two then.
  Error.stackTraceLimit = capture === undefined ? 4 : 0;
  const where = new Error('disposed here');
  Error.stackTraceLimit = 4;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- where the trace is cut off, not called
  capture?.(where, Tensor.prototype.dispose);
  Error.stackTraceLimit = limit as number;
  return where;
}

function disposedError(where: Error | 'released' | 'scope'): DisposedError {
  if (where === 'scope')
    return new DisposedError(
      'this tensor was disposed (at the end of the scope in which it was made: return it from there, or keep() it)',
    );
  const place =
    where === 'released'
      ? ''
      : ` (${(where.stack ?? '')
          .split('\n')
          .slice(1, 5)
          .map((l) => l.trim())
          .join(' < ')})`;
  return new DisposedError(`this tensor was disposed${place}`, where === 'released' ? {} : { cause: where });
}
