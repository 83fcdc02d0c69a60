/** @file Functions with a derivative of their own: written by the program, or taken from TensorFlow.js. */
import { runWith, ambient } from '../ambient.ts';
import { isDifferentiable } from '../dtype.ts';
import { AutogradError } from '../errors.ts';
import { unswept } from '../scope.ts';
import { kindOf } from '../given.ts';
import { Tensor, type Edge } from '../tensor.ts';
import { programStack } from './anomaly.ts';
import { FunctionNode, savedIsFreed } from './node.ts';
import { gradEdge, requiresGrad, SavedTensor, setHistory, shareHandle } from './record.ts';
import { noteView } from './views.ts';

/** What forward leaves for backward. */
export interface FunctionContext {
  /** Inputs or outputs that backward reads; checked against in-place changes. */
  saveForBackward(...tensors: Tensor[]): void;
  /** What was saved, in order; in backward only. */
  readonly saved: readonly Tensor[];
  /** Which inputs want a gradient. */
  readonly needsInputGrad: readonly boolean[];
}

/** An operation with a derivative of its own, for `customFunction`. */
export interface CustomFunction {
  /** Runs without recording. */
  forward(ctx: FunctionContext, ...inputs: Tensor[]): Tensor;
  /** One gradient an input, null for none; recorded when the pass is (createGraph). */
  backward(ctx: FunctionContext, grad: Tensor): (Tensor | null)[];
}

class CustomNode extends FunctionNode implements FunctionContext {
  readonly needsInputGrad: readonly boolean[];
  private readonly fn: CustomFunction;
  private readonly count: number;
  private list: SavedTensor[] | undefined = [];

  constructor(fn: CustomFunction, edges: readonly (Edge | null)[]) {
    super('CustomFunctionBackward', edges);
    this.fn = fn;
    this.count = edges.length;
    this.needsInputGrad = edges.map((e) => e !== null);
    if (ambient().anomaly) this.origin = programStack(`forward call of ${this.name}`);
  }

  saveForBackward(): void {
    throw new AutogradError('saveForBackward can only be called in forward');
  }

  save(tensors: readonly Tensor[], output: Tensor): void {
    this.list = tensors.map((t) => new SavedTensor(t, this.name, t === output));
  }

  get saved(): readonly Tensor[] {
    if (this.list === undefined) throw savedIsFreed();
    return this.list.map((value) => unswept(() => value.unpack(this)));
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    const grad = grads[0];
    if (grad === null || grad === undefined) return this.nextEdges.map(() => null);
    // The program's own code may hold what it makes and what it is given: the handle is its own.
    const out: unknown = unswept(() => this.fn.backward(this, shareHandle(grad)));
    if (!isGradients(out))
      throw new TypeError(
        `${this.name}: backward gives a list of tensors, null for none, and at once; got ${Array.isArray(out) ? `a list with ${kindOf(out.find((one) => !isGradient(one)))}` : kindOf(out)}`,
      );
    if (out.length !== this.count) {
      throw new AutogradError(
        `function ${this.name} returned an incorrect number of gradients (expected ${this.count}, got ${out.length})`,
      );
    }
    return out;
  }

  override release(): void {
    for (const value of this.list ?? []) value.release();
    this.list = undefined;
  }
}

/**
 * A differentiable function of tensors with a derivative of your own.
 * @param fn `forward`, which may save tensors, and `backward`, which gives a gradient or null for each input
 * @throws AutogradError in the backward pass when `backward` gives another number of gradients.
 * @example
 * ```ts
 * const clippedSquare = customFunction({
 *   forward: (ctx, x) => {
 *     ctx.saveForBackward(x!);
 *     return x!.square();
 *   },
 *   backward: (ctx, grad) => [ctx.saved[0]!.mul(2).mul(grad).clamp(-1, 1)],
 * });
 * const x = tensor([0.25, 3], { requiresGrad: true });
 * clippedSquare(x).sum().backward();
 * console.log(x.grad?.toArray()); // [ 0.5, 1 ]
 * ```
 */
export function customFunction(fn: CustomFunction): (...inputs: Tensor[]) => Tensor {
  const given = fn as Partial<CustomFunction> | null | undefined;
  if (typeof given?.forward !== 'function' || typeof given.backward !== 'function')
    throw new TypeError(`customFunction() takes { forward, backward }, both functions; got ${kindOf(fn)}`);
  return (...inputs) => {
    const recording = ambient().gradMode && requiresGrad(inputs);
    const edges = recording ? inputs.map((t) => gradEdge(t)) : [];
    const saved: Tensor[] = [];
    const ctx: FunctionContext = {
      saveForBackward: (...tensors) => void saved.push(...tensors),
      saved,
      needsInputGrad: inputs.map((t) => t.requiresGrad),
    };
    const result = runWith({ gradMode: false }, () => fn.forward(ctx, ...inputs));
    if (!(result instanceof Tensor))
      throw new TypeError(`customFunction: forward gives a tensor, and at once; got ${kindOf(result)}`);
    if (!recording || !isDifferentiable(result.dtype)) return result;
    // Returning an input as it is must not put that input itself into the graph.
    const output = inputs.includes(result) ? fresh(result) : result;
    const node = new CustomNode(fn, edges);
    setHistory([output], node);
    // A change in place would go past the function's own derivative.
    const shown = inputs.find((t) => t.storage === output.storage);
    if (shown !== undefined) noteView(output, shown, 'custom');
    node.save(saved, output);
    return output;
  };
}

function isGradient(value: unknown): value is Tensor | null | undefined {
  return value === null || value === undefined || value instanceof Tensor;
}

function isGradients(value: unknown): value is readonly (Tensor | null)[] {
  return Array.isArray(value) && value.every(isGradient);
}

function fresh(t: Tensor): Tensor {
  const handle = shareHandle(t);
  handle.meta = undefined;
  return handle;
}
