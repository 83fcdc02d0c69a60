/** @file Learning-rate schedules that wait for a metric, or are made of others: on a plateau, one after or over others. */
import { checkGivenOptions, kindOf } from '../given.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { LRScheduler, MultiplicativeLR } from './lr-scheduler.ts';
import { checkEach, checkNumbers, checkOptimizer, checkState, defined, overlaid } from './options.ts';
import type { Scheduled } from './scheduled.ts';

/** What `ReduceLROnPlateau` takes for progress, and what it does without. */
export interface PlateauOptions {
  /** Whether a small or a large metric is good. @default 'min' */
  readonly mode?: 'min' | 'max';
  /** @default 0.1 */
  readonly factor?: number;
  /** How many steps without progress are borne. @default 10 */
  readonly patience?: number;
  /** What counts as progress. @default 0.0001 */
  readonly threshold?: number;
  /** Whether `threshold` is a part of the best metric or a distance. @default 'rel' */
  readonly thresholdMode?: 'rel' | 'abs';
  /** Steps after a reduction in which nothing counts. @default 0 */
  readonly cooldown?: number;
  /** The least rate, of all groups or one each. @default 0 */
  readonly minLr?: number | readonly number[];
  /** Smaller changes of a rate are not made. @default 1e-8 */
  readonly eps?: number;
}

const PLATEAU = optionNames<PlateauOptions>()('mode factor patience threshold thresholdMode cooldown minLr eps');

const PLATEAU_DEFAULTS: Required<PlateauOptions> = {
  mode: 'min',
  factor: 0.1,
  patience: 10,
  threshold: 1e-4,
  thresholdMode: 'rel',
  cooldown: 0,
  minLr: 0,
  eps: 1e-8,
};

/** Times `factor` when a metric has stopped getting better. `step(metric)` is given the metric. */
export class ReduceLROnPlateau {
  best: number;
  numBadEpochs = 0;
  lastEpoch = 0;
  private cooldownCounter = 0;
  private readonly optimizer: Scheduled;
  private options: Required<PlateauOptions>;
  private lastLr: readonly number[];

  constructor(optimizer: Scheduled, options: PlateauOptions = {}) {
    checkOptimizer(optimizer, 'ReduceLROnPlateau');
    checkGivenOptions('ReduceLROnPlateau', options);
    checkOptionNames(options, PLATEAU, 'ReduceLROnPlateau');
    this.options = checkPlateau({ ...PLATEAU_DEFAULTS, ...defined(options) }, optimizer);
    this.optimizer = optimizer;
    this.best = worst(this.options);
    this.lastLr = this.currentLrs();
  }

  step(metric: number | { item(): number }): void {
    const { patience, cooldown } = this.options;
    if (typeof metric !== 'number' && typeof (metric as { item?: unknown } | null | undefined)?.item !== 'function')
      throw new TypeError(`step() of ReduceLROnPlateau takes the metric, a number or a scalar; got ${kindOf(metric)}`);
    const value = typeof metric === 'number' ? metric : metric.item();
    this.lastEpoch++;
    if (this.isBetter(value)) {
      this.best = value;
      this.numBadEpochs = 0;
    } else this.numBadEpochs++;
    if (this.cooldownCounter > 0) {
      this.cooldownCounter--;
      this.numBadEpochs = 0;
    }
    if (this.numBadEpochs > patience) {
      this.reduce();
      this.cooldownCounter = cooldown;
      this.numBadEpochs = 0;
    }
    this.lastLr = this.currentLrs();
  }

  /** The rates after the last step, one a group. */
  getLastLr(): readonly number[] {
    return this.lastLr;
  }

  /** What `loadStateDict` goes on from: the metric that was best, the counts, the rates and the options. */
  stateDict(): Record<string, unknown> {
    return { ...this.counts(), lastLr: [...this.lastLr], ...overlaid(this.options, {}) };
  }

