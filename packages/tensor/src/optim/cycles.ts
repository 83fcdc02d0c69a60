/** @file Learning-rate schedules that go up and down, and momenta the other way: one cycle, and one after another. */
import { kindOf } from '../given.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { LRScheduler } from './lr-scheduler.ts';
import { checkAbove0, checkEach, checkGiven, checkNumbers, checkState, overlaid } from './options.ts';
import type { Scheduled, ScheduledGroup } from './scheduled.ts';

/** Of `nn`'s super-convergence: up to a largest rate and far down, within a known number of steps (Smith & Topin 2017). */
export interface OneCycleOptions {
  /** The largest rate, of all groups or one each. */
  readonly maxLr: number | readonly number[];
  /** All steps; or `epochs` times `stepsPerEpoch`. */
  readonly totalSteps?: number;
  readonly epochs?: number;
  readonly stepsPerEpoch?: number;
  /** The part of the steps that go up. @default 0.3 */
  readonly pctStart?: number;
  /** @default 'cos' */
  readonly annealStrategy?: 'cos' | 'linear';
  /** Momentum goes the other way, in `momentum` or the first of `betas`. @default true */
  readonly cycleMomentum?: boolean;
  /** @default 0.85 */
  readonly baseMomentum?: number;
  /** @default 0.95 */
  readonly maxMomentum?: number;
  /** The first rate is maxLr / divFactor. @default 25 */
  readonly divFactor?: number;
  /** The last rate is the first / finalDivFactor. @default 10000 */
  readonly finalDivFactor?: number;
  /** Goes down in two phases instead of one. @default false */
  readonly threePhase?: boolean;
}

const ONE_CYCLE = optionNames<OneCycleOptions>()(
  'maxLr totalSteps epochs stepsPerEpoch pctStart annealStrategy cycleMomentum baseMomentum maxMomentum',
  'divFactor finalDivFactor threePhase',
);

/** What is noted in the groups. */
type Named = 'initialLr' | 'maxLr' | 'minLr' | 'maxMomentum' | 'baseMomentum';

interface Phase {
  readonly end: number;
  readonly rate: readonly [Named, Named];
  readonly momentum: readonly [Named, Named];
}

/** What follows from the options, but for what is noted in the groups. */
type OneCyclePlan = Required<
  Pick<OneCycleOptions, 'totalSteps' | 'pctStart' | 'annealStrategy' | 'threePhase' | 'cycleMomentum'>
>;

/** Raises the learning rate to a maximum and lowers it far below where it began, within a given number of steps. */
export class OneCycleLR extends LRScheduler {
  private plan: OneCyclePlan;

  constructor(optimizer: Scheduled, options: OneCycleOptions) {
    super(optimizer);
    checkGiven(options, 'OneCycleLR');
    checkOptionNames(options, ONE_CYCLE, 'OneCycleLR');
    const { maxLr, pctStart = 0.3, divFactor = 25, finalDivFactor = 1e4, cycleMomentum = true } = options;
    const { annealStrategy = 'cos', threePhase = false, baseMomentum = 0.85, maxMomentum = 0.95 } = options;
    checkNumbers({ maxLr, divFactor, finalDivFactor, baseMomentum, maxMomentum }, 'OneCycleLR');
    checkEach('OneCycleLR: maxLr', maxLr, optimizer.paramGroups);
    checkAbove0('OneCycleLR: divFactor', divFactor);
    checkAbove0('OneCycleLR: finalDivFactor', finalDivFactor);
    const totalSteps = options.totalSteps ?? (options.epochs ?? NaN) * (options.stepsPerEpoch ?? NaN);
    this.plan = checkPlan({ totalSteps, pctStart, annealStrategy, threePhase, cycleMomentum });
    for (const [i, group] of optimizer.paramGroups.entries()) {
      const largest = typeof maxLr === 'number' ? maxLr : (maxLr[i] as number);
      group['initialLr'] = largest / divFactor;
      group['maxLr'] = largest;
      group['minLr'] = (group['initialLr'] as number) / finalDivFactor;
      if (cycleMomentum) noteMomenta(group, baseMomentum, maxMomentum);
    }
    this.begin();
  }

