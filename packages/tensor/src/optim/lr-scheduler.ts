/** @file Learning-rate schedules that follow from a count of steps: `optim.lrScheduler.StepLR` and so on. */
import type { ScheduledGroup, Scheduled } from './scheduled.ts';
import { kindOf } from '../given.ts';
import { checkOptionNames } from '../option-names.ts';
import { checkAbove0, checkNumbers, checkOptimizer, checkState, defined, overlaid } from './options.ts';

/** Factors by the count of steps, one for all groups or one each. */
export type Factors = ((epoch: number) => number) | readonly ((epoch: number) => number)[];

/**
 * Sets the learning rates of an optimiser, one a group. Made with one, it sets those of the start; `step()` follows those of the
 * optimiser, once an epoch or once a batch. It takes a local optimiser or a `DistributedOptimizer`. A group that is added later may note
 * the rate it begins with as `initialLr`; some schedules need it.
 */
export abstract class LRScheduler {
  /** The rates that the groups began with. */
  readonly baseLrs: readonly number[];
  /** How often it has stepped. */
  lastEpoch = -1;
  protected readonly optimizer: Scheduled;
  private lastLr: readonly number[] = [];
  /** The groups of which no schedule before this one has noted with what rate they began. */
  private readonly unnoted: readonly ScheduledGroup[];

  constructor(optimizer: Scheduled) {
    checkOptimizer(optimizer, this.constructor.name);
    this.optimizer = optimizer;
    this.unnoted = optimizer.paramGroups.filter((group) => (group['initialLr'] ?? undefined) === undefined);
    for (const group of this.unnoted) group['initialLr'] = group.lr;
    this.baseLrs = optimizer.paramGroups.map((group) => group['initialLr'] as number);
  }

  /** The rates that were set last, one a group. */
  getLastLr(): readonly number[] {
    return this.lastLr;
  }

  /** Goes one step on. @throws RangeError, and stays where it is, when a rate would be no number or a group lacks what this needs. */
  step(): void {
    this.lastEpoch++;
    try {
      this.set(this.rates());
    } catch (error) {
      this.lastEpoch--;
      throw error;
    }
  }

  /** What `loadStateDict` goes on from: the count, the rates and the options of this schedule. Functions are not among it. */
  stateDict(): Record<string, unknown> {
    return { lastEpoch: this.lastEpoch, baseLrs: [...this.baseLrs], lastLr: [...this.lastLr] };
  }

  /**
   * Goes on from `saved`. The rates themselves are in the state of a local optimiser, which is loaded by itself, as in PyTorch; a
   * `DistributedOptimizer` has no such state, and is given them here.
   */
  loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    checkState(saved, this.constructor.name);
    const { lastEpoch, baseLrs, lastLr } = saved;
    if (!Number.isInteger(lastEpoch) || !isNumbers(baseLrs, this.baseLrs.length) || !isNumbers(lastLr)) {
      throw new RangeError(`loaded state does not fit ${this.constructor.name} of ${this.baseLrs.length} groups`);
    }
    this.lastEpoch = lastEpoch as number;
    Object.assign(this, { baseLrs: [...baseLrs], lastLr: [...lastLr] });
    if (!('stateDict' in this.optimizer)) this.set(lastLr);
  }

  /** The rates of this step, from those of the one before or from those of the start. */
  protected abstract rates(): readonly number[];

  /** Sets the rates of the start. For the constructors, once their options are there. */
  protected begin(): void {
    this.step();
  }

  /** The groups begin with these rates, not with those that they have. */
  protected startFrom(rates: readonly number[]): void {
    for (const [i, group] of this.optimizer.paramGroups.entries())
      if (this.unnoted.includes(group)) group['initialLr'] = rates[i];
    Object.assign(this, { baseLrs: rates });
  }

  protected set(rates: readonly number[]): void {
    for (const [i, rate] of rates.entries()) {
      if (!Number.isFinite(rate))
        throw new RangeError(
          `${this.constructor.name}: at step ${this.lastEpoch} the rate of group ${i} would be ${rate}; its options, or the rate before, are too large or too small`,
        );
    }
    for (const [i, group] of this.optimizer.paramGroups.entries()) group.lr = rates[i] ?? group.lr;
    this.lastLr = this.currentLrs();
  }

  /** The rate that group `i` began with. */
  protected base(i: number): number {
    return this.baseLrs[i] ?? this.note(i, 'initialLr');
  }

  /** What is noted in group `i`. @throws RangeError when it is not there, as in a group that was added later. */
  protected note(i: number, name: string): number {
    const value = this.optimizer.paramGroups[i]?.[name];
    if (typeof value === 'number') return value;
    const { name: schedule } = this.constructor;
    if (i < this.baseLrs.length)
      throw new RangeError(
        `${schedule}: group ${i} has no ${name}; load the state of the optimizer as well, or make the schedule as the one that was saved`,
      );
    throw new RangeError(
      `${schedule}: group ${i} came after the schedule and has no ${name}; give it one, addParamGroup({ params, lr, ${name} }), or make a new schedule`,
    );
  }

  /** Each group's rate times a factor. */
  protected scaled(factor: number): number[] {
    return this.currentLrs().map((lr) => lr * factor);
  }

  protected currentLrs(): number[] {
    return this.optimizer.paramGroups.map(({ lr }) => lr);
  }
}