  /**
   * Goes on from `saved`. The rates themselves are in the state of a local optimiser, which is loaded by itself, as in PyTorch; a
   * `DistributedOptimizer` has no such state, and is given them here.
   */
  loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    checkState(saved, 'ReduceLROnPlateau');
    const options = checkPlateau(overlaid(this.options, saved), this.optimizer);
    const counts: Record<string, unknown> = this.counts();
    for (const name of Object.keys(counts)) {
      // JSON writes null for what is infinite, as the best is before there is any.
      const value = name === 'best' && saved[name] === null ? worst(options) : saved[name];
      if (typeof value !== 'number') throw new RangeError(`loaded state of ReduceLROnPlateau has no ${name}`);
      counts[name] = value;
    }
    // States of earlier versions are without.
    const { lastLr = this.currentLrs() } = saved;
    if (!Array.isArray(lastLr) || !lastLr.every((rate) => Number.isFinite(rate)))
      throw new RangeError('loaded state of ReduceLROnPlateau has no lastLr');
    Object.assign(this, counts, { options, lastLr: [...(lastLr as number[])] });
    if ('stateDict' in this.optimizer) return;
    for (const [i, group] of this.optimizer.paramGroups.entries()) group.lr = this.lastLr[i] ?? group.lr;
  }

  private counts(): Record<'best' | 'numBadEpochs' | 'lastEpoch' | 'cooldownCounter', number> {
    const { best, numBadEpochs, lastEpoch, cooldownCounter } = this;
    return { best, numBadEpochs, lastEpoch, cooldownCounter };
  }

  private currentLrs(): number[] {
    return this.optimizer.paramGroups.map(({ lr }) => lr);
  }

  private isBetter(value: number): boolean {
    const { mode, threshold, thresholdMode } = this.options;
    const sign = mode === 'min' ? -1 : 1;
    const bound = thresholdMode === 'rel' ? this.best * (1 + sign * threshold) : this.best + sign * threshold;
    return mode === 'min' ? value < bound : value > bound;
  }

  private reduce(): void {
    const { factor, minLr, eps } = this.options;
    checkEach('ReduceLROnPlateau: minLr', minLr, this.optimizer.paramGroups);
    for (const [i, group] of this.optimizer.paramGroups.entries()) {
      const least = typeof minLr === 'number' ? minLr : (minLr[i] as number);
      const next = Math.max(group.lr * factor, least);
      if (group.lr - next > eps) group.lr = next;
    }
  }
}

/** What every metric is better than. */
const worst = ({ mode }: Required<PlateauOptions>): number => (mode === 'min' ? Infinity : -Infinity);

/** @throws RangeError or TypeError for options that make no plateau. */
function checkPlateau(options: Required<PlateauOptions>, { paramGroups }: Scheduled): Required<PlateauOptions> {
  const { mode, thresholdMode, ...numbers } = options;
  if (mode !== 'min' && mode !== 'max') throw new RangeError(`mode ${named(mode)} is unknown!`);
  if (thresholdMode !== 'rel' && thresholdMode !== 'abs')
    throw new RangeError(`threshold mode ${named(thresholdMode)} is unknown!`);
  checkNumbers(numbers, 'ReduceLROnPlateau');
  for (const [name, value] of Object.entries(numbers))
    if (Array.isArray(value) && name !== 'minLr')
      throw new TypeError(`ReduceLROnPlateau: ${name} is a number, got a list`);
  checkEach('ReduceLROnPlateau: minLr', numbers.minLr, paramGroups);
  if (numbers.factor >= 1) throw new RangeError('Factor should be < 1.0.');
  return options;
}

function checkSchedulers(schedulers: unknown, what: string): void {
  if (!Array.isArray(schedulers)) throw new TypeError(`${what} takes a list of schedulers, got ${kindOf(schedulers)}`);
  // Not `find`, which gives nothing for a hole either.
  for (const one of Array.from(schedulers as unknown[]))
    if (typeof (one as Partial<LRScheduler> | null | undefined)?.step !== 'function')
      throw new TypeError(`${what} takes schedulers, got ${kindOf(one)}`);
}

/** A word as it is, in PyTorch's messages. */
function named(given: unknown): string {
  return typeof given === 'string' ? given : kindOf(given);
}

/**
 * One scheduler after the other: each from its milestone on, as if it began there; a MultiplicativeLR from the rate that it finds. One of
 * them may be a sequence itself.
 */
export class SequentialLR extends LRScheduler {
  private readonly schedulers: readonly LRScheduler[];
  private milestones: readonly number[];

  constructor(optimizer: Scheduled, schedulers: readonly LRScheduler[], milestones: readonly number[]) {
    super(optimizer);
    checkSchedulers(schedulers, 'SequentialLR');
    if (!Array.isArray(milestones))
      throw new TypeError(`SequentialLR takes a list of milestones, got ${kindOf(milestones)}`);
    checkNumbers({ milestone: milestones }, 'SequentialLR');
    if (schedulers.length < 1 || milestones.length !== schedulers.length - 1) {
      throw new RangeError(
        `Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, but got ${schedulers.length} schedulers and ${milestones.length} milestones`,
      );
    }
    this.schedulers = schedulers;
    this.milestones = milestones;
    // Each has set rates when it was made: those of the first count.
    this.startAgain();
  }

