/** @file Data sets: samples by number, and what is made of others. */
import { checkIterable, checkSized, kindOf } from '../given.ts';
import { checkArguments } from '../arguments.ts';
import { ShapeError } from '../errors.ts';
import { Generator, drawSeed } from '../random.ts';
import type { Tensor } from '../tensor.ts';

/** Samples by their number. What loads them from elsewhere answers promises, or asks another worker. */
export interface Dataset<T> {
  /** How many samples there are. */
  readonly length: number;
  /** The sample `index`, from 0 to below `length`. */
  get(index: number): T | Promise<T>;
}

/** Rows of tensors of equal length: sample i has row i of each, as a view. */
export class TensorDataset implements Dataset<Tensor[]> {
  readonly tensors: readonly Tensor[];
  readonly length: number;

  /** @throws ShapeError where the tensors are not of one length. */
  constructor(...tensors: Tensor[]) {
    checkArguments('data.TensorDataset', tensors);
    const lengths = tensors.map(({ shape }) => shape[0]);
    const [length] = lengths;
    if (length === undefined || lengths.some((one) => one !== length))
      throw new ShapeError(
        `TensorDataset: size mismatch between tensors: their first dimensions are ${tensors.map(({ shape }) => String(shape[0] ?? 'none')).join(', ')}`,
      );
    this.tensors = tensors;
    this.length = length;
  }

  get(index: number): Tensor[] {
    return this.tensors.map((one) => one.select(0, index));
  }
}

/** The samples of another that `indices` name, in that order. */
export class Subset<T> implements Dataset<T> {
  readonly dataset: Dataset<T>;
  readonly indices: ArrayLike<number>;

  constructor(dataset: Dataset<T>, indices: ArrayLike<number>) {
    checkSized(dataset, 'data.Subset: dataset');
    checkSized(indices, 'data.Subset: indices');
    this.dataset = dataset;
    this.indices = indices;
  }

  get length(): number {
    return this.indices.length;
  }

  get(index: number): T | Promise<T> {
    return this.dataset.get(this.indices[within(index, this.length)] as number);
  }
}

/** One after the other. */
export class ConcatDataset<T> implements Dataset<T> {
  readonly datasets: readonly Dataset<T>[];

  constructor(datasets: readonly Dataset<T>[]) {
    checkArguments('data.ConcatDataset', [datasets]);
    checkIterable(datasets, 'data.ConcatDataset: datasets');
    for (const one of datasets) checkSized(one, 'data.ConcatDataset: a dataset');
    if (datasets.length === 0) throw new RangeError('ConcatDataset: there are no data sets to concatenate');
    this.datasets = datasets;
  }

  get length(): number {
    return this.datasets.reduce((sum, { length }) => sum + length, 0);
  }

  get(index: number): T | Promise<T> {
    let left = within(index, this.length);
    for (const dataset of this.datasets) {
      if (left < dataset.length) return dataset.get(left);
      left -= dataset.length;
    }
    throw new RangeError(`a data set became shorter while sample ${index} was looked for`);
  }
}

/** @throws RangeError for a number that no sample has. */
export function within(index: number, length: number): number {
  if (Number.isInteger(index) && index >= 0 && index < length) return index;
  throw new RangeError(`sample ${kindOf(index)} is out of range: there are ${length}`);
}

/**
 * Parts of a data set, chosen at random, of `lengths` samples; or of those shares of it, where they add up to 1: what is left by rounding
 * down goes to the parts in turn. @param options.seed where the choice begins; by default it follows from `manualSeed`.
 */
export function randomSplit<T>(
  dataset: Dataset<T>,
  lengths: readonly number[],
  options: { seed?: number } = {},
): Subset<T>[] {
  checkSized(dataset, 'data.randomSplit(): dataset');
  checkArguments('data.randomSplit', [dataset, lengths, options]);
  const whole = wholeLengths(dataset.length, lengths);
  const order = new Generator(options.seed ?? drawSeed()).permutation(dataset.length);
  let from = 0;
  return whole.map((length) => new Subset(dataset, order.subarray(from, (from += length))));
}

function wholeLengths(total: number, lengths: readonly number[]): number[] {
  const sum = lengths.reduce((a, b) => a + b, 0);
  const shares = Math.abs(sum - 1) < 1e-9 && lengths.every((one) => one >= 0 && one <= 1);
  if (!shares) {
    if (lengths.every((one) => Number.isInteger(one) && one >= 0) && sum === total) return [...lengths];
    throw new RangeError(
      `randomSplit: sum of input lengths [${lengths.join(', ')}] does not equal the length of the input dataset, ${total}`,
    );
  }
  const whole = lengths.map((share) => Math.floor(total * share));
  const left = total - whole.reduce((a, b) => a + b, 0);
  for (let i = 0; i < left; i++) whole[i % whole.length] = (whole[i % whole.length] as number) + 1;
  return whole;
}