function isNumbers(value: unknown, length?: number): value is number[] {
  return (
    Array.isArray(value) && value.every((v) => Number.isFinite(v)) && (length === undefined || value.length === length)
  );
}

function factorsFor(
  factors: Factors,
  groups: readonly ScheduledGroup[],
  what: string,
): readonly ((epoch: number) => number)[] {
  if (typeof factors === 'function') return groups.map(() => factors);
  for (const one of Array.isArray(factors) ? (factors as unknown[]) : [factors])
    if (typeof one !== 'function') throw new TypeError(`${what} takes functions, got ${kindOf(one)}`);
  if (factors.length !== groups.length)
    throw new RangeError(`Expected ${groups.length} functions, one for each group, but got ${factors.length}`);
  return factors;
}

/** Rates by functions of the count. */
abstract class ByFunction extends LRScheduler {
  private readonly factors: readonly ((epoch: number) => number)[];
  constructor(optimizer: Scheduled, lrLambda: Factors) {
    super(optimizer);
    this.factors = factorsFor(lrLambda, optimizer.paramGroups, this.constructor.name);
    this.begin();
  }
  /** Each of `rates` times what its function gives now; those of groups that came later stay, as in PyTorch. */
  protected times(rates: readonly number[]): number[] {
    const factors = this.factors.map((factor) => factor(this.lastEpoch));
    checkNumbers({ factor: factors }, `${this.constructor.name} at step ${this.lastEpoch}`);
    return rates.map((rate, i) => rate * (factors[i] ?? 1));
  }
}

/** The rate of the start times what a function of the count gives. */
export class LambdaLR extends ByFunction {
  protected rates(): number[] {
    return this.times(this.baseLrs);
  }
}

/** The rate of the step before times what a function of the count gives. */
export class MultiplicativeLR extends ByFunction {
  protected rates(): number[] {
    const made = this.getLastLr().length > 0;
    return made ? this.times(this.currentLrs()) : this.currentLrs();
  }
}

/** Rates by settings, of which those with a default may be left out. */
abstract class BySettings<O extends object, Given extends object = object> extends LRScheduler {
  protected settings: Required<O> & Given;
  /** Those that are no options. */
  private readonly given: readonly string[];
  constructor(optimizer: Scheduled, options: O, defaults: Required<O>, given: Given = {} as Given) {
    super(optimizer);
    const { name } = this.constructor;
    const known = Object.keys(defaults).join(', ');
    if (typeof options !== 'object' || options === null)
      throw new TypeError(`${name} takes its options as an object { ${known} }, got ${kindOf(options)}`);
    checkOptionNames(options, new Set(Object.keys(defaults)), name);
    this.given = Object.keys(given);
    this.settings = this.checked({ ...defaults, ...(defined(options) as Required<O>), ...given });
    this.begin();
  }

  override stateDict(): Record<string, unknown> {
    return { ...super.stateDict(), ...overlaid(this.settings, {}) };
  }

