/** @file Convolutions of volumes and transposed ones of signals and volumes, and pools of signals: made of those of images. */
import { tensor, zeros } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import {
  adaptiveAvgPool2d,
  addBias,
  avgPool2d,
  checkChannels,
  checkDilated,
  checkGroups,
  checkTransposed,
  conv2d,
  convTranspose2d,
  maxPool2d,
  type AvgPoolOptions,
  type MaxPoolOptions,
} from './conv.ts';
import { checkPadding, listOf } from './windows.ts';
import { defineFunction } from './define.ts';
import { indexAdd, indexSelect } from './indexing.ts';
import { pad } from './structure.ts';
import { each, FLOAT, FLOATING, NUMBER, same, setOf, union } from './takes.ts';

/** A number for all directions, or [depth, vertical, horizontal]. */
export type Triple = number | readonly [number, number, number];

export function triple(value: Triple): readonly [number, number, number] {
  if (typeof value === 'number') return [value, value, value];
  return listOf(value, 3);
}

/** What `conv3d` takes beside input and weight. */
export interface Conv3dOptions {
  /** Added to each output channel, [O]. @default none */
  bias?: Tensor | null;
  /** How many elements a window is from the next; one number for all three directions. @default 1 */
  stride?: Triple;
  /** Zeros added on each side; 'same' adds as many as keep the size, 'valid' none. @default 0 */
  padding?: Triple | 'same' | 'valid';
  /** How far apart the elements are that the kernel reads: 1 leaves none out. @default 1 */
  dilation?: Triple;
  /** Channels are split into this many independent groups. @default 1 */
  groups?: number;
}

const CONV3D = optionNames<Conv3dOptions>()('bias stride padding dilation groups');

/** Runs `fn` on [N, C, …] of `rank` dimensions; one without batch is a batch of one on the way. */
function batched(name: string, x: Tensor, rank: number, fn: (x: Tensor) => Tensor): Tensor {
  if (x.rank !== rank && x.rank !== rank - 1)
    throw new ShapeError(`${name}: expected ${rank - 1}D or ${rank}D input, got [${x.shape.join(', ')}]`);
  return sweep(() => (x.rank === rank ? fn(x) : fn(x.unsqueeze(0)).squeeze(0)));
}

function checkWeight(name: string, weight: Tensor, rank: number): void {
  if (weight.rank !== rank)
    throw new ShapeError(`${name}: expected a weight of ${rank} dimensions, got [${weight.shape.join(', ')}]`);
}

const positions = (list: number[]): Tensor => tensor(BigInt64Array.from(list, BigInt), { dtype: 'int64' });

/** Zeros on both sides of the depth, and the padding of the planes. */
function depthPadding(
  options: Conv3dOptions,
  kernel: number,
  stride: number,
  dilation: number,
): { sides: [number, number]; planes: readonly [number, number] | 'same' | 'valid' } {
  const { padding = 0 } = options;
  if (padding === 'valid') return { sides: [0, 0], planes: 'valid' };
  if (padding === 'same') {
    if (stride !== 1) throw new ShapeError("padding='same' is not supported for strided convolutions");
    const more = dilation * (kernel - 1);
    return { sides: [Math.floor(more / 2), Math.ceil(more / 2)], planes: 'same' };
  }
  checkPadding(padding);
  const [d, h, w] = triple(padding);
  return { sides: [d, d], planes: [h, w] };
}

