/** @file Adam and its relatives: AdamW with decoupled decay, Adamax with the infinity norm, RAdam with a warm-up, SparseAdam by rows. */
import type { DeviceUpdate } from '../backends/backend.ts';
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

/** What `Adam`, `AdamW` and `Adamax` are made with, and each of their groups. */
export interface AdamOptions extends CommonOptions {
  /** Learning rate. @default 0.001 (Adamax: 0.002) */
  readonly lr?: number;
  /** Decay of the first and second moment. @default [0.9, 0.999] */
  readonly betas?: readonly [number, number];
  /** Keeps the division finite. @default 1e-8 */
  readonly eps?: number;
  /** @default 0 (AdamW: 0.01) */
  readonly weightDecay?: number;
  /** Divides by the largest second moment so far (Reddi et al. 2018); not for Adamax. @default false */
  readonly amsgrad?: boolean;
}

/** What `RAdam` is made with, and each of its groups. */
export interface RAdamOptions extends Omit<AdamOptions, 'amsgrad'> {
  /** Whether decay shrinks the parameter itself instead of joining the gradient. @default false */
  readonly decoupledWeightDecay?: boolean;
}

/** What `SparseAdam` is made with, and each of its groups. */
export type SparseAdamOptions = Omit<AdamOptions, 'weightDecay' | 'amsgrad'>;

function checkBetas(betas: readonly number[]): void {
  for (const [i, beta] of betas.entries()) checkRange(`beta parameter at index ${i}`, beta, beta >= 0 && beta < 1);
}

const USUAL: { readonly betas: readonly [number, number]; readonly eps: number } = { betas: [0.9, 0.999], eps: 1e-8 };

function checkMoments({ lr, betas, eps, weightDecay }: Required<Omit<AdamOptions, 'amsgrad'>>): void {
  checkRange('learning rate', lr, lr >= 0);
  checkRange('epsilon value', eps, eps >= 0);
  checkBetas(betas);
  checkRange('weight_decay value', weightDecay, weightDecay >= 0);
}

abstract class MomentOptimizer extends Optimizer<AdamOptions> {
  constructor(params: Params, options: AdamOptions, defaults: { lr: number; weightDecay: number }) {
    super(params);
    this.configure({ ...USUAL, amsgrad: false, ...defaults }, options);
  }

  protected override validate(): void {
    checkMoments(this.options);
  }
}

const MOMENTS: readonly string[] = ['exp_avg', 'exp_avg_sq'];
const AMSGRAD: readonly string[] = [...MOMENTS, 'max_exp_avg_sq'];

abstract class AdamRule extends MomentOptimizer {
  /** Whether decay shrinks the parameter itself instead of joining the gradient. */
  protected abstract readonly decoupled: boolean;

  protected get slotNames(): readonly string[] {
    return this.options.amsgrad ? AMSGRAD : MOMENTS;
  }

  protected override deviceUpdate(step: number): DeviceUpdate | undefined {
    const { lr, betas, eps, weightDecay, amsgrad } = this.options;
    if (amsgrad) return undefined;
    const [b1, b2] = betas;
    // TensorFlow scales the rate where PyTorch scales the divisor, epsilon included; powers of zero turn its own corrections off.
    const scale = Math.sqrt(1 - b2 ** step);
    return {
      kernel: 'ResourceApplyAdam',
      scalars: [0, 0, (lr * scale) / (1 - b1 ** step), b1, b2, eps * scale],
      gradientAt: 6,
      penalty: this.decoupled ? 0 : weightDecay,
      shrink: this.decoupled ? 1 - lr * weightDecay : 1,
    };
  }