  override loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    checkState(saved, this.constructor.name);
    const settings = this.checked(overlaid(this.settings, saved));
    super.loadStateDict(saved);
    this.settings = settings;
  }

  private checked(settings: Required<O> & Given): Required<O> & Given {
    const { name } = this.constructor;
    checkNumbers(settings, name);
    for (const [key, value] of Object.entries(settings))
      if (Array.isArray(value) && !this.given.includes(key))
        throw new TypeError(`${name}: ${key} is a number, got a list`);
    this.check(settings);
    return settings;
  }
  /** @throws RangeError for settings that make no schedule. */
  protected check(_settings: Required<O> & Given): void {
    // Most take any number.
  }
}

/**
 * Times `gamma` (default 0.1) every `stepSize` steps.
 * @example
 * ```ts
 * const optimizer = new optim.SGD([tensor([1], { requiresGrad: true })], { lr: 1 });
 * const schedule = new optim.lrScheduler.StepLR(optimizer, 2, { gamma: 0.5 });
 * for (let epoch = 0; epoch < 4; epoch++) {
 *   optimizer.step();
 *   schedule.step();
 * }
 * console.log(optimizer.paramGroups[0]?.lr); // 0.25
 * ```
 */
export class StepLR extends BySettings<{ gamma?: number }, { stepSize: number }> {
  constructor(optimizer: Scheduled, stepSize: number, options: { gamma?: number } = {}) {
    super(optimizer, options, { gamma: 0.1 }, { stepSize });
  }
  protected override check({ stepSize }: { stepSize: number }): void {
    checkCount('StepLR: stepSize', stepSize);
  }
  protected rates(): number[] {
    const { stepSize, gamma } = this.settings;
    return this.lastEpoch === 0 || this.lastEpoch % stepSize !== 0 ? this.currentLrs() : this.scaled(gamma);
  }
}

/** Times `gamma` (default 0.1) at each of `milestones`; one that is named twice counts twice. */
export class MultiStepLR extends BySettings<{ gamma?: number }, { milestones: readonly number[] }> {
  constructor(optimizer: Scheduled, milestones: readonly number[], options: { gamma?: number } = {}) {
    super(optimizer, options, { gamma: 0.1 }, { milestones });
  }
  protected override check({ milestones }: { milestones: readonly number[] }): void {
    if (!Array.isArray(milestones))
      throw new TypeError(`MultiStepLR takes a list of milestones, got ${kindOf(milestones)}`);
  }
  protected rates(): number[] {
    const { milestones, gamma } = this.settings;
    const times = milestones.filter((at) => at === this.lastEpoch).length;
    return times === 0 ? this.currentLrs() : this.scaled(gamma ** times);
  }
}

/** Times `gamma` at every step. */
export class ExponentialLR extends BySettings<object, { gamma: number }> {
  constructor(optimizer: Scheduled, gamma: number) {
    super(optimizer, {}, {}, { gamma });
  }
  protected override check({ gamma }: { gamma: number }): void {
    if (typeof gamma !== 'number') throw new TypeError(`ExponentialLR: gamma is a number, got ${kindOf(gamma)}`);
  }
  protected rates(): number[] {
    return this.lastEpoch === 0 ? this.currentLrs() : this.scaled(this.settings.gamma);
  }
}

/** Times `factor` (default 1/3) for the first `totalIters` (default 5) steps. */
export class ConstantLR extends BySettings<{ factor?: number; totalIters?: number }> {
  constructor(optimizer: Scheduled, options: { factor?: number; totalIters?: number } = {}) {
    super(optimizer, options, { factor: 1 / 3, totalIters: 5 });
  }
  protected override check({ factor }: { factor: number }): void {
    if (!(factor >= 0 && factor <= 1))
      throw new RangeError('Constant multiplicative factor expected to be between 0 and 1.');
  }
  protected rates(): number[] {
    const { factor, totalIters } = this.settings;
    if (this.lastEpoch === 0) return this.scaled(factor);
    if (this.lastEpoch !== totalIters) return this.currentLrs();
    if (factor === 0) throw new RangeError(`ConstantLR: a factor of 0 cannot be taken back at step ${totalIters}`);
    return this.scaled(1 / factor);
  }
}

/** What `LinearLR` may be told. */
interface LinearOptions {
  startFactor?: number;
  endFactor?: number;
  totalIters?: number;
}

