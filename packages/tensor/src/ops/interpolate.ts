/** @file Signals, images and volumes in another size. */
import { checkCount } from '../shape.ts';
import type { DType } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction } from './define.ts';
import { resample, tapsOf, type Taps } from './resample.ts';
import { check, each, FLOAT, setOf, union } from './takes.ts';
import { inFloat32 } from './widen.ts';

/** What elements between the given ones are; linear is for signals, bilinear and bicubic for images, trilinear for volumes. */
export type InterpolationMode = 'nearest' | 'nearest-exact' | 'linear' | 'bilinear' | 'bicubic' | 'trilinear' | 'area';

/** To what size `interpolate` brings its input, and how. */
export interface InterpolateOptions {
  /** The size of each direction, or one for all. Either this or `scaleFactor`. */
  size?: number | readonly number[];
  /** By how much each direction grows, or one for all; what is not whole is rounded down. */
  scaleFactor?: number | readonly number[];
  /** What elements between the given ones are; each of the linear ones is for one number of directions. @default 'nearest' */
  mode?: InterpolationMode;
  /** Whether the centres of the corners stay where they are; otherwise their outer edges do. Of the modes that are linear or cubic. @default false */
  alignCorners?: boolean;
  /** Whether places follow from the sizes instead of from `scaleFactor`, which differ where that gives no whole sizes. @default false */
  recomputeScaleFactor?: boolean;
}

export const INTERPOLATE_OPTIONS = optionNames<InterpolateOptions>()(
  'size scaleFactor mode alignCorners recomputeScaleFactor',
);

/** How many directions the modes are for. */
const DIMS: Readonly<Record<InterpolationMode, readonly number[]>> = {
  nearest: [1, 2, 3],
  'nearest-exact': [1, 2, 3],
  area: [1, 2, 3],
  linear: [1],
  bilinear: [2],
  bicubic: [2],
  trilinear: [3],
};

/** One direction. */
interface Direction {
  readonly input: number;
  readonly output: number;
  /** As given by the program, if its places follow from it. */
  readonly factor: number | undefined;
}

/** Rounds as the dtype that places are computed in does. */
type Round = (v: number) => number;

/** How far the places of neighbours in the result lie apart in the input. */
function stepOf({ input, output, factor }: Direction, corners: boolean, round: Round): number {
  if (corners) return output > 1 ? round((input - 1) / (output - 1)) : 0;
  return round(factor !== undefined && factor > 0 ? 1 / factor : input / output);
}

const clampTo = (v: number, high: number): number => Math.min(Math.max(v, 0), high);

/** Keys (1981), with the constant of PyTorch. */
const CUBIC = -0.75;

function cubicWeights(x: number): readonly [number, number, number, number] {
  const near = (v: number): number => ((CUBIC + 2) * v - (CUBIC + 3)) * v * v + 1;
  const far = (v: number): number => ((CUBIC * v - 5 * CUBIC) * v + 8 * CUBIC) * v - 4 * CUBIC;
  return [far(x + 1), near(x), near(1 - x), far(2 - x)];
}

function nearestTaps(d: Direction, middle: boolean, round: Round): Taps {
  const step = stepOf(d, false, round);
  return tapsOf(d.input, d.output, (o) => {
    const at = Math.floor(round((middle ? o + 0.5 : o) * step));
    return [[Math.min(at, d.input - 1), 1]];
  });
}

function linearTaps(d: Direction, corners: boolean, round: Round): Taps {
  const step = stepOf(d, corners, round);
  return tapsOf(d.input, d.output, (o) => {
    if (d.input === d.output) return [[o, 1]];
    const at = corners ? round(step * o) : Math.max(0, round(round(step * (o + 0.5)) - 0.5));
    const low = Math.min(Math.floor(at), d.input - 1);
    const high = Math.min(low + 1, d.input - 1);
    const part = clampTo(round(at - low), 1);
    return [
      [low, round(1 - part)],
      [high, part],
    ];
  });
}

function cubicTaps(d: Direction, corners: boolean, round: Round): Taps {
  const step = stepOf(d, corners, round);
  return tapsOf(d.input, d.output, (o) => {
    const at = corners ? round(step * o) : round(round(step * (o + 0.5)) - 0.5);
    const low = Math.min(Math.floor(at), d.input - 1);
    const weights = cubicWeights(clampTo(round(at - low), 1));
    return weights.map((weight, k): [number, number] => [clampTo(low - 1 + k, d.input - 1), weight]);
  });
}

/** Means over the elements that each place covers. */
function areaTaps({ input, output }: Direction): Taps {
  return tapsOf(input, output, (o) => {
    const first = Math.floor((o * input) / output);
    const count = Math.ceil(((o + 1) * input) / output) - first;
    return Array.from({ length: count }, (_, k): [number, number] => [first + k, 1 / count]);
  });
}