  /** Goes back to where it began. */
  startAgain(): void {
    const first = this.schedulers[this.placeAt(0)] as LRScheduler;
    this.setRates((i) => this.note(i, 'initialLr'));
    // A product has no factor yet where nothing came before it.
    if (first instanceof MultiplicativeLR) first.lastEpoch = 0;
    else restart(first);
    this.lastEpoch = 0;
    this.set(this.currentLrs());
  }

  override step(): void {
    const next = this.lastEpoch + 1;
    const at = this.placeAt(next);
    const scheduler = this.schedulers[at] as LRScheduler;
    if (at > 0 && this.milestones[at - 1] === next) {
      // A product goes on from the rate that there is, as in PyTorch.
      if (!(scheduler instanceof MultiplicativeLR))
        this.setRates((i) => scheduler.baseLrs[i] ?? this.note(i, 'initialLr'));
      restart(scheduler);
    } else scheduler.step();
    this.lastEpoch = next;
    this.set(this.currentLrs());
  }

  override stateDict(): Record<string, unknown> {
    const schedulers = this.schedulers.map((one) => one.stateDict());
    return { ...super.stateDict(), milestones: [...this.milestones], schedulers };
  }

  override loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    checkState(saved, 'SequentialLR');
    // States of earlier versions are without.
    const { milestones = this.milestones } = saved;
    if (!Array.isArray(milestones) || milestones.length !== this.milestones.length)
      throw new RangeError(`loaded state of SequentialLR has no ${this.milestones.length} milestones`);
    checkNumbers({ milestone: milestones }, 'loaded state of SequentialLR');
    allOrNothing(this.schedulers, () => {
      loadAll(this.schedulers, saved);
      super.loadStateDict(saved);
    });
    this.milestones = [...(milestones as number[])];
  }

  protected rates(): number[] {
    return this.currentLrs();
  }

  /** Which of the schedulers step `step` belongs to. */
  private placeAt(step: number): number {
    return this.milestones.filter((milestone) => milestone <= step).length;
  }

  /** All groups have their rates, or none has another. */
  private setRates(rateOf: (group: number) => number): void {
    const groups = this.optimizer.paramGroups;
    const rates = groups.map((_, i) => rateOf(i));
    for (const [i, lr] of rates.entries()) groups[i]!.lr = lr;
  }
}

function restart(scheduler: LRScheduler): void {
  if (scheduler instanceof SequentialLR) {
    scheduler.startAgain();
    return;
  }
  scheduler.lastEpoch = -1;
  scheduler.step();
}

/** Runs `load`; when it throws, the schedulers are where they were before. */
function allOrNothing(schedulers: readonly LRScheduler[], load: () => void): void {
  const before = schedulers.map((one) => one.stateDict());
  try {
    load();
  } catch (error) {
    for (const [i, one] of schedulers.entries()) one.loadStateDict(before[i]!);
    throw error;
  }
}

function loadAll(schedulers: readonly LRScheduler[], saved: Readonly<Record<string, unknown>>): void {
  checkState(saved, 'several schedulers');
  const states = saved['schedulers'];
  if (!Array.isArray(states) || states.length !== schedulers.length)
    throw new RangeError(`loaded state has another number of schedulers than ${schedulers.length}`);
  for (const [i, one] of schedulers.entries()) one.loadStateDict(states[i] as Record<string, unknown>);
}

/** Several schedulers at once: each step is a step of all, whose factors multiply. */
export class ChainedScheduler {
  private readonly schedulers: readonly LRScheduler[];

  constructor(schedulers: readonly LRScheduler[]) {
    checkSchedulers(schedulers, 'ChainedScheduler');
    if (schedulers.length < 1) throw new RangeError('ChainedScheduler expects at least one scheduler to be chained');
    this.schedulers = schedulers;
  }

  step(): void {
    for (const one of this.schedulers) one.step();
  }

  getLastLr(): readonly number[] {
    return (this.schedulers.at(-1) as LRScheduler).getLastLr();
  }

  stateDict(): Record<string, unknown> {
    return { schedulers: this.schedulers.map((one) => one.stateDict()) };
  }

  loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    allOrNothing(this.schedulers, () => loadAll(this.schedulers, saved));
  }
}