  get totalSteps(): number {
    return this.plan.totalSteps;
  }

  /**
   * The limits of rates and momenta are with the groups, in the state of the optimiser; over a `DistributedOptimizer`, which has none, they
   * stay those that the schedule was made with.
   */
  override stateDict(): Record<string, unknown> {
    return { ...super.stateDict(), ...this.plan };
  }

  override loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    checkState(saved, 'OneCycleLR');
    const plan = checkPlan(overlaid(this.plan, saved));
    super.loadStateDict(saved);
    this.plan = plan;
  }

  protected rates(): number[] {
    const at = this.lastEpoch;
    const { totalSteps, pctStart, annealStrategy, cycleMomentum } = this.plan;
    if (at > totalSteps)
      throw new RangeError(`Tried to step ${at} times. The specified number of total steps is ${totalSteps}`);
    const phases = phasesOf(this.plan);
    let start = 0;
    let phase = phases.at(-1) as Phase;
    for (const one of phases) {
      phase = one;
      if (at <= one.end) break;
      if (one !== phases.at(-1)) start = one.end;
    }
    if (phase.end === start)
      throw new RangeError(
        `OneCycleLR: with pctStart ${pctStart} of ${totalSteps} steps a phase has no length; take another`,
      );
    const part = (at - start) / (phase.end - start);
    const groups = this.optimizer.paramGroups;
    const between = ([from, to]: readonly [Named, Named]): number[] =>
      groups.map((_, i) => anneal(annealStrategy === 'linear', this.note(i, from), this.note(i, to), part));
    const rates = between(phase.rate);
    if (cycleMomentum) for (const [i, value] of between(phase.momentum).entries()) setMomentum(groups[i]!, value);
    return rates;
  }
}

/** @throws RangeError or TypeError for a plan that makes no cycle. */
function checkPlan(plan: OneCyclePlan): OneCyclePlan {
  const { totalSteps, pctStart, annealStrategy } = plan;
  checkNumbers({ pctStart }, 'OneCycleLR');
  if (annealStrategy !== 'cos' && annealStrategy !== 'linear')
    throw new RangeError(`OneCycleLR: annealStrategy is 'cos' or 'linear', got ${kindOf(annealStrategy)}`);
  if (!Number.isInteger(totalSteps) || totalSteps < 1)
    throw new RangeError('You must define either totalSteps OR (epochs AND stepsPerEpoch), whole and positive');
  if (!(pctStart >= 0 && pctStart <= 1))
    throw new RangeError(`Expected float between 0 and 1 pctStart, but got ${pctStart}`);
  return plan;
}

function phasesOf({ totalSteps: total, pctStart, threePhase }: OneCyclePlan): Phase[] {
  const up: Phase = {
    end: pctStart * total - 1,
    rate: ['initialLr', 'maxLr'],
    momentum: ['maxMomentum', 'baseMomentum'],
  };
  if (!threePhase) return [up, { end: total - 1, rate: ['maxLr', 'minLr'], momentum: ['baseMomentum', 'maxMomentum'] }];
  return [
    up,
    { end: 2 * pctStart * total - 2, rate: ['maxLr', 'initialLr'], momentum: ['baseMomentum', 'maxMomentum'] },
    { end: total - 1, rate: ['initialLr', 'minLr'], momentum: ['maxMomentum', 'maxMomentum'] },
  ];
}

function anneal(linear: boolean, from: number, to: number, part: number): number {
  if (linear) return (to - from) * part + from;
  return to + ((from - to) / 2) * (Math.cos(Math.PI * part) + 1);
}

