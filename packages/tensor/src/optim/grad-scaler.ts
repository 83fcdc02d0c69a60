/** @file GradScaler: losses that are scaled up so that gradients in half precision do not vanish, and a scale that finds its size. */
import { noGrad } from '../autograd/record.ts';
import { AutogradError, DTypeError } from '../errors.ts';
import { decode } from '../dtype.ts';
import { readArray } from '../host.ts';
import { checkGivenOptions, kindOf } from '../given.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { checkKinds, checkOptimizer, checkState, defined } from './options.ts';
import { Tensor } from '../tensor.ts';
import type { Optimizer } from './optimizer.ts';

/** How the scale of a `GradScaler` begins, grows and shrinks. */
export interface GradScalerOptions {
  /** By what losses are multiplied in the beginning; above 0. @default 65536 */
  initScale?: number;
  /** By what the scale grows after `growthInterval` steps without infinite gradients; above 1. @default 2 */
  growthFactor?: number;
  /** By what it shrinks after one with them; below 1. @default 0.5 */
  backoffFactor?: number;
  /** After how many steps in a row without infinite gradients the scale grows; a whole number from 1. @default 2000 */
  growthInterval?: number;
  /** Without it, losses are not scaled and steps are the optimiser's. @default true */
  enabled?: boolean;
}
const OPTIONS = optionNames<GradScalerOptions>()('initScale growthFactor backoffFactor growthInterval enabled');
const DEFAULTS = {
  initScale: 65_536,
  growthFactor: 2,
  backoffFactor: 0.5,
  growthInterval: 2_000,
  enabled: true,
} satisfies Required<GradScalerOptions>;

/** What a scaler writes to a checkpoint, by PyTorch's names. */
export interface GradScalerState {
  scale: number;
  growth_factor: number;
  backoff_factor: number;
  growth_interval: number;
  _growth_tracker: number;
}

/** What was done for an optimiser since the last update. */
interface Progress {
  stepped: boolean;
  /** Set when its gradients were unscaled: whether some were infinite or NaN, undefined where there were none. */
  unscaled: { readonly found: boolean | undefined } | undefined;
}

/**
 * `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update();` A step whose gradients are infinite or NaN is left out, and
 * the scale shrinks. To look at gradients or clip them, call `unscale_` before.
 */
export class GradScaler {
  private readonly enabled: boolean;
  private factor: number;
  private growthFactor: number;
  private backoffFactor: number;
  private growthInterval: number;
  /** Steps in a row without infinite gradients. */
  private grown = 0;
  private used = false;
  private readonly progress = new Map<Optimizer, Progress>();

  /** @throws RangeError for factors on the wrong side of 1, a scale that is not positive, and an interval that is no whole number. */
  constructor(options: GradScalerOptions = {}) {
    checkGivenOptions('GradScaler', options);
    checkOptionNames(options, OPTIONS, 'GradScaler');
    checkKinds(options, DEFAULTS, 'GradScaler');
    const { initScale, growthFactor, backoffFactor, growthInterval, enabled } = { ...DEFAULTS, ...defined(options) };
    if (!(growthFactor > 1)) throw new RangeError(`GradScaler: The growth factor must be > 1.0, got ${growthFactor}`);
    if (!(backoffFactor < 1 && backoffFactor > 0))
      throw new RangeError(`GradScaler: The backoff factor must be < 1.0 and positive, got ${backoffFactor}`);
    if (!Number.isInteger(growthInterval) || growthInterval < 1)
      throw new RangeError(`GradScaler: the growth interval is a whole number of at least 1, got ${growthInterval}`);
    this.factor = checkedScale(initScale);
    this.growthFactor = growthFactor;
    this.backoffFactor = backoffFactor;
    this.growthInterval = growthInterval;
    this.enabled = enabled;
  }

  /** The loss times the scale, or each of several. */
  scale(loss: Tensor): Tensor;
  scale(losses: readonly Tensor[]): Tensor[];
  scale(losses: Tensor | readonly Tensor[]): Tensor | Tensor[] {
    if (!(losses instanceof Tensor)) checkLosses(losses);
    if (!this.enabled) return losses instanceof Tensor ? losses : [...losses];
    this.used = true;
    if (losses instanceof Tensor) return losses.mul(this.factor);
    return losses.map((one) => one.mul(this.factor));
  }

  /**
   * Divides the gradients of an optimiser's parameters by the scale, in place, and looks for infinite ones. `step` does it unless it was done.
   * @throws AutogradError when it was done since the last update; DTypeError for gradients in float16, whose parameters ought to be float32.
   */
  unscale_(optimizer: Optimizer): void {
    checkOptimizer(optimizer, 'unscale_()');
    if (!this.enabled) return;
    this.checkUsed('unscale_');
    const progress = this.progressOf(optimizer);
    if (progress.unscaled !== undefined)
      throw new AutogradError('unscale_() has already been called on this optimizer since the last update().');
    if (progress.stepped) throw new AutogradError('unscale_() is being called after step().');
    progress.unscaled = { found: this.unscaleAll(optimizer) };
  }