/** From `startFactor` (default 1/3) to `endFactor` (default 1) times the rate, over `totalIters` (default 5) steps: a warm-up. */
export class LinearLR extends BySettings<LinearOptions> {
  constructor(optimizer: Scheduled, options: LinearOptions = {}) {
    super(optimizer, options, { startFactor: 1 / 3, endFactor: 1, totalIters: 5 });
  }
  protected override check({ startFactor, endFactor }: Required<LinearOptions>): void {
    if (!(startFactor > 0 && startFactor <= 1))
      throw new RangeError('Starting multiplicative factor expected to be greater than 0 and less or equal to 1.');
    if (!(endFactor >= 0 && endFactor <= 1))
      throw new RangeError('Ending multiplicative factor expected to be between 0 and 1.');
  }
  protected rates(): number[] {
    const { startFactor, endFactor, totalIters } = this.settings;
    const { lastEpoch } = this;
    if (lastEpoch === 0) return this.scaled(startFactor);
    if (lastEpoch > totalIters) return this.currentLrs();
    const way = endFactor - startFactor;
    // Rounding must not lead below zero, which no optimiser takes for a rate.
    return this.scaled(Math.max(0, 1 + way / (totalIters * startFactor + (lastEpoch - 1) * way)));
  }
}

/** Down to zero over `totalIters` (default 5) steps, as (1 - step / totalIters)^power (default 1). */
export class PolynomialLR extends BySettings<{ totalIters?: number; power?: number }> {
  constructor(optimizer: Scheduled, options: { totalIters?: number; power?: number } = {}) {
    super(optimizer, options, { totalIters: 5, power: 1 });
  }
  protected rates(): number[] {
    const { totalIters, power } = this.settings;
    const { lastEpoch } = this;
    if (lastEpoch === 0 || lastEpoch > totalIters) return this.currentLrs();
    return this.scaled(((1 - lastEpoch / totalIters) / (1 - (lastEpoch - 1) / totalIters)) ** power);
  }
}

/** Along half a cosine from the rate of the start to `etaMin` (default 0) in `tMax` steps, and back (Loshchilov & Hutter 2017). */
export class CosineAnnealingLR extends BySettings<{ etaMin?: number }, { tMax: number }> {
  constructor(optimizer: Scheduled, tMax: number, options: { etaMin?: number } = {}) {
    super(optimizer, options, { etaMin: 0 }, { tMax });
  }
  protected override check({ tMax }: { tMax: number }): void {
    checkAbove0('CosineAnnealingLR: tMax', tMax);
  }
  protected rates(): number[] {
    const { tMax, etaMin } = this.settings;
    const { lastEpoch } = this;
    if (lastEpoch === 0) return this.currentLrs();
    if ((lastEpoch - 1 - tMax) % (2 * tMax) === 0) {
      return this.currentLrs().map((lr, i) => lr + (this.base(i) - etaMin) * ((1 - Math.cos(Math.PI / tMax)) / 2));
    }
    const [now, before] = [lastEpoch, lastEpoch - 1].map((t) => 1 + Math.cos((Math.PI * t) / tMax)) as [number, number];
    return this.currentLrs().map((lr) => (now / before) * (lr - etaMin) + etaMin);
  }
}

/** Half a cosine again and again: the first takes `t0` steps, each later one `tMult` (default 1) times as many. */
export class CosineAnnealingWarmRestarts extends BySettings<{ tMult?: number; etaMin?: number }, { t0: number }> {
  constructor(optimizer: Scheduled, t0: number, options: { tMult?: number; etaMin?: number } = {}) {
    super(optimizer, options, { tMult: 1, etaMin: 0 }, { t0 });
  }
  protected override check({ t0, tMult }: { t0: number; tMult: number }): void {
    checkCount('CosineAnnealingWarmRestarts: t0', t0);
    checkCount('CosineAnnealingWarmRestarts: tMult', tMult);
  }
  protected rates(): number[] {
    const { t0, tMult, etaMin } = this.settings;
    let [at, length] = [this.lastEpoch, t0];
    while (at >= length) {
      at -= length;
      length *= tMult;
    }
    const way = (1 + Math.cos((Math.PI * at) / length)) / 2;
    return this.baseLrs.map((base) => etaMin + (base - etaMin) * way);
  }
}

function checkCount(what: string, value: number): void {
  if (!Number.isInteger(value) || value < 1)
    throw new RangeError(`${what} is a whole number of at least 1, but got ${kindOf(value)}`);
}
