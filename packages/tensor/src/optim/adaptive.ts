/** @file Optimisers with a rate per element: Adagrad, Adadelta, RMSprop and Rprop. */
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

/** What `Adagrad` is made with, and each of its groups. */
export interface AdagradOptions extends CommonOptions {
  /** @default 0.01 */
  readonly lr?: number;
  /** @default 0 */
  readonly lrDecay?: number;
  /** @default 0 */
  readonly weightDecay?: number;
  /** What the sum of squares starts from. @default 0 */
  readonly initialAccumulatorValue?: number;
  /** @default 1e-10 */
  readonly eps?: number;
}

/** Duchi et al. 2011. Takes sparse gradients. */
export class Adagrad extends Optimizer<AdagradOptions> {
  static readonly [rpcName] = 'optim.Adagrad';
  protected readonly slotNames = ['sum'];

  constructor(params: Params, options: AdagradOptions = {}) {
    super(params);
    this.configure({ lr: 1e-2, lrDecay: 0, weightDecay: 0, initialAccumulatorValue: 0, eps: 1e-10 }, options);
  }

  protected override validate(): void {
    const { lr, lrDecay, weightDecay, initialAccumulatorValue, eps } = this.options;
    checkRange('learning rate', lr, lr >= 0);
    checkRange('lr_decay value', lrDecay, lrDecay >= 0);
    checkRange('weight_decay value', weightDecay, weightDecay >= 0);
    checkRange('initial_accumulator_value value', initialAccumulatorValue, initialAccumulatorValue >= 0);
    checkRange('epsilon value', eps, eps >= 0);
  }

  protected override get slotStart(): number {
    return this.options.initialAccumulatorValue;
  }

  protected override get sparseGradients(): SparseGradients {
    return this.options.weightDecay === 0 ? 'rows' : 'refused with decay';
  }

  protected update(p: Values, g: Values, { step, slots }: ParameterState): void {
    const { lr, lrDecay, weightDecay, eps } = this.options;
    const [sum] = slots as [Values];
    const rate = lr / (1 + (step - 1) * lrDecay);
    for (let i = 0; i < p.length; i++) {
      const grad = weightDecay === 0 ? g[i]! : g[i]! + weightDecay * p[i]!;
      sum[i] = sum[i]! + grad * grad;
      p[i] = p[i]! - (rate * grad) / (Math.sqrt(sum[i]!) + eps);
    }
  }
}

/** What `Adadelta` is made with, and each of its groups. */
export interface AdadeltaOptions extends CommonOptions {
  /** @default 1 */
  readonly lr?: number;
  /** Decay of both averages. @default 0.9 */
  readonly rho?: number;
  /** @default 1e-6 */
  readonly eps?: number;
  /** @default 0 */
  readonly weightDecay?: number;
}

/** Zeiler 2012. */
export class Adadelta extends Optimizer<AdadeltaOptions> {
  static readonly [rpcName] = 'optim.Adadelta';
  protected readonly slotNames = ['square_avg', 'acc_delta'];

  constructor(params: Params, options: AdadeltaOptions = {}) {
    super(params);
    this.configure({ lr: 1, rho: 0.9, eps: 1e-6, weightDecay: 0 }, options);
  }

  protected override validate(): void {
    const { lr, rho, eps, weightDecay } = this.options;
    checkRange('learning rate', lr, lr >= 0);
    checkRange('rho value', rho, rho >= 0 && rho <= 1);
    checkRange('epsilon value', eps, eps >= 0);
    checkRange('weight_decay value', weightDecay, weightDecay >= 0);
  }

  protected update(p: Values, g: Values, { slots }: ParameterState): void {
    const { lr, rho, eps, weightDecay } = this.options;
    const [square, moved] = slots as [Values, Values];
    for (let i = 0; i < p.length; i++) {
      const grad = weightDecay === 0 ? g[i]! : g[i]! + weightDecay * p[i]!;
      square[i] = rho * square[i]! + (1 - rho) * grad * grad;
      const delta = (Math.sqrt(moved[i]! + eps) / Math.sqrt(square[i]! + eps)) * grad;
      moved[i] = rho * moved[i]! + (1 - rho) * delta * delta;
      p[i] = p[i]! - lr * delta;
    }
  }
}

