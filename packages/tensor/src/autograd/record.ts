/** @file Puts tensors into the graph: edges, history, and values saved for the backward pass. */
import { checkFunction } from '../given.ts';
import { ambient, runWith } from '../ambient.ts';
import { isDifferentiable, type DType } from '../dtype.ts';
import { AutogradError } from '../errors.ts';
import { untracked } from '../scope.ts';
import type { Shape } from '../shape.ts';
import type { Storage } from '../storage.ts';
import { currentMeta, newMeta, Tensor, type AutogradMeta, type Edge, type Node } from '../tensor.ts';
import { AccumulateGrad } from './node.ts';

/** Whether operations are recorded here. */
export function isGradEnabled(): boolean {
  return ambient().gradMode;
}

/**
 * Runs `fn` without recording; holds across `await`.
 * @param fn what is run; what it gives is the result
 * @example
 * ```ts
 * const w = tensor([1], { requiresGrad: true });
 * console.log(noGrad(() => w.mul(2)).requiresGrad, w.mul(2).requiresGrad); // false true
 * ```
 */
export function noGrad<T>(fn: () => T): T {
  checkFunction('noGrad', fn);
  return ambient().gradMode ? runWith({ gradMode: false }, fn) : fn();
}

/** Runs `fn` with recording on, inside `noGrad` too. */
export function enableGrad<T>(fn: () => T): T {
  checkFunction('enableGrad', fn);
  return ambient().gradMode ? fn() : runWith({ gradMode: true }, fn);
}

/** Where gradients for `t` go; null when it does not require any. */
export function gradEdge(t: Tensor): Edge | null {
  const meta = currentMeta(t);
  if (meta === undefined) return null;
  if (meta.node !== undefined) return { node: meta.node, inputIndex: meta.outputIndex };
  if (!meta.requiresGrad) return null;
  meta.accumulator ??= new AccumulateGrad(t, meta);
  return { node: meta.accumulator, inputIndex: 0 };
}

/** Whether any of these wants a gradient. */
export function requiresGrad(inputs: readonly Tensor[]): boolean {
  for (const t of inputs) if (t.requiresGrad) return true;
  return false;
}

/** Makes `tensors` the outputs of `node`, in order. They must be fresh: not leaves that a program holds. What they were views of counts no more. */
export function setHistory(tensors: readonly Tensor[], node: Node): void {
  tensors.forEach((t, i) => {
    const meta = (t.meta ??= newMeta(false));
    meta.view = undefined;
    meta.node = node;
    meta.outputIndex = i;
    node.outputs[i] = { shape: t.shape, dtype: t.dtype };
  });
}

/** A second handle of the same variable: same storage, same place in the graph. */
export function shareHandle<D extends DType>(t: Tensor<D>): Tensor<D> {
  // Also of one that has no place there yet: what happens to either happens to both.
  if (isDifferentiable(t.dtype)) t.meta ??= newMeta(false);
  const { storage, dtype, shape, strides, offset, meta, sparse: own } = t;
  if (own !== undefined) {
    const sparse = untracked(() => ({
      indices: shareHandle(own.indices),
      values: shareHandle(own.values),
      coalesced: own.coalesced,
    }));
    return new Tensor({ storage, dtype, shape, strides, offset, meta, sparse });
  }
  return new Tensor({ storage, dtype, shape, strides, offset, meta });
}

/** The place in the graph a variable has now: an in-place operation may move it later. */
function snapshot(t: Tensor): AutogradMeta | undefined {
  const { meta } = t;
  if (meta === undefined || !t.requiresGrad) return undefined;
  gradEdge(t);
  if (meta.node === undefined) return meta;
  // Those are keys of it already: an object that a spread begins and others are added to costs V8 half a microsecond a key on Node 20.
  return { ...newMeta(false), node: meta.node, outputIndex: meta.outputIndex };
}

/** What makes a saved value again instead of keeping it. */
export interface Remade {
  /** A handle that belongs to this. Throws where the value cannot be had. */
  value(): Tensor;
  release(): void;
}

/** Takes the place of the storages that saved values own. */
export interface Saver {
  save(tensor: Tensor, functionName: string): Remade;
}

let saver: Saver | undefined;

/** Runs `fn`, which is synchronous; what it saves for a backward pass is `own`'s, or kept as usual. */
export function savingWith<T>(own: Saver | undefined, fn: () => T): T {
  const outer = saver;
  saver = own;
  try {
    return fn();
  } finally {
    saver = outer;
  }
}

/** A value the backward pass needs. Owns its storage until released; notices in-place changes. */
export class SavedTensor {
  private readonly kept: Kept | Remade;
  private readonly meta: AutogradMeta | undefined;
  /** For a value that is the saving function's own output: its history is set on unpacking, so that the graph holds no cycle. */
  private readonly output: boolean;

  constructor(tensor: Tensor, functionName: string, isOutput: boolean) {
    this.meta = isOutput ? undefined : snapshot(tensor);
    this.output = isOutput;
    this.kept = saver?.save(tensor, functionName) ?? new Kept(tensor, functionName, isOutput);
  }

  /** The value as a new handle, with its history; `node` is the saving function. Throws when it was changed in place since. */
  unpack(node?: Node): Tensor {
    const handle = this.kept instanceof Kept ? this.kept.handle() : shareHandle(this.kept.value());
    handle.meta = this.meta;
    if (this.output) {
      handle.meta = newMeta(false);
      handle.meta.node = node;
    }
    return handle;
  }

  release(): void {
    this.kept.release();
  }
}

/** A value as it was when it was saved. */
export class Kept {
  private readonly storage: Storage;
  /** Geometry is read from here; the handle itself may be disposed. */
  private readonly like: Tensor;
  private readonly version: number;
  private readonly name: string;
  private readonly output: boolean;
  /** Its own handle of a sparse tensor, which has several storages. */
  private readonly sparse: Tensor | undefined;

  constructor(tensor: Tensor, functionName: string, isOutput: boolean) {
    this.storage = tensor.storage;
    this.like = tensor;
    this.version = tensor.storage.version;
    this.name = functionName;
    this.output = isOutput;
    this.sparse = tensor.sparse === undefined ? undefined : untracked(() => shareHandle(tensor));
    this.storage.retain();
  }

  /** What it looks like. */
  get outline(): { readonly dtype: DType; readonly shape: Shape } {
    return this.like;
  }

  /** A new handle without history; throws when the value was changed in place since. */
  handle(): Tensor {
    const { storage, like } = this;
    if (storage.version !== this.version) throw this.modified();
    if (this.sparse !== undefined) return shareHandle(this.sparse);
    const { dtype, shape, strides, offset } = like;
    return new Tensor({ storage, dtype, shape, strides, offset });
  }

  private modified(): AutogradError {
    const { name, like, version } = this;
    const which = this.output ? `output 0 of ${name}` : `an input of ${name}`;
    return new AutogradError(
      `one of the variables needed for gradient computation has been modified by an inplace operation: [${like.dtype} [${like.shape.join(', ')}]], which is ${which}, is at version ${this.storage.version}; expected version ${version} instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with detectAnomaly(fn).`,
    );
  }

  release(): void {
    this.storage.release();
    this.sparse?.release();
  }
}