  protected update(p: Values, g: Values, { step, slots }: ParameterState): void {
    const { lr, betas, eps, weightDecay } = this.options;
    const [b1, b2] = betas;
    const [m, v, largest] = slots as [Values, Values, Values | undefined];
    const rate = lr / (1 - b1 ** step);
    const scale = 1 / Math.sqrt(1 - b2 ** step);
    const shrink = this.decoupled ? 1 - lr * weightDecay : 1;
    const penalty = this.decoupled ? 0 : weightDecay;
    const [c1, c2] = [1 - b1, 1 - b2];
    const n = p.length;
    if (largest === undefined) {
      // No test inside, and two elements a turn, so that one's square root runs beside the other's: a seventh less time.
      let i = 0;
      for (; i < n - 1; i += 2) {
        const j = i + 1;
        const p0 = p[i]!;
        const p1 = p[j]!;
        const g0 = penalty === 0 ? g[i]! : g[i]! + penalty * p0;
        const g1 = penalty === 0 ? g[j]! : g[j]! + penalty * p1;
        const m0 = m[i]! + c1 * (g0 - m[i]!);
        const m1 = m[j]! + c1 * (g1 - m[j]!);
        const v0 = b2 * v[i]! + c2 * g0 * g0;
        const v1 = b2 * v[j]! + c2 * g1 * g1;
        m[i] = m0;
        m[j] = m1;
        v[i] = v0;
        v[j] = v1;
        p[i] = shrink * p0 - (rate * m0) / (Math.sqrt(v0) * scale + eps);
        p[j] = shrink * p1 - (rate * m1) / (Math.sqrt(v1) * scale + eps);
      }
      if (i < n) {
        const grad = penalty === 0 ? g[i]! : g[i]! + penalty * p[i]!;
        m[i] = m[i]! + c1 * (grad - m[i]!);
        v[i] = b2 * v[i]! + c2 * grad * grad;
        p[i] = shrink * p[i]! - (rate * m[i]!) / (Math.sqrt(v[i]!) * scale + eps);
      }
      return;
    }
    for (let i = 0; i < n; i++) {
      const before = p[i]!;
      const grad = penalty === 0 ? g[i]! : g[i]! + penalty * before;
      const mean = (m[i] = m[i]! + c1 * (grad - m[i]!));
      const square = (v[i] = b2 * v[i]! + c2 * grad * grad);
      const divisor = (largest[i] = Math.max(largest[i]!, square));
      p[i] = shrink * before - (rate * mean) / (Math.sqrt(divisor) * scale + eps);
    }
  }
}

/**
 * Kingma & Ba 2015, with the penalty added to the gradient.
 * @example
 * ```ts
 * const model = new nn.Linear(2, 1);
 * const optimizer = new optim.Adam(model.parameters(), { lr: 0.05 });
 * const x = tensor([[1, 0], [0, 1]]);
 * for (let step = 0; step < 200; step++) {
 *   optimizer.zeroGrad();
 *   mseLoss(model.forward(x), tensor([[1], [-1]])).backward();
 *   optimizer.step();
 * }
 * console.log(model.forward(x).round().toArray()); // [ [ 1 ], [ -1 ] ]
 * ```
 */
export class Adam extends AdamRule {
  static readonly [rpcName] = 'optim.Adam';
  protected readonly decoupled = false;
  constructor(params: Params, options: AdamOptions = {}) {
    super(params, options, { lr: 1e-3, weightDecay: 0 });
  }
}

/** Loshchilov & Hutter 2019: decay shrinks the parameter itself. */
export class AdamW extends AdamRule {
  static readonly [rpcName] = 'optim.AdamW';
  protected readonly decoupled = true;
  constructor(params: Params, options: AdamOptions = {}) {
    super(params, options, { lr: 1e-3, weightDecay: 1e-2 });
  }
}

/** Kingma & Ba 2015, section 7.1: the second moment is replaced by the largest gradient seen, decayed. */
export class Adamax extends MomentOptimizer {
  static readonly [rpcName] = 'optim.Adamax';
  protected readonly slotNames = ['exp_avg', 'exp_inf'];
  constructor(params: Params, options: AdamOptions = {}) {
    super(params, options, { lr: 2e-3, weightDecay: 0 });
  }