/** The way from a to b by `weight`, from the nearer end as in PyTorch: that decides what becomes of infinite numbers. */
function lerp(a: number, b: number, weight: number): number {
  return Math.abs(weight) < 0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

/** What `RMSprop` is made with, and each of its groups. */
export interface RMSpropOptions extends CommonOptions {
  /** @default 0.01 */
  readonly lr?: number;
  /** Decay of the average of squares. @default 0.99 */
  readonly alpha?: number;
  /** @default 1e-8 */
  readonly eps?: number;
  /** @default 0 */
  readonly weightDecay?: number;
  /** @default 0 */
  readonly momentum?: number;
  /** Normalises by the variance instead of the mean square. @default false */
  readonly centered?: boolean;
}

/** Hinton's lecture 6e; centred as in Graves 2013. */
export class RMSprop extends Optimizer<RMSpropOptions> {
  static readonly [rpcName] = 'optim.RMSprop';

  constructor(params: Params, options: RMSpropOptions = {}) {
    super(params);
    this.configure({ lr: 1e-2, alpha: 0.99, eps: 1e-8, weightDecay: 0, momentum: 0, centered: false }, options);
  }

  protected override validate(): void {
    const { lr, alpha, eps, weightDecay, momentum } = this.options;
    checkRange('learning rate', lr, lr >= 0);
    checkRange('alpha value', alpha, alpha >= 0);
    checkRange('epsilon value', eps, eps >= 0);
    checkRange('weight_decay value', weightDecay, weightDecay >= 0);
    checkRange('momentum value', momentum, momentum >= 0);
  }

  protected get slotNames(): readonly string[] {
    const { momentum, centered } = this.options;
    return ['square_avg', ...(momentum > 0 ? ['momentum_buffer'] : []), ...(centered ? ['grad_avg'] : [])];
  }

  protected update(p: Values, g: Values, { slots }: ParameterState): void {
    const { lr, alpha, eps, weightDecay, momentum, centered } = this.options;
    const square = slots[0] as Values;
    const velocity = momentum > 0 ? slots[1] : undefined;
    const mean = centered ? slots[slots.length - 1] : undefined;
    for (let i = 0; i < p.length; i++) {
      const grad = weightDecay === 0 ? g[i]! : g[i]! + weightDecay * p[i]!;
      square[i] = alpha * square[i]! + (1 - alpha) * grad * grad;
      let spread = square[i]!;
      if (mean !== undefined) {
        mean[i] = lerp(mean[i]!, grad, 1 - alpha);
        // Of gradients that stay the same, rounding may leave less than nothing.
        spread = Math.max(0, spread - mean[i]! * mean[i]!);
      }
      const scaled = grad / (Math.sqrt(spread) + eps);
      const moved = velocity === undefined ? scaled : (velocity[i] = momentum * velocity[i]! + scaled);
      p[i] = p[i]! - lr * moved;
    }
  }
}

/** What `Rprop` is made with, and each of its groups. */
export interface RpropOptions extends CommonOptions {
  /** The first step's size. @default 0.01 */
  readonly lr?: number;
  /** Factors by which a step shrinks or grows. @default [0.5, 1.2] */
  readonly etas?: readonly [number, number];
  /** Smallest and largest step. @default [1e-6, 50] */
  readonly stepSizes?: readonly [number, number];
}

/** Riedmiller & Braun 1993, without backtracking of the weight, as in PyTorch. */
export class Rprop extends Optimizer<RpropOptions> {
  static readonly [rpcName] = 'optim.Rprop';
  protected readonly slotNames = ['prev', 'step_size'];

  constructor(params: Params, options: RpropOptions = {}) {
    super(params);
    this.configure({ lr: 1e-2, etas: [0.5, 1.2], stepSizes: [1e-6, 50] }, options);
  }

  protected override validate(): void {
    const { lr, etas } = this.options;
    checkRange('learning rate', lr, lr >= 0);
    if (!(etas[0] > 0 && etas[0] < 1 && etas[1] > 1))
      throw new RangeError(`Invalid eta values: ${etas[0]}, ${etas[1]}`);
  }

  protected update(p: Values, g: Values, { fresh, slots }: ParameterState): void {
    const { lr, etas, stepSizes } = this.options;
    const [previous, size] = slots as [Values, Values];
    if (fresh) size.fill(lr);
    for (let i = 0; i < p.length; i++) {
      let grad = g[i]!;
      const agreement = grad * previous[i]!;
      const factor = agreement > 0 ? etas[1] : agreement < 0 ? etas[0] : 1;
      size[i] = Math.min(Math.max(size[i]! * factor, stepSizes[0]), stepSizes[1]);
      if (agreement < 0) grad = 0;
      // Of NaN it is 0, as in PyTorch.
      const direction = grad > 0 ? 1 : grad < 0 ? -1 : 0;
      p[i] = p[i]! - direction * size[i]!;
      previous[i] = grad;
    }
  }
}