/** Between two rates, again and again (Smith 2017). */
export interface CyclicOptions {
  /** The least rate, and the one to begin with; of all groups or one each. */
  readonly baseLr: number | readonly number[];
  /** The largest rate, where nothing scales it down; of all groups or one each. */
  readonly maxLr: number | readonly number[];
  /** How many steps go up. @default 2000 */
  readonly stepSizeUp?: number;
  /** How many steps go down. @default stepSizeUp */
  readonly stepSizeDown?: number;
  /** Cycles of one height, each half as high as the one before, or lower by `gamma` each step. @default 'triangular' */
  readonly mode?: 'triangular' | 'triangular2' | 'exp_range';
  /** Of mode 'exp_range'. @default 1 */
  readonly gamma?: number;
  /** What heights are multiplied by, instead of `mode`. */
  readonly scaleFn?: (x: number) => number;
  /** Whether `scaleFn` is given the number of the cycle, from 1 on, or the count of steps. @default 'cycle' */
  readonly scaleMode?: 'cycle' | 'iterations';
  /** Momentum goes the other way, in `momentum` or the first of `betas`. @default true */
  readonly cycleMomentum?: boolean;
  /** Of all groups or one each. @default 0.8 */
  readonly baseMomentum?: number | readonly number[];
  /** Of all groups or one each. @default 0.9 */
  readonly maxMomentum?: number | readonly number[];
}

const CYCLIC = optionNames<CyclicOptions>()(
  'baseLr maxLr stepSizeUp stepSizeDown mode gamma scaleFn scaleMode cycleMomentum baseMomentum maxMomentum',
);
const MODES: readonly unknown[] = ['triangular', 'triangular2', 'exp_range'];

/** How the cycles go, for all groups. */
type Course = Required<
  Pick<CyclicOptions, 'stepSizeUp' | 'stepSizeDown' | 'mode' | 'gamma' | 'scaleMode' | 'cycleMomentum'>
>;

/** Of each group. */
type Limits = Record<'maxLr' | 'baseMomentum' | 'maxMomentum', readonly number[]>;

/** Raises the learning rate from a least to a largest and lowers it again, in cycles without an end. */
export class CyclicLR extends LRScheduler {
  private course: Course;
  private readonly scaleFn: CyclicOptions['scaleFn'];
  /** Between what the groups go; another schedule of the optimiser may have noted something else in them. */
  private limits: Limits;

  constructor(optimizer: Scheduled, options: CyclicOptions) {
    super(optimizer);
    checkGiven(options, 'CyclicLR');
    checkOptionNames(options, CYCLIC, 'CyclicLR');
    const { baseLr, maxLr, stepSizeUp = 2000, stepSizeDown = stepSizeUp, cycleMomentum = true } = options;
    const { mode = 'triangular', gamma = 1, scaleFn, scaleMode = 'cycle' } = options;
    const { baseMomentum = 0.8, maxMomentum = 0.9 } = options;
    checkNumbers({ baseLr, maxLr, baseMomentum, maxMomentum }, 'CyclicLR');
    for (const [name, value] of Object.entries({ baseLr, maxLr, baseMomentum, maxMomentum }))
      checkEach(`CyclicLR: ${name}`, value, optimizer.paramGroups);
    if (scaleFn !== undefined && typeof scaleFn !== 'function')
      throw new TypeError(`CyclicLR: scaleFn is a function, got ${kindOf(scaleFn)}`);
    this.scaleFn = scaleFn;
    this.course = this.checked({ stepSizeUp, stepSizeDown, mode, gamma, scaleMode, cycleMomentum });
    const each = (values: number | readonly number[]): number[] => optimizer.paramGroups.map((_, i) => at(values, i));
    this.limits = { maxLr: each(maxLr), baseMomentum: each(baseMomentum), maxMomentum: each(maxMomentum) };
    if (cycleMomentum)
      for (const [i, group] of optimizer.paramGroups.entries())
        noteMomenta(group, at(baseMomentum, i), at(maxMomentum, i));
    this.startFrom(optimizer.paramGroups.map((_, i) => at(baseLr, i)));
    this.begin();
  }

  override stateDict(): Record<string, unknown> {
    const { maxLr, baseMomentum, maxMomentum } = this.limits;
    const limits = { maxLr: [...maxLr], baseMomentum: [...baseMomentum], maxMomentum: [...maxMomentum] };
    return { ...super.stateDict(), ...this.course, ...limits };
  }

