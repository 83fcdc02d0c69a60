/** @file In which order samples are taken, and how they are grouped: each iteration is one epoch. */
import { checkIterable, kindOf } from '../given.ts';
import { checkArguments } from '../arguments.ts';
import { checkOptionNames } from '../option-names.ts';
import { drawSeed, Generator } from '../random.ts';

/** Numbers of samples. */
export interface Sampler<I = number> extends Iterable<I> {
  /** How many an epoch has. */
  readonly length: number;
}

interface Sized {
  readonly length: number;
}

/** In order. */
export class SequentialSampler implements Sampler {
  private readonly source: Sized;
  constructor(source: Sized) {
    checkArguments('data.SequentialSampler', [source]);
    this.source = source;
  }
  get length(): number {
    return this.source.length;
  }
  *[Symbol.iterator](): Iterator<number> {
    for (let i = 0; i < this.source.length; i++) yield i;
  }
}

/** A stream of its own that goes on from epoch to epoch, or one for each epoch from the process's. */
export class Draws {
  private readonly own: Generator | undefined;
  constructor(seed: number | undefined) {
    this.own = seed === undefined ? undefined : new Generator(seed);
  }
  epoch(): Generator {
    return this.own ?? new Generator(drawSeed());
  }
}

/** How a `RandomSampler` draws. */
export interface RandomSamplerOptions {
  /** Whether samples may come again before all have come. @default false */
  replacement?: boolean;
  /** How many an epoch has. @default all */
  numSamples?: number;
  /** Where the order begins; by default it follows from `manualSeed`. */
  seed?: number;
}
const RANDOM: ReadonlySet<string> = new Set(['replacement', 'numSamples', 'seed']);

/** In random order, another one each epoch. */
export class RandomSampler implements Sampler {
  private readonly source: Sized;
  private readonly options: RandomSamplerOptions;
  private readonly draws: Draws;

  constructor(source: Sized, options: RandomSamplerOptions = {}) {
    checkOptionNames(options, RANDOM, 'RandomSampler');
    checkArguments('data.RandomSampler', [source, options]);
    checkCount('RandomSampler', 'numSamples', options.numSamples ?? 1);
    this.source = source;
    this.options = { ...options };
    this.draws = new Draws(options.seed);
  }

  get length(): number {
    return this.options.numSamples ?? this.source.length;
  }

  *[Symbol.iterator](): Iterator<number> {
    const random = this.draws.epoch();
    const { length: n } = this.source;
    const { length } = this;
    if (n === 0) return;
    if (this.options.replacement === true) {
      for (let i = 0; i < length; i++) yield random.below(n);
      return;
    }
    for (let given = 0; given < length; given += n) yield* random.permutation(n).subarray(0, length - given);
  }
}

/** Some samples, in random order. */
export class SubsetRandomSampler implements Sampler {
  private readonly indices: readonly number[];
  private readonly draws: Draws;
  constructor(indices: Iterable<number>, options: { seed?: number } = {}) {
    checkOptionNames(options, new Set(['seed']), 'SubsetRandomSampler');
    checkIterable(indices, 'data.SubsetRandomSampler: indices');
    checkArguments('data.SubsetRandomSampler', [indices, options]);
    this.indices = [...indices];
    this.draws = new Draws(options.seed);
  }
  get length(): number {
    return this.indices.length;
  }
  *[Symbol.iterator](): Iterator<number> {
    for (const i of this.draws.epoch().permutation(this.length)) yield this.indices[i] as number;
  }
}

/** How a `WeightedRandomSampler` draws. */
export interface WeightedRandomSamplerOptions {
  /** Whether samples may come again. @default true */
  replacement?: boolean;
  seed?: number;
}
const WEIGHTED: ReadonlySet<string> = new Set(['replacement', 'seed']);

/** Samples as often as their weights say, which need not add up to 1. */
export class WeightedRandomSampler implements Sampler {
  readonly length: number;
  private readonly weights: readonly number[];
  private readonly replacement: boolean;
  private readonly draws: Draws;

  /** @throws RangeError for weights that are negative or not finite, or whose sum is not, and where there are fewer above 0 than are drawn without replacement. */
  constructor(weights: Iterable<number>, numSamples: number, options: WeightedRandomSamplerOptions = {}) {
    checkOptionNames(options, WEIGHTED, 'WeightedRandomSampler');
    checkIterable(weights, 'data.WeightedRandomSampler: weights');
    checkArguments('data.WeightedRandomSampler', [weights, numSamples, options]);
    checkCount('WeightedRandomSampler', 'numSamples', numSamples);
    this.weights = [...weights];
    this.replacement = options.replacement ?? true;
    const wrong = this.weights.find((one: unknown) => !(typeof one === 'number' && one >= 0 && one < Infinity));
    if (wrong !== undefined)
      throw new RangeError(`WeightedRandomSampler: weights are finite and not negative, got ${kindOf(wrong)}`);
    if (this.weights.reduce((sum, one) => sum + one, 0) === Infinity)
      throw new RangeError(
        'WeightedRandomSampler: the sum of the weights is beyond the largest number: scale them down',
      );
    const possible = this.weights.filter((one) => one > 0).length;
    if (possible < (this.replacement ? 1 : numSamples))
      throw new RangeError(
        `WeightedRandomSampler: ${numSamples} samples cannot be drawn ${this.replacement ? '' : 'without replacement '}of ${possible} with a weight above 0`,
      );
    this.length = numSamples;
    this.draws = new Draws(options.seed);
  }

