/** @file The graph node of a built-in operation: its derivative rule and what that saved. */
import { AutogradError } from '../errors.ts';
import { ambient } from '../ambient.ts';
import type { Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import type { DType } from '../dtype.ts';
import { Node } from './node.ts';
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

export class OpNode extends Node implements Saved {
  readonly shapes: readonly Shape[];
  readonly dtypes: readonly DType[];
  readonly needs: readonly boolean[];
  private readonly rule: Derivative;
  private readonly attrs: unknown;
  private saved: Map<number | 'output', SavedTensor> | undefined;
  private freed = false;

  constructor(rule: Derivative, name: string, inputs: readonly Tensor[], output: Tensor, attrs: unknown) {
    super(
      `${name[0]?.toUpperCase() ?? ''}${name.slice(1)}Backward0`,
      inputs.map((t) => gradEdge(t)),
    );
    this.rule = rule;
    this.attrs = attrs;
    this.shapes = inputs.map((t) => t.shape);
    this.dtypes = inputs.map((t) => t.dtype);
    this.needs = this.nextEdges.map((edge) => edge !== null);
    const wanted = typeof rule.save === 'function' ? rule.save(this.needs) : rule.save;
    if (wanted.length > 0) {
      this.saved = new Map();
      for (const key of wanted) {
        const t = key === 'output' ? output : inputs[key];
        if (t !== undefined) this.saved.set(key, new SavedTensor(t, this.name, key === 'output'));
      }
    }
    if (ambient().anomaly) this.origin = new Error(`forward call of ${name}`).stack;
  }

  input(index: number): Tensor {
    return this.value(index);
  }

  output(): Tensor {
    return this.value('output');
  }

  private value(key: number | 'output'): Tensor {
    const saved = this.saved?.get(key);
    if (saved === undefined) throw new AutogradError(`${this.name} did not save ${key}`);
    return saved.unpack(this);
  }

  protected override backward(grads: readonly (Tensor | null)[]): readonly (Tensor | null)[] {
    if (this.freed) {
      throw new AutogradError(
        'Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call backward() or grad(). Specify retainGraph: true if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.',
      );
    }
    const grad = grads[0];
    if (grad === null || grad === undefined) return this.nextEdges.map(() => null);
    return this.rule.backward(grad, this, this.attrs as never);
  }

  override release(): void {
    if (this.saved === undefined) return;
    for (const value of this.saved.values()) value.release();
    this.saved = undefined;
    this.freed = true;
  }
}
