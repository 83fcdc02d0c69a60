/** @file What normalisations of channels share, and what batchNorm and instanceNorm both are: not public. */
import type { DType } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { isHalf } from '../precision.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { variance } from './spread.ts';
import { checkStatistics } from './statistics.ts';
import { check, each, FLOAT, type Takes } from './takes.ts';
import { whiten } from './whiten.ts';
import { inFloat32 } from './widen.ts';

/** What `batchNorm` takes beside its input [N, C, ...]: weights, running statistics, and which of them to use. */
export interface BatchNormOptions {
  /** What each channel is multiplied by afterwards, [C]. @default none */
  weight?: Tensor | null;
  /** What is added to each channel after that, [C]. @default none */
  bias?: Tensor | null;
  /** [C]; updated in place when training. */
  runningMean?: Tensor | null;
  /** [C]; updated in place when training. */
  runningVar?: Tensor | null;
  /** Whether the statistics are the batch's own, instead of the running ones. @default true */
  training?: boolean;
  /** The share that this batch has in the running statistics, 0 to 1. @default 0.1 */
  momentum?: number;
  /** Added to variances, so that none is zero. @default 1e-5 */
  eps?: number;
}

/** Weights have the dtype of what is normalised, or are float32 beside half precision. */
export const normalised: Takes = (operands) => {
  const [first, ...rest] = operands.map((t) => t.dtype) as [DType, ...DType[]];
  const fits = (dtype: DType): boolean => dtype === first || (isHalf(first) && dtype === 'float32');
  if (!rest.every((dtype) => dtype === rest[0] && fits(dtype))) {
    const got = [...new Set(rest)].join(' and ');
    return `takes weights of the dtype of what it normalises, or float32 beside half precision, but got ${got} for ${first}`;
  }
  return each(FLOAT)(operands.slice(0, 1));
};

export function affine(t: Tensor, weight?: Tensor | null, bias?: Tensor | null): Tensor {
  const scaled = weight === undefined || weight === null ? t : t.mul(weight);
  return bias === undefined || bias === null ? scaled : scaled.add(bias);
}

/** A parameter for each channel in the shape that broadcasts over [N, C, ...]. */
export function perChannel(p: Tensor | null | undefined, rank: number): Tensor | null {
  return p === undefined || p === null ? null : p.reshape([p.size, ...Array<number>(rank - 2).fill(1)]);
}

export function tooFew(t: Tensor): ShapeError {
  return new ShapeError(
    `Expected more than 1 value per channel when training, got input of shape [${t.shape.join(', ')}]`,
  );
}

/** batchNorm with any `eps`: instanceNorm takes 0, too. */
export function channelNorm(t: Tensor, options: BatchNormOptions): Tensor {
  return inFloat32(t, (x) => {
    const { training = true, momentum = 0.1, eps = 1e-5, runningMean, runningVar } = options;
    const weights = [options.weight, options.bias].filter((w) => w !== undefined && w !== null);
    check('batchNorm', normalised, [t, ...weights]);
    if (x.rank < 2) throw new ShapeError(`batchNorm expects [N, C, ...], got [${x.shape.join(', ')}]`);
    const channels = x.shape[1] as number;
    for (const part of ['weight', 'bias', 'runningMean', 'runningVar'] as const) {
      const size = options[part]?.size ?? channels;
      if (size !== channels)
        throw new ShapeError(`batchNorm: ${part} should contain ${channels} elements, not ${size}`);
    }
    checkStatistics('batchNorm', runningMean, runningVar, training);
    const dims = x.shape.map((_, i) => i).filter((i) => i !== 1);
    const scale = perChannel(options.weight, x.rank);
    const shift = perChannel(options.bias, x.rank);
    if (!training) {
      const mean = perChannel(runningMean, x.rank) as Tensor;
      const spread = (perChannel(runningVar, x.rank) as Tensor).add(eps).rsqrt();
      return affine(x.sub(mean).mul(spread), scale, shift);
    }
    const count = sizeOf(dims.map((d) => x.shape[d] as number));
    if (training && count === 1) throw tooFew(x);
    if (training && x.size > 0) {
      const seen = x.detach();
      runningMean?.mul_(1 - momentum).add_(seen.mean(dims), { alpha: momentum });
      runningVar?.mul_(1 - momentum).add_(variance(seen, dims), { alpha: momentum });
    }
    return affine(whiten(x, dims, eps), scale, shift);
  });
}
