/** @file Which running statistics a normalisation takes: mean and variance, both or neither, of one dimension each. */
import { ShapeError, TensorError } from '../errors.ts';
import type { Tensor } from '../tensor.ts';

type Statistic = Tensor | null | undefined;

/** @param training whether the batch has statistics of its own, so that there may be no running ones */
export function checkStatistics(name: string, runningMean: Statistic, runningVar: Statistic, training: boolean): void {
  const missing = (t: Statistic): boolean => t === undefined || t === null;
  const one = missing(runningMean) ? 'runningMean' : 'runningVar';
  if (missing(runningMean) !== missing(runningVar))
    throw new TensorError(
      `${name}: runningMean and runningVar must either both be given or neither be; ${one} is missing`,
    );
  if (!training && missing(runningMean))
    throw new TensorError(`${name}: runningMean and runningVar must be defined in evaluation mode`);
  for (const [part, t] of Object.entries({ runningMean, runningVar }))
    if (t !== undefined && t !== null && t.rank !== 1)
      throw new ShapeError(`${name}: ${part} has one dimension, [C], but got [${t.shape.join(', ')}]`);
}