/** x [N, C, D, H, W] or [C, D, H, W], weight [O, C / groups, kd, kh, kw] to [N, O, D', H', W'] or [O, D', H', W']. */
export const conv3d = defineFunction(
  'conv3d',
  same(NUMBER),
  (x: Tensor, weight: Tensor, options: Conv3dOptions = {}): Tensor => {
    checkOptionNames(options, CONV3D, 'conv3d()');
    checkWeight('conv3d', weight, 5);
    const [sd, sh, sw] = triple(options.stride ?? 1);
    const [dd, dh, dw] = triple(options.dilation ?? 1);
    checkDilated('conv3d', x, [dd, dh, dw]);
    return batched('conv3d', x, 5, (volumes) => {
      const { groups = 1 } = options;
      checkGroups(groups);
      checkChannels(x, weight, groups);
      const [out, inner, kd, kh, kw] = weight.shape as [number, number, number, number, number];
      const { sides, planes } = depthPadding(options, kd, sd, dd);
      if (
        ![kd, sd, dd].every((v) => Number.isInteger(v) && v >= 1) ||
        !sides.every((v) => Number.isInteger(v) && v >= 0)
      )
        throw new ShapeError(
          'conv3d: kernel, stride and dilation are whole numbers of at least 1, padding of at least 0',
        );
      const padded = pad(volumes, [0, 0, 0, 0, ...sides]);
      const [n, channels, depth, h, w] = padded.shape as [number, number, number, number, number];
      const count = Math.floor((depth - dd * (kd - 1) - 1) / sd) + 1;
      if (count < 1)
        throw new ShapeError(
          `conv3d: Kernel size can't be greater than actual input size: ${kd} over a depth of ${depth}`,
        );
      // The planes that a plane of the result sees are channels of one image.
      const seen = Array.from({ length: count * kd }, (_, i) => Math.floor(i / kd) * sd + (i % kd) * dd);
      const images = indexSelect(padded, 2, positions(seen))
        .reshape([n, channels, count, kd, h, w])
        .permute([0, 2, 1, 3, 4, 5])
        .reshape([n * count, channels * kd, h, w]);
      const result = conv2d(images, weight.reshape([out, inner * kd, kh, kw]), {
        bias: options.bias ?? null,
        stride: [sh, sw],
        padding: planes,
        dilation: [dh, dw],
        groups,
      });
      const [, , outH, outW] = result.shape as [number, number, number, number];
      return result.reshape([n, count, out, outH, outW]).permute([0, 2, 1, 3, 4]);
    });
  },
);

/** What `convTranspose1d` takes beside input and weight. */
export interface ConvTranspose1dOptions {
  /** Added to each output channel, [O]. @default none */
  bias?: Tensor | null;
  /** How far apart the elements of the input come to lie. @default 1 */
  stride?: number;
  /** By how much the convolution that it undoes was padded. @default 0 */
  padding?: number;
  /** Elements that are added at the end. @default 0 */
  outputPadding?: number;
  /** How far apart the elements are that the kernel writes. @default 1 */
  dilation?: number;
  /** Channels are split into this many independent groups. @default 1 */
  groups?: number;
}

/** What `convTranspose3d` takes beside input and weight. */
export interface ConvTranspose3dOptions extends Omit<Conv3dOptions, 'padding'> {
  /** By how much the convolution that it undoes was padded. @default 0 */
  padding?: Triple;
  /** Planes, rows and columns that are added at the end. @default 0 */
  outputPadding?: Triple;
}

const TRANSPOSE = 'bias stride padding outputPadding dilation groups';
const TRANSPOSE1D = optionNames<ConvTranspose1dOptions>()(TRANSPOSE);
const TRANSPOSE3D = optionNames<ConvTranspose3dOptions>()(TRANSPOSE);
const TRANSPOSED = same(union(FLOATING, setOf('int64')));

/** x [N, C, L] or [C, L], weight [C, O / groups, k] to [N, O, L'] or [O, L']. */
export const convTranspose1d = defineFunction(
  'convTranspose1d',
  TRANSPOSED,
  (x: Tensor, weight: Tensor, options: ConvTranspose1dOptions = {}): Tensor => {
    checkOptionNames(options, TRANSPOSE1D, 'convTranspose1d()');
    checkWeight('convTranspose1d', weight, 3);
    const { stride = 1, padding = 0, outputPadding = 0, dilation = 1, ...rest } = options;
    return batched('convTranspose1d', x, 3, (signals) => {
      checkGroups(rest.groups ?? 1);
      checkTransposed('convTranspose1d', x, weight, rest.groups ?? 1);
      return convTranspose2d(signals.unsqueeze(-2), weight.unsqueeze(2), {
        ...rest,
        stride: [1, stride],
        padding: [0, padding],
        outputPadding: [0, outputPadding],
        dilation: [1, dilation],
      }).squeeze(-2);
    });
  },
);