function tapsFor(mode: InterpolationMode, d: Direction, corners: boolean, dtype: DType): Taps {
  const round: Round = dtype === 'float64' ? (v) => v : Math.fround;
  if (mode === 'nearest' || mode === 'nearest-exact') return nearestTaps(d, mode === 'nearest-exact', round);
  if (mode === 'area') return areaTaps(d);
  return mode === 'bicubic' ? cubicTaps(d, corners, round) : linearTaps(d, corners, round);
}

/** One number for each direction. */
function perDirection(given: number | readonly number[], spatial: readonly number[], what: string): readonly number[] {
  if (typeof given === 'number') return spatial.map(() => given);
  if (given.length !== spatial.length)
    throw new ShapeError(
      `interpolate: input and ${what} must have the same number of spatial dimensions, but got input with spatial dimensions of [${spatial.join(', ')}] and ${what} of [${given.join(', ')}]`,
    );
  return given;
}

function directions(t: Tensor, options: InterpolateOptions): Direction[] {
  const { size, scaleFactor, recomputeScaleFactor = false } = options;
  const spatial = t.shape.slice(2);
  if (size === undefined && scaleFactor === undefined)
    throw new TypeError('interpolate: either size or scaleFactor should be defined');
  if (size !== undefined && scaleFactor !== undefined)
    throw new TypeError('interpolate: only one of size or scaleFactor should be defined');
  if (size !== undefined && recomputeScaleFactor)
    throw new TypeError('interpolate: recomputeScaleFactor is not meaningful with an explicit size');
  const factors = scaleFactor === undefined ? undefined : perDirection(scaleFactor, spatial, 'scaleFactor');
  const sizes =
    size === undefined
      ? spatial.map((n, i) => Math.floor(n * (factors?.[i] ?? NaN)))
      : perDirection(size, spatial, 'size');
  const area = options.mode === 'area';
  const fits = sizes.every((n) => Number.isInteger(n) && n > (area ? -1 : 0)) && !spatial.includes(0);
  if (!fits && !(area && sizes.every((n) => n === 1)))
    throw new ShapeError(
      `interpolate: input and output sizes should be greater than 0, but got input [${spatial.join(', ')}] and output [${sizes.join(', ')}]`,
    );
  checkCount([...t.shape.slice(0, 2), ...sizes]);
  return spatial.map((input, i) => ({
    input,
    output: sizes[i] as number,
    factor: recomputeScaleFactor ? undefined : factors?.[i],
  }));
}

function checkMode(t: Tensor, { mode = 'nearest', alignCorners }: InterpolateOptions): void {
  const fits = Object.hasOwn(DIMS, mode) ? DIMS[mode] : undefined;
  if (fits === undefined)
    throw new RangeError(`interpolate: unknown mode '${mode}'; it takes ${Object.keys(DIMS).join(', ')}`);
  if (!fits.includes(t.rank - 2))
    throw new ShapeError(
      `interpolate: mode '${mode}' takes input of ${fits.map((n) => `${n + 2}D`).join(', ')}, [N, C, …], but got [${t.shape.join(', ')}]`,
    );
  if (alignCorners !== undefined && (mode.startsWith('nearest') || mode === 'area'))
    throw new TypeError(
      'interpolate: alignCorners can only be set with the interpolating modes: linear, bilinear, bicubic, trilinear',
    );
}

/**
 * [N, C, …] of one to three directions in another size: `interpolate(images, { scaleFactor: 2, mode: 'bilinear' })`. uint8 in the modes
 * that choose elements only.
 */
export const interpolate = defineFunction(
  ['interpolate', 'upsample'],
  each(union(FLOAT, setOf('uint8'))),
  (t: Tensor, options: InterpolateOptions): Tensor => {
    checkOptionNames(options, INTERPOLATE_OPTIONS, 'interpolate()');
    checkMode(t, options);
    const { mode = 'nearest', alignCorners = false } = options;
    if (!mode.startsWith('nearest')) check(`interpolate with mode '${mode}'`, each(FLOAT), [t]);
    const list = directions(t, options);
    // The mean of everything, which also nothing has: NaN.
    if (mode === 'area' && list.every(({ output }) => output === 1))
      return t.mean(
        list.map((_, i) => i + 2),
        true,
      );
    // As PyTorch's pools, which area is: those of volumes take nothing without channels.
    if ((mode !== 'area' || t.rank === 5) && sizeOf(t.shape.slice(1)) === 0)
      throw new ShapeError(`interpolate: only the batch may be empty, but got [${t.shape.join(', ')}]`);
    // The last direction first, as PyTorch.
    return inFloat32(t, (x) =>
      list.reduceRight((wide, d, i) => resample(wide, i + 2, tapsFor(mode, d, alignCorners, t.dtype)), x),
    );
  },
);