  *[Symbol.iterator](): Iterator<number> {
    const random = this.draws.epoch();
    if (this.replacement) {
      const sums = Float64Array.from(runningSums(this.weights));
      const total = sums.at(-1) ?? 0;
      // 24 bits alone would never come to most of many samples, nor to one whose weight is small beside the others.
      const width = total * 2 ** -24;
      for (let i = 0; i < this.length; i++) {
        const at = random.uniform() * total;
        const found = firstAbove(sums, at);
        const sure = (sums[found] as number) >= at + width;
        yield sure ? found : firstAbove(sums, at + random.uniformDouble() * width);
      }
      return;
    }
    // Efraimidis and Spirakis (2006): the largest of u^(1/w) come first.
    const keys = this.weights.map(
      (weight, i) => [weight === 0 ? -Infinity : Math.log1p(-random.uniform()) / weight, i] as const,
    );
    keys.sort(([a], [b]) => b - a);
    for (const [, i] of keys.slice(0, this.length)) yield i;
  }
}

function* runningSums(weights: readonly number[]): globalThis.Generator<number> {
  let sum = 0;
  for (const weight of weights) yield (sum += weight);
}

/** The first place whose sum is above `at`: never one without weight. */
function firstAbove(sums: Float64Array, at: number): number {
  let [low, high] = [0, sums.length - 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sums[middle] as number) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Groups of `batchSize` numbers; the last may be smaller, or is left out. */
export class BatchSampler implements Sampler<number[]> {
  private readonly sampler: Sampler;
  private readonly batchSize: number;
  private readonly dropLast: boolean;

  constructor(sampler: Sampler, batchSize: number, dropLast = false) {
    checkIterable(sampler, 'data.BatchSampler: sampler');
    checkArguments('data.BatchSampler', [sampler, batchSize, dropLast]);
    checkCount('BatchSampler', 'batchSize', batchSize);
    this.sampler = sampler;
    this.batchSize = batchSize;
    this.dropLast = dropLast;
  }

  get length(): number {
    const batches = this.sampler.length / this.batchSize;
    return this.dropLast ? Math.floor(batches) : Math.ceil(batches);
  }

  *[Symbol.iterator](): Iterator<number[]> {
    let batch: number[] = [];
    for (const one of this.sampler) {
      batch.push(one);
      if (batch.length < this.batchSize) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0 && !this.dropLast) yield batch;
  }
}

/** Which share of the samples a `DistributedSampler` gives, and in what order. */
export interface DistributedSamplerOptions {
  /** How many workers share the samples, and which of them this is; or the group that says both. */
  numReplicas?: number;
  rank?: number;
  group?: { readonly rank: number; readonly size: number };
  /** @default true */
  shuffle?: boolean;
  /** The same on every worker. @default 0 */
  seed?: number;
  /** Whether samples that cannot be shared out evenly are left out; otherwise some come twice. @default false */
  dropLast?: boolean;
}
const DISTRIBUTED: ReadonlySet<string> = new Set(['numReplicas', 'rank', 'group', 'shuffle', 'seed', 'dropLast']);

/** One worker's share of the samples: as many on each, apart from each other. Call `setEpoch` before each epoch for another order. */
export class DistributedSampler implements Sampler {
  readonly numReplicas: number;
  readonly rank: number;
  private readonly source: Sized;
  private readonly options: DistributedSamplerOptions;
  private epoch = 0;

  constructor(source: Sized, options: DistributedSamplerOptions) {
    checkOptionNames(options, DISTRIBUTED, 'DistributedSampler');
    checkArguments('data.DistributedSampler', [source, options]);
    const numReplicas = options.numReplicas ?? options.group?.size;
    const rank = options.rank ?? options.group?.rank;
    if (numReplicas === undefined || rank === undefined)
      throw new TypeError('DistributedSampler: numReplicas and rank are needed, or a group');
    checkCount('DistributedSampler', 'numReplicas', numReplicas);
    if (!Number.isInteger(rank) || rank < 0 || rank >= numReplicas)
      throw new RangeError(
        `DistributedSampler: Invalid rank ${rank}, rank should be in the interval [0, ${numReplicas - 1}]`,
      );
    this.source = source;
    this.numReplicas = numReplicas;
    this.rank = rank;
    this.options = { ...options };
  }

  get length(): number {
    const { length } = this.source;
    return this.options.dropLast === true
      ? Math.floor(length / this.numReplicas)
      : Math.ceil(length / this.numReplicas);
  }

  /** Which epoch is next: every worker has to say the same. */
  setEpoch(epoch: number): void {
    if (!Number.isInteger(epoch) || epoch < 0)
      throw new RangeError(`DistributedSampler: an epoch is a whole number, got ${epoch}`);
    this.epoch = epoch;
  }

  *[Symbol.iterator](): Iterator<number> {
    const { length: n } = this.source;
    const { shuffle = true, seed = 0 } = this.options;
    const order = shuffle ? new Generator(seed + this.epoch).permutation(n) : undefined;
    // What is missing for an even share is taken from the beginning again.
    for (let i = 0, at = this.rank; i < this.length; i++, at += this.numReplicas)
      yield order === undefined ? at % n : (order[at % n] as number);
  }
}

function checkCount(what: string, name: string, count: number): void {
  if (!Number.isInteger(count) || count < 1)
    throw new RangeError(`${what}: ${name} should be a positive whole number, got ${count}`);
}
