/** @file The recorded graph: functions, the edges between them, and the leaves they end in. */
import { AutogradError } from '../errors.ts';
import { kindOf } from '../given.ts';
import { sameShape } from '../shape.ts';
import { isTensor, unswept } from '../scope.ts';
import type { AutogradMeta, Edge, GradFn, GradHook, Grads, Node, OutputInfo, Tensor } from '../tensor.ts';

let sequences = 0;

/** Gradients for the outputs of one forward function in, gradients for its inputs out. */
export abstract class FunctionNode implements Node {
  readonly name: string;
  /** Order of creation in this process; later functions run earlier in a backward pass. */
  readonly sequence: number;
  nextEdges: readonly (Edge | null)[];
  /** How many gradients `apply` takes: the number of forward outputs. */
  readonly inputs: number;
  outputs: OutputInfo[] = [];
  /** Hooks of the variables this function made, by output. */
  protected preHooks: (Set<GradHook> | undefined)[] | undefined;
  /** Variables that want the gradients they have after all hooks, by output. */
  private retaining: (AutogradMeta | undefined)[] | undefined;
  private postHooks: Set<(gradInputs: Grads) => void> | undefined;
  /** Where the operation was called, in anomaly mode. */
  origin: string | undefined;

  constructor(name: string, nextEdges: readonly (Edge | null)[] = [], inputs = 1, sequence = sequences++) {
    this.name = name;
    this.nextEdges = nextEdges;
    this.inputs = inputs;
    this.sequence = sequence;
  }

  get nextFunctions(): readonly (GradFn | null)[] {
    return this.nextEdges.map((edge) => edge?.node ?? null);
  }

  /** One gradient (or null) a next edge. The caller owns what comes back, which may include what went in. */
  protected abstract backward(grads: Grads): Grads;

  /** Runs the hooks and the function. */
  apply(grads: Grads): Grads {
    return this.applyHooked(this.hooked(grads));
  }

  /** As `apply`, of gradients that `hooked` gave. */
  applyHooked(grads: Grads): Grads {
    const out = this.backward(grads);
    this.runPostHooks(out);
    return out;
  }

  /** Calls the post hooks; for engines that do a leaf's work themselves. */
  runPostHooks(gradInputs: Grads): void {
    if (this.postHooks === undefined) return;
    for (const hook of this.postHooks) unswept(() => hook(gradInputs.map((g) => (g === null ? null : show(g)))));
  }

  /** The gradients after the hooks of the variables they belong to. */
  hooked(grads: Grads): Grads {
    const { preHooks, retaining } = this;
    if (preHooks === undefined && retaining === undefined) return grads;
    return grads.map((grad, i) => {
      if (grad === null || grad === undefined) return grad;
      const hooks = preHooks?.[i];
      const last = hooks === undefined ? grad : runHooks(grad, hooks);
      this.retain(i, last);
      return last;
    });
  }

  private retain(index: number, grad: Tensor): void {
    const meta = this.retaining?.[index];
    // A change in place has made the variable another function's output.
    if (meta === undefined || meta.node !== this) return;
    const handle = show(grad);
    accumulate(meta, handle);
    handle.release();
  }

  /** Shares `hooks` with the variable that is output `index`. */
  attachHooks(index: number, hooks: Set<GradHook>): void {
    (this.preHooks ??= [])[index] = hooks;
  }

  /** Leaves the gradients of output `index` in the variable `meta`, while that variable is this output. */
  retainIn(index: number, meta: AutogradMeta): void {
    (this.retaining ??= [])[index] = meta;
  }

  /** Called after this function ran, with the gradients it produced; returns how to remove it. */
  addPostHook(hook: (gradInputs: Grads) => void): () => void {
    const hooks = (this.postHooks ??= new Set());
    hooks.add(hook);
    return () => hooks.delete(hook);
  }

  /** Frees what the function saved; it cannot run again. */
  release(): void {}
}

/** What a function says whose backward pass comes again after `release`. */
export function savedIsFreed(): AutogradError {
  return new AutogradError(
    'Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call backward() or grad(). Specify retainGraph: true if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.',
  );
}

let show: (grad: Tensor) => Tensor;

/** Gives hooks handles of their own, which engines do not free: set once while the package loads. */
export function setShow(fn: (grad: Tensor) => Tensor): void {
  show = fn;
}

/** Runs tensor hooks as the program's own code and checks what they return. */
function runHooks(grad: Tensor, hooks: ReadonlySet<GradHook>): Tensor {
  let current = grad;
  for (const hook of [...hooks]) {
    const replaced = unswept(() => hook(show(current)));
    if (replaced === undefined) continue;
    if (!isTensor(replaced))
      throw new TypeError(`a hook on a gradient returns a tensor, or nothing, at once; got ${kindOf(replaced)}`);
    if (!sameShape(replaced.shape, current.shape)) {
      throw new AutogradError(
        `hook returned a gradient of shape [${replaced.shape.join(', ')}] for one of [${current.shape.join(', ')}]`,
      );
    }
    current = replaced;
  }
  return current;
}

/** Adds a gradient into `meta.grad`; does not take it over. */
export type Accumulate = (meta: AutogradMeta, grad: Tensor) => void;

let accumulate: Accumulate;

/** Gives leaves their addition, which is made of operations: set once while the package loads, to keep this file below them. */
export function setAccumulate(fn: Accumulate): void {
  accumulate = fn;
}

/** The end of the graph: adds gradients into a leaf. */
export class AccumulateGrad extends FunctionNode {
  /** The leaf, as the handle it was first used through. */
  readonly variable: Tensor;
  /** Its state: the leaf's identity, whatever handle is at hand. */
  readonly meta: AutogradMeta;

  constructor(variable: Tensor, meta: AutogradMeta) {
    super('AccumulateGrad', [], 1, Number.MAX_SAFE_INTEGER);
    this.variable = variable;
    this.meta = meta;
    this.outputs = [{ shape: variable.shape, dtype: variable.dtype }];
  }

  protected override backward(grads: Grads): Grads {
    const grad = grads[0];
    // A leaf may have been frozen since it was used.
    if (grad !== null && grad !== undefined && this.meta.requiresGrad) accumulate(this.meta, grad);
    return [];
  }

  override hooked(grads: Grads): Grads {
    const grad = grads[0];
    return grad === null || grad === undefined ? grads : [this.runHooks(grad)];
  }

  /** The gradient after the leaf's hooks; `.grad` is not touched. For engines that collect gradients elsewhere. */
  runHooks(grad: Tensor): Tensor {
    const { hooks } = this.meta;
    return hooks === undefined || hooks.size === 0 ? grad : runHooks(grad, hooks);
  }
}
