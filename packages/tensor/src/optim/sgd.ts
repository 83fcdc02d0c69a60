/** @file Stochastic gradient descent with momentum, Nesterov's variant and weight decay, as in PyTorch. */
import type { DeviceUpdate } from '../backends/backend.ts';
import type { NumberArray } from '../dtype.ts';
import type { Params } from './groups.ts';
import {
  checkRange,
  Optimizer,
  rpcName,
  type CommonOptions,
  type ParameterState,
  type SparseGradients,
  type Values,
} from './optimizer.ts';

/** What `SGD` is made with, and each of its groups. */
export interface SGDOptions extends CommonOptions {
  /** Learning rate, at least 0; 0.001 when undefined. */
  readonly lr: number;
  /** @default 0 */
  readonly momentum?: number;
  /** L2 penalty added to the gradient. @default 0 */
  readonly weightDecay?: number;
  /** How much of a gradient does not enter the velocity, after the first step. @default 0 */
  readonly dampening?: number;
  /** Looks ahead by one momentum step; needs momentum. @default false */
  readonly nesterov?: boolean;
}

const NONE: readonly string[] = [];
const VELOCITY: readonly string[] = ['momentum_buffer'];

/**
 * `v ← momentum·v + g; p ← p − lr·v` (Sutskever et al. 2013, in PyTorch's form: the rate is applied outside the velocity).
 * @example
 * ```ts
 * const w = tensor([1], { requiresGrad: true });
 * const optimizer = new optim.SGD([w], { lr: 0.1, momentum: 0.9 });
 * w.square().sum().backward();
 * optimizer.step();
 * console.log(w.toArray()); // [ 0.800000…
 * ```
 */
export class SGD extends Optimizer<SGDOptions> {
  static readonly [rpcName] = 'optim.SGD';

  constructor(params: Params, options: SGDOptions) {
    super(params);
    const defaults = { lr: 1e-3, momentum: 0, dampening: 0, weightDecay: 0, nesterov: false };
    this.configure(defaults, options);
  }

  protected override validate(): void {
    const { lr, momentum, dampening, weightDecay, nesterov } = this.options;
    checkRange('learning rate', lr, lr >= 0);
    checkRange('momentum value', momentum, momentum >= 0);
    checkRange('weight_decay value', weightDecay, weightDecay >= 0);
    if (nesterov && (momentum === 0 || dampening !== 0))
      throw new RangeError('Nesterov momentum requires a momentum and zero dampening');
  }

  protected get slotNames(): readonly string[] {
    return this.options.momentum === 0 ? NONE : VELOCITY;
  }

  /** The velocity moves rows that a gradient does not name; decay touches every element, and PyTorch has none of a sparse gradient. */
  protected override get sparseGradients(): SparseGradients {
    const { momentum, weightDecay } = this.options;
    if (weightDecay !== 0) return 'refused with decay';
    return momentum === 0 ? 'rows' : 'dense';
  }

  /** Without a velocity the step is linear in the gradient: as PyTorch's, which adds each entry by itself. */
  protected override get rowsOneByOne(): boolean {
    return this.options.momentum === 0;
  }

  protected override updateRows(p: Values, g: Values, ids: NumberArray, width: number, state: ParameterState): void {
    if (!this.rowsOneByOne) {
      super.updateRows(p, g, ids, width, state);
      return;
    }
    const { lr } = this.options;
    for (let k = 0, from = 0; k < ids.length; k++) {
      const start = ids[k]! * width;
      for (let at = start; at < start + width; at++) p[at] = p[at]! - lr * g[from++]!;
    }
  }

  protected override deviceUpdate(): DeviceUpdate | undefined {
    const { lr, momentum, dampening, weightDecay, nesterov } = this.options;
    const common = { gradientAt: 1, penalty: weightDecay, shrink: 1 };
    if (momentum === 0) return { kernel: 'ResourceApplyGradientDescent', scalars: [lr], ...common };
    // TensorFlow has no dampening.
    if (dampening !== 0) return undefined;
    return { kernel: 'ResourceApplyMomentum', scalars: [lr, momentum], flags: { use_nesterov: nesterov }, ...common };
  }

  protected update(p: Values, g: Values, { fresh, slots: [velocity] }: ParameterState): void {
    const { lr, momentum, dampening, weightDecay, nesterov } = this.options;
    if (velocity === undefined) {
      descend(p, g, lr, weightDecay);
      return;
    }
    const keep = fresh ? 0 : momentum;
    const take = fresh ? 1 : 1 - dampening;
    for (let i = 0; i < p.length; i++) {
      const grad = weightDecay === 0 ? g[i]! : g[i]! + weightDecay * p[i]!;
      const v = (velocity[i] = keep * velocity[i]! + take * grad);
      p[i] = p[i]! - lr * (nesterov ? grad + momentum * v : v);
    }
  }
}

/** The plain step, four elements a turn: half the time of the loop that engines make of one. */
function descend(p: Values, g: Values, lr: number, weightDecay: number): void {
  const n = p.length;
  // lr (g + weightDecay p), factored so that no decay costs no multiplication more.
  const keep = 1 - lr * weightDecay;
  let i = 0;
  for (const whole = n - 3; i < whole; i += 4) {
    p[i] = keep * p[i]! - lr * g[i]!;
    p[i + 1] = keep * p[i + 1]! - lr * g[i + 1]!;
    p[i + 2] = keep * p[i + 2]! - lr * g[i + 2]!;
    p[i + 3] = keep * p[i + 3]! - lr * g[i + 3]!;
  }
  for (; i < n; i++) p[i] = keep * p[i]! - lr * g[i]!;
}