  protected update(p: Values, g: Values, { step, slots }: ParameterState): void {
    const { lr, betas, eps, weightDecay } = this.options;
    const [b1, b2] = betas;
    const [m, u] = slots as [Values, Values];
    const rate = lr / (1 - b1 ** step);
    for (let i = 0; i < p.length; i++) {
      const grad = weightDecay === 0 ? g[i]! : g[i]! + weightDecay * p[i]!;
      m[i] = m[i]! + (1 - b1) * (grad - m[i]!);
      u[i] = Math.max(b2 * u[i]!, Math.abs(grad) + eps);
      p[i] = p[i]! - (rate * m[i]!) / u[i]!;
    }
  }
}

/** Liu et al. 2020: the rate is adapted by element only once the second moment is known well enough. */
export class RAdam extends Optimizer<RAdamOptions> {
  static readonly [rpcName] = 'optim.RAdam';
  protected readonly slotNames = MOMENTS;

  constructor(params: Params, options: RAdamOptions = {}) {
    super(params);
    this.configure({ ...USUAL, lr: 1e-3, weightDecay: 0, decoupledWeightDecay: false }, options);
  }

  protected override validate(): void {
    checkMoments(this.options);
  }

  protected update(p: Values, g: Values, { step, slots }: ParameterState): void {
    const { lr, betas, eps, weightDecay, decoupledWeightDecay } = this.options;
    const [b1, b2] = betas;
    const [m, v] = slots as [Values, Values];
    const shrink = decoupledWeightDecay ? 1 - lr * weightDecay : 1;
    const penalty = decoupledWeightDecay ? 0 : weightDecay;
    const rate = lr / (1 - b1 ** step);
    const rectified = rectification(b2, step);
    const scale = rectified === undefined ? 0 : rectified * Math.sqrt(1 - b2 ** step);
    for (let i = 0; i < p.length; i++) {
      const before = p[i]!;
      const grad = penalty === 0 ? g[i]! : g[i]! + penalty * before;
      const mean = (m[i] = m[i]! + (1 - b1) * (grad - m[i]!));
      const square = (v[i] = b2 * v[i]! + (1 - b2) * grad * grad);
      const adapted = rectified === undefined ? 1 : scale / (Math.sqrt(square) + eps);
      p[i] = shrink * before - rate * mean * adapted;
    }
  }
}

/** The root of the ratio of variances, of RAdam's step `step`; undefined where the variance is not known yet. */
function rectification(b2: number, step: number): number | undefined {
  const most = 2 / (1 - b2) - 1;
  const length = most - (2 * step * b2 ** step) / (1 - b2 ** step);
  if (!(length > 5)) return undefined;
  return Math.sqrt(((length - 4) * (length - 2) * most) / ((most - 4) * (most - 2) * length));
}

/**
 * Adam for sparse gradients: only the rows that a gradient names are moved, and so are their moments; the others neither decay nor go on.
 * Dense gradients are refused, and complex parameters.
 */
export class SparseAdam extends Optimizer<SparseAdamOptions> {
  static readonly [rpcName] = 'optim.SparseAdam';
  protected readonly slotNames = MOMENTS;

  constructor(params: Params, options: SparseAdamOptions = {}) {
    super(params);
    this.configure({ ...USUAL, lr: 1e-3 }, options);
  }

  protected override validate(): void {
    const { lr, betas, eps } = this.options;
    checkRange('learning rate', lr, lr > 0);
    checkRange('epsilon value', eps, eps > 0);
    checkBetas(betas);
  }

  protected override get sparseGradients(): SparseGradients {
    return 'nothing else';
  }

  protected override get takesComplex(): boolean {
    return false;
  }

  protected update(p: Values, g: Values, { step, slots }: ParameterState): void {
    const { lr, betas, eps } = this.options;
    const [b1, b2] = betas;
    const [m, v] = slots as [Values, Values];
    // Epsilon is added to the moment as it is: not corrected, as Adam's is.
    const rate = (lr * Math.sqrt(1 - b2 ** step)) / (1 - b1 ** step);
    for (let i = 0; i < p.length; i++) {
      const grad = g[i]!;
      const mean = (m[i] = m[i]! + (1 - b1) * (grad - m[i]!));
      const square = (v[i] = v[i]! + (1 - b2) * (grad * grad - v[i]!));
      p[i] = p[i]! - (rate * mean) / (Math.sqrt(square) + eps);
    }
  }
}
