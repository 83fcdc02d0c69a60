/** @file The graph node of a built-in operation: its derivative rule and what that saved. */
import { AutogradError } from '../errors.ts';
import { ambient } from '../ambient.ts';
import { toFloat32 } from '../precision.ts';
import type { Shape } from '../shape.ts';
import type { Edge, Tensor } from '../tensor.ts';
import type { DType } from '../dtype.ts';
import { programStack } from './anomaly.ts';
import { someElsewhere, type Device } from '../device.ts';
import { inDerivative } from '../devices.ts';
import { FunctionNode, savedIsFreed } from './node.ts';
import { gradEdge, SavedTensor } from './record.ts';

/** What a derivative formula may read. */
export interface Saved {
  /** The saved inputs by position; reading one that the rule does not save throws. */
  input(index: number): Tensor;
  /** The operation's result; only for rules that save it. */
  output(): Tensor;
  readonly shapes: readonly Shape[];
  readonly dtypes: readonly DType[];
  /** Which inputs want a gradient. */
  readonly needs: readonly boolean[];
}

/** The derivative of one operation, written on Tensors, so that it can be differentiated itself. */
export interface Derivative {
  /** Inputs by position, or 'output', that the formula reads. A function where that depends on which inputs want gradients. */
  readonly save: readonly (number | 'output')[] | ((needs: readonly boolean[]) => readonly (number | 'output')[]);
  /** One gradient an input, null for those without. May return `grad` itself. */
  // Attributes are typed where each rule is written; the table holds rules of all kinds.
  backward(grad: Tensor, saved: Saved, attrs: never): readonly (Tensor | null)[];
}

export class OpNode extends FunctionNode implements Saved {
  readonly shapes: readonly Shape[];
  readonly dtypes: readonly DType[];
  readonly needs: readonly boolean[];
  private readonly rule: Derivative;
  private readonly attrs: unknown;
  private readonly keys: readonly (number | 'output')[];
  /** Where the inputs are, once any storage was on a device. */
  private readonly places: readonly Device[] | undefined;
  /** One value a key; undefined once freed. */
  private saved: SavedTensor[] | undefined;

  /** Without `output`, for operations in place: `saveOutput` follows once the result is there. */
  constructor(rule: Derivative, name: string, inputs: readonly Tensor[], output: Tensor | undefined, attrs: unknown) {
    const count = inputs.length;
    const edges = new Array<Edge | null>(count);
    const shapes = new Array<Shape>(count);
    const dtypes = new Array<DType>(count);
    const needs = new Array<boolean>(count);
    for (let i = 0; i < count; i++) {
      const t = inputs[i] as Tensor;
      const edge = gradEdge(t);
      edges[i] = edge;
      needs[i] = edge !== null;
      shapes[i] = t.shape;
      dtypes[i] = t.dtype;
    }
    super(name, edges);
    this.rule = rule;
    this.attrs = attrs;
    this.shapes = shapes;
    this.dtypes = dtypes;
    this.needs = needs;
    this.places = someElsewhere() ? inputs.map((t) => t.device) : undefined;
    const { save } = rule;
    this.keys = typeof save === 'function' ? save(needs) : save;
    this.saved = [];
    // The output comes last in every rule: it may not be there yet.
    for (const key of this.keys)
      if (key !== 'output') this.saved.push(new SavedTensor(inputs[key] as Tensor, name, false));
    if (output !== undefined) this.saveOutput(output);
    if (ambient().anomaly) this.origin = programStack(`forward call of ${name}`);
  }

  /** Saves the result if the rule reads it. */
  saveOutput(output: Tensor): void {
    if (this.keys.includes('output')) this.saved?.push(new SavedTensor(output, this.name, true));
  }

  input(index: number): Tensor {
    return this.value(index);
  }

  output(): Tensor {
    return this.value('output');
  }

  private value(key: number | 'output'): Tensor {
    const saved = this.saved?.[this.keys.indexOf(key)];
    if (saved === undefined) throw new AutogradError(`${this.name} did not save ${key}`);
    return toFloat32(saved.unpack(this));
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    if (this.saved === undefined) throw savedIsFreed();
    const grad = grads[0];
    if (grad === null || grad === undefined) return this.nextEdges.map(() => null);
    // A rule that saves nothing moves and adds elements; one that computes rounds to half precision once, at the end.
    const { places } = this;
    const run = (): readonly (Tensor | null)[] =>
      this.rule.backward(this.keys.length === 0 ? grad : toFloat32(grad), this, this.attrs as never);
    if (places === undefined) return run();
    // What a rule makes itself lies on the cpu; the gradient of an input is where the input is.
    return inDerivative(() => run().map((own, i) => (own === null ? null : at(own, places[i] ?? 'cpu'))));
  }

  /** Functions that saved nothing can run again, as in PyTorch. */
  override release(): void {
    const { saved } = this;
    if (saved === undefined || saved.length === 0) return;
    this.saved = undefined;
    for (const value of saved) value.release();
  }
}

function at(grad: Tensor, device: Device): Tensor {
  return grad.device === device ? grad : grad.to(device);
}