/** x [N, C, D, H, W] or [C, D, H, W], weight [C, O / groups, kd, kh, kw] to [N, O, D', H', W'] or [O, D', H', W']. */
export const convTranspose3d = defineFunction(
  'convTranspose3d',
  TRANSPOSED,
  (x: Tensor, weight: Tensor, options: ConvTranspose3dOptions = {}): Tensor => {
    checkOptionNames(options, TRANSPOSE3D, 'convTranspose3d()');
    checkWeight('convTranspose3d', weight, 5);
    const [sd, sh, sw] = triple(options.stride ?? 1);
    const [dd, dh, dw] = triple(options.dilation ?? 1);
    const [pd, ph, pw] = triple(options.padding ?? 0);
    const [ed, eh, ew] = triple(options.outputPadding ?? 0);
    const groups = options.groups ?? 1;
    return batched('convTranspose3d', x, 5, (volumes) => {
      checkGroups(groups);
      checkTransposed('convTranspose3d', x, weight, groups);
      const [n, channels, depth, h, w] = volumes.shape as [number, number, number, number, number];
      const [inner, perGroup, kd, kh, kw] = weight.shape as [number, number, number, number, number];
      if (ed >= Math.max(sd, dd) || ed < 0)
        throw new ShapeError('output padding must be smaller than either stride or dilation, and not negative');
      const size = (depth - 1) * sd + dd * (kd - 1) + ed + 1;
      if (size - 2 * pd < 1)
        throw new ShapeError(`convTranspose3d: Output size is too small: a depth of ${size - 2 * pd}`);
      // Each plane spreads over planes of the result: what falls on one is added up.
      const planes = convTranspose2d(
        volumes.permute([0, 2, 1, 3, 4]).reshape([n * depth, channels, h, w]),
        weight.reshape([inner, perGroup * kd, kh, kw]),
        { stride: [sh, sw], padding: [ph, pw], outputPadding: [eh, ew], dilation: [dh, dw], groups },
      );
      const [, , outH, outW] = planes.shape as [number, number, number, number];
      const out = perGroup * groups;
      const spread = planes
        .reshape([n, depth, out, kd, outH, outW])
        .permute([0, 2, 1, 3, 4, 5])
        .reshape([n, out, depth * kd, outH, outW]);
      const at = Array.from({ length: depth * kd }, (_, i) => Math.floor(i / kd) * sd + (i % kd) * dd);
      const whole = indexAdd(zeros([n, out, size, outH, outW], { dtype: planes.dtype }), 2, positions(at), spread);
      const cut = whole.narrow(2, pd, size - 2 * pd);
      return addBias(cut, options.bias);
    });
  },
);

type Of1d<O> = { [K in keyof O]: K extends 'stride' | 'padding' | 'dilation' ? number : O[K] };

/** Options of signals as those of images of one row. */
function inRow<O extends { stride?: number; padding?: number; dilation?: number }>(
  kernel: number,
  { stride = kernel, padding = 0, dilation, ...rest }: O,
): Omit<O, 'stride' | 'padding' | 'dilation'> & {
  stride: readonly [number, number];
  padding: readonly [number, number];
  dilation?: readonly [number, number];
} {
  const wide = dilation === undefined ? {} : { dilation: [1, dilation] as const };
  return { ...rest, stride: [1, stride], padding: [0, padding], ...wide };
}

/** The largest of each window of [N, C, L] or [C, L]; of integers PyTorch has maxPool2d only, too. */
export const maxPool1d = defineFunction(
  'maxPool1d',
  each(FLOAT),
  (t: Tensor, kernel: number, options: Of1d<MaxPoolOptions> = {}): Tensor =>
    batched('maxPool1d', t, 3, (x) => maxPool2d(x.unsqueeze(-2), [1, kernel], inRow(kernel, options)).squeeze(-2)),
);

/** The mean of each window of [N, C, L] or [C, L]; padding counts as zeros unless told. */
export const avgPool1d = defineFunction(
  'avgPool1d',
  each(union(FLOAT, setOf('int64'))),
  (t: Tensor, kernel: number, options: Of1d<Omit<AvgPoolOptions, 'divisorOverride'>> = {}): Tensor =>
    batched('avgPool1d', t, 3, (x) => avgPool2d(x.unsqueeze(-2), [1, kernel], inRow(kernel, options)).squeeze(-2)),
);

/** Means over `size` regions that cover [N, C, L] or [C, L]. */
export const adaptiveAvgPool1d = defineFunction('adaptiveAvgPool1d', each(FLOAT), (t: Tensor, size: number): Tensor =>
  batched('adaptiveAvgPool1d', t, 3, (x) => adaptiveAvgPool2d(x.unsqueeze(-2), [1, size]).squeeze(-2)),
);