  override loadStateDict(saved: Readonly<Record<string, unknown>>): void {
    checkState(saved, 'CyclicLR');
    const course = this.checked(overlaid(this.course, saved));
    if (course.cycleMomentum) for (const group of this.optimizer.paramGroups) checkMomentum(group);
    const limits = { ...this.limits };
    for (const name of Object.keys(limits) as (keyof Limits)[]) {
      const values = saved[name];
      // States of earlier versions are without.
      if (values === undefined) continue;
      if (!Array.isArray(values) || values.length !== limits[name].length)
        throw new RangeError(`loaded state does not fit CyclicLR: ${name} is not ${limits[name].length} numbers`);
      checkNumbers({ [name]: values }, 'loaded state of CyclicLR');
      limits[name] = [...(values as number[])];
    }
    super.loadStateDict(saved);
    this.limits = limits;
    this.course = course;
  }

  protected rates(): number[] {
    const { stepSizeUp, stepSizeDown, cycleMomentum } = this.course;
    const steps = this.lastEpoch;
    const total = stepSizeUp + stepSizeDown;
    // The part of a cycle that goes up.
    const up = stepSizeUp / total;
    const cycle = Math.floor(1 + steps / total);
    const part = 1 + steps / total - cycle;
    const height = part <= up ? part / up : (part - 1) / (up - 1);
    const scale = this.scale(cycle, steps);
    const groups = this.optimizer.paramGroups;
    const rates = groups.map((_, i) => this.base(i) + (this.limit(i, 'maxLr') - this.base(i)) * height * scale);
    if (!cycleMomentum) return rates;
    const momenta = groups.map((_, i) => {
      const most = this.limit(i, 'maxMomentum');
      return most - (most - this.limit(i, 'baseMomentum')) * height * scale;
    });
    for (const [i, momentum] of momenta.entries()) setMomentum(groups[i]!, momentum);
    return rates;
  }

  /** The factor of the heights, by the cycle and the count of steps. */
  private scale(cycle: number, steps: number): number {
    const { mode, gamma, scaleMode } = this.course;
    if (this.scaleFn !== undefined) return this.scaleFn(scaleMode === 'cycle' ? cycle : steps);
    if (mode === 'exp_range') return gamma ** steps;
    return mode === 'triangular' ? 1 : 1 / 2 ** (cycle - 1);
  }

  /** @throws RangeError or TypeError for what makes no cycles. */
  private checked(course: Course): Course {
    const { stepSizeUp, stepSizeDown, mode, gamma, scaleMode } = course;
    checkNumbers({ stepSizeUp, stepSizeDown, gamma }, 'CyclicLR');
    checkAbove0('CyclicLR: stepSizeUp', stepSizeUp);
    if (stepSizeDown < 0) throw new RangeError(`CyclicLR: stepSizeDown is not below 0, but got ${stepSizeDown}`);
    if (scaleMode !== 'cycle' && scaleMode !== 'iterations')
      throw new RangeError(`CyclicLR: scaleMode is 'cycle' or 'iterations', got ${kindOf(scaleMode)}`);
    if (this.scaleFn === undefined && !MODES.includes(mode))
      throw new RangeError(`CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', got ${kindOf(mode)}`);
    return course;
  }

  /** That of a group that was added later is what it was given. */
  private limit(i: number, name: keyof Limits): number {
    return this.limits[name][i] ?? this.note(i, name);
  }
}

/** The value of group `i`. */
const at = (values: number | readonly number[], i: number): number =>
  typeof values === 'number' ? values : (values[i] as number);

/** Notes between what the momentum of a group goes, which begins with the larger. */
function noteMomenta(group: ScheduledGroup, least: number, most: number): void {
  checkMomentum(group);
  group['maxMomentum'] = most;
  group['baseMomentum'] = least;
  setMomentum(group, most);
}

function checkMomentum(group: ScheduledGroup): void {
  if (momentumOf(group) === undefined)
    throw new RangeError('optimizer must support momentum or beta1 with cycleMomentum: true');
}

function momentumOf(group: ScheduledGroup): number | undefined {
  if (Array.isArray(group['betas'])) return group['betas'][0] as number;
  return typeof group['momentum'] === 'number' ? group['momentum'] : undefined;
}

function setMomentum(group: ScheduledGroup, value: number): void {
  if (Array.isArray(group['betas'])) group['betas'] = [value, ...(group['betas'] as number[]).slice(1)];
  else group['momentum'] = value;
}
