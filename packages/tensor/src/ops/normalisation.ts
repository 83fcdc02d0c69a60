/** @file Normalisations beside those of composite.ts: rmsNorm and instanceNorm. */
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { EPSILON } from '../precision.ts';
import { sweep } from '../scope.ts';
import { trailingDims } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { channelNorm } from './channel-norm.ts';
import { checkStatistics } from './statistics.ts';
import { defineFunction } from './define.ts';
import { each, FLOAT } from './takes.ts';
import { inFloat32 } from './widen.ts';

/** x over the root of its mean square along the trailing dimensions `shape`; `eps` is by default the epsilon of the dtype. */
export const rmsNorm = defineFunction(
  'rmsNorm',
  each(FLOAT),
  (t: Tensor, shape: readonly number[], weight?: Tensor | null, eps?: number): Tensor => {
    const dims = trailingDims('rmsNorm', t.shape, shape);
    if (weight !== undefined && weight !== null && weight.shape.join() !== shape.join())
      throw new ShapeError(`rmsNorm: expected a weight [${shape.join(', ')}], got [${weight.shape.join(', ')}]`);
    return inFloat32(t, (x) => {
      const scale = x
        .square()
        .mean(dims, true)
        .add(eps ?? EPSILON[x.dtype] ?? 0)
        .rsqrt();
      const out = x.mul(scale);
      return weight === undefined || weight === null ? out : out.mul(weight);
    });
  },
);

/** What `instanceNorm` takes beside its input [N, C, ...]. */
export interface InstanceNormOptions {
  /** What each channel is multiplied by afterwards, [C]. @default none */
  weight?: Tensor | null;
  /** What is added to each channel after that, [C]. @default none */
  bias?: Tensor | null;
  /** [C]; updated in place by the means over the batch. */
  runningMean?: Tensor | null;
  /** [C]; updated in place by the variances over the batch. */
  runningVar?: Tensor | null;
  /** Whether each image is normalised by itself, not by running statistics. @default true */
  useInputStats?: boolean;
  /** The share that this batch has in the running statistics, 0 to 1. @default 0.1 */
  momentum?: number;
  /** Added to variances, so that none is zero. @default 1e-5 */
  eps?: number;
}

const OPTIONS = optionNames<InstanceNormOptions>()('weight bias runningMean runningVar useInputStats momentum eps');

/** Normalises each channel of each of [N, C, ...] over what follows: a batch norm of N C channels. */
export const instanceNorm = named('aten::instance_norm', (t: Tensor, options: InstanceNormOptions = {}): Tensor => {
  checkOptionNames(options, OPTIONS, 'instanceNorm()');
  const { useInputStats = true, momentum = 0.1, eps = 1e-5, weight, bias, runningMean, runningVar } = options;
  if (t.rank < 3) throw new ShapeError(`instanceNorm expects [N, C, ...], got [${t.shape.join(', ')}]`);
  checkStatistics('instanceNorm', runningMean, runningVar, useInputStats);
  if (!useInputStats) {
    return channelNorm(t, { weight, bias, runningMean, runningVar, training: false, momentum, eps } as never);
  }
  const [n, c, ...rest] = t.shape as [number, number, ...number[]];
  if (rest.reduce((a, b) => a * b, 1) === 1)
    throw new ShapeError(`Expected more than 1 spatial element when training, got input size [${t.shape.join(', ')}]`);
  return sweep(() => {
    const repeated = (p: Tensor | null | undefined): Tensor | null =>
      p === undefined || p === null ? null : p.repeat([n]);
    const [mean, variance] = [runningMean, runningVar].map((p) => repeated(p?.detach()));
    const flat = channelNorm(t.reshape([1, n * c, ...rest]), {
      weight: repeated(weight),
      bias: repeated(bias),
      runningMean: mean ?? null,
      runningVar: variance ?? null,
      momentum,
      eps,
    });
    if (mean !== null && mean !== undefined) runningMean?.detach().copy_(mean.reshape([n, c]).mean(0));
    if (variance !== null && variance !== undefined) runningVar?.detach().copy_(variance.reshape([n, c]).mean(0));
    return flat.reshape(t.shape);
  });
});
