/** @file Stochastic gradient descent with momentum, Nesterov's variant and weight decay, as in PyTorch. */
import type { DeviceUpdate } from '../backends/backend.ts';
import type { Tensor } from '../tensor.ts';
import { checkRange, Optimizer, rpcName, type ParameterState, type Values } from './optimizer.ts';

export interface SGDOptions {
  /** Learning rate, at least 0. */
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

/** `v ← momentum·v + g; p ← p − lr·v` (Sutskever et al. 2013, in PyTorch's form: the rate is applied outside the velocity). */
export class SGD extends Optimizer {
  static readonly [rpcName] = 'optim.SGD';
  private readonly options: Required<SGDOptions>;
  protected readonly slotCount: number;
  protected override readonly acceptsSparse: boolean;

  constructor(params: Iterable<Tensor>, options: SGDOptions) {
    super(params);
    this.options = { momentum: 0, dampening: 0, weightDecay: 0, nesterov: false, ...options };
    const { lr, momentum, dampening, weightDecay, nesterov } = this.options;
    checkRange('learning rate', lr, lr >= 0);
    checkRange('momentum value', momentum, momentum >= 0);
    checkRange('weight_decay value', weightDecay, weightDecay >= 0);
    if (nesterov && (momentum === 0 || dampening !== 0))
      throw new RangeError('Nesterov momentum requires a momentum and zero dampening');
    this.slotCount = momentum === 0 ? 0 : 1;
    this.acceptsSparse = momentum === 0 && weightDecay === 0;
  }

  protected override deviceUpdate(): DeviceUpdate | undefined {
    const { lr, momentum, dampening, weightDecay, nesterov } = this.options;
    const common = { gradientAt: 1, penalty: weightDecay, shrink: 1 };
    if (momentum === 0) return { kernel: 'ResourceApplyGradientDescent', scalars: [lr], ...common };
    // TensorFlow has no dampening.
    if (dampening !== 0) return undefined;
    return { kernel: 'ResourceApplyMomentum', scalars: [lr, momentum], flags: { use_nesterov: nesterov }, ...common };
  }

  protected update(p: Values, g: Values, { step, slots: [velocity] }: ParameterState): void {
    const { lr, momentum, dampening, weightDecay, nesterov } = this.options;
    if (velocity === undefined) {
      descend(p, g, lr, weightDecay);
      return;
    }
    const keep = step === 1 ? 0 : momentum;
    const take = step === 1 ? 1 : 1 - dampening;
    for (let i = 0; i < p.length; i++) {
      const grad = g[i]! + weightDecay * p[i]!;
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