  private unscaleAll(optimizer: Optimizer): boolean | undefined {
    const gradients = optimizer.paramGroups.flatMap(({ params }) =>
      params.flatMap(({ grad }) => (grad === null ? [] : [grad])),
    );
    if (gradients.some(({ dtype }) => dtype === 'float16'))
      throw new DTypeError('Attempting to unscale FP16 gradients.');
    if (gradients.length === 0) return undefined;
    const inverse = Math.fround(1 / this.factor);
    let found = false;
    noGrad(() => {
      for (const gradient of gradients) {
        const values = gradient.sparse === undefined ? gradient : gradient.sparse.values;
        found = hasInfinite(values) || found;
        values.mul_(inverse);
      }
    });
    return found;
  }

  /** The optimiser's step by its parameters' `grad`, unless some are infinite or NaN. Returns whether it was taken. */
  step(optimizer: Optimizer): boolean {
    checkOptimizer(optimizer, 'step() of a GradScaler');
    if (this.enabled) {
      this.checkUsed('step');
      const progress = this.progressOf(optimizer);
      if (progress.stepped) throw new AutogradError('step() has already been called since the last update().');
      if (progress.unscaled === undefined) this.unscale_(optimizer);
      const found = progress.unscaled?.found;
      if (found === undefined) throw new AutogradError('No inf checks were recorded for this optimizer.');
      progress.stepped = true;
      if (found) return false;
    }
    optimizer.step();
    return true;
  }

  /** Adjusts the scale after the steps of an iteration, or sets it to `newScale`. */
  update(newScale?: number): void {
    if (!this.enabled) return;
    this.checkUsed('update');
    if (newScale !== undefined) this.factor = checkedScale(newScale);
    else this.adjust();
    this.progress.clear();
  }

  private adjust(): void {
    const checks = [...this.progress.values()].flatMap(({ unscaled }) =>
      unscaled?.found === undefined ? [] : [unscaled.found],
    );
    if (checks.length === 0) throw new AutogradError('No inf checks were recorded prior to update.');
    if (checks.includes(true)) {
      this.factor = Math.fround(this.factor * this.backoffFactor);
      this.grown = 0;
      return;
    }
    if (++this.grown < this.growthInterval) return;
    const grown = Math.fround(this.factor * this.growthFactor);
    if (Number.isFinite(grown)) this.factor = grown;
    this.grown = 0;
  }

  /** 1 where the scaler is off. */
  getScale(): number {
    return this.enabled ? this.factor : 1;
  }

  isEnabled(): boolean {
    return this.enabled;
  }

  /** Empty where the scaler is off. */
  stateDict(): Partial<GradScalerState> {
    if (!this.enabled) return {};
    return {
      scale: this.factor,
      growth_factor: this.growthFactor,
      backoff_factor: this.backoffFactor,
      growth_interval: this.growthInterval,
      _growth_tracker: this.grown,
    };
  }

  /** @throws TypeError for a state that lacks something: that of a scaler that was off. */
  loadStateDict(state: Partial<GradScalerState>): void {
    checkState(state, 'a GradScaler');
    if (!this.enabled) return;
    const { scale, growth_factor, backoff_factor, growth_interval, _growth_tracker } = state;
    const all = { scale, growth_factor, backoff_factor, growth_interval, _growth_tracker };
    const missing = Object.entries(all).find(([, value]) => typeof value !== 'number')?.[0];
    if (missing !== undefined)
      throw new TypeError(
        `GradScaler: the state has no ${missing}, possibly because it was saved from a disabled instance of GradScaler.`,
      );
    const known = state as GradScalerState;
    this.factor = checkedScale(known.scale);
    this.growthFactor = known.growth_factor;
    this.backoffFactor = known.backoff_factor;
    this.growthInterval = known.growth_interval;
    this.grown = known._growth_tracker;
  }

  private progressOf(optimizer: Optimizer): Progress {
    const known = this.progress.get(optimizer);
    if (known !== undefined) return known;
    const progress: Progress = { stepped: false, unscaled: undefined };
    this.progress.set(optimizer, progress);
    return progress;
  }

  private checkUsed(what: string): void {
    if (!this.used)
      throw new AutogradError(
        `Attempted ${what} but nothing was scaled. This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration.`,
      );
  }
}

function checkLosses(losses: unknown): void {
  if (!Array.isArray(losses)) throw new TypeError(`scale() takes a loss, or a list of them, got ${kindOf(losses)}`);
  for (const one of Array.from(losses as unknown[]))
    if (!(one instanceof Tensor)) throw new TypeError(`scale() takes losses, which are Tensors, got ${kindOf(one)}`);
}

function checkedScale(scale: number): number {
  if (typeof scale !== 'number') throw new TypeError(`GradScaler: a scale is a number, got ${kindOf(scale)}`);
  if (!(scale > 0 && scale < Infinity))
    throw new RangeError(`GradScaler: a scale is positive and finite, got ${scale}`);
  return Math.fround(scale);
}

function hasInfinite(t: Tensor): boolean {
  return decode(readArray(t), t.dtype).some((value) => !Number.isFinite(value));
}
