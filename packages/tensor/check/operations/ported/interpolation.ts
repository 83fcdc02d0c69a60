/** @file Signals, images and volumes in another size. */
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import type { Arg } from '../../program.ts';
import { row } from './rows.ts';

const FLOATS = ['float32', 'float32', 'float64', 'float16', 'bfloat16'] as const;

const MODES: readonly (readonly [mode: string, dims: number])[] = [
  ['nearest', 1],
  ['nearest', 2],
  ['nearest', 3],
  ['nearest-exact', 2],
  ['linear', 1],
  ['bilinear', 2],
  ['bicubic', 2],
  ['trilinear', 3],
  ['area', 1],
  ['area', 2],
  ['area', 3],
];

function input(draw: Draw, dims: number): Arg {
  const rank = dims + (draw.mishap() ? draw.random.pick([-1, 1]) : 0);
  const sizes = Array.from({ length: rank }, () => draw.random.int(draw.mishap() ? 0 : 1, 6));
  return draw.tensor([draw.size(), draw.random.int(draw.mishap() ? 0 : 1, 3), ...sizes], { style: 'plain' });
}

function options(draw: Draw, mode: string, dims: number): { options: Record<string, Arg> } {
  const all = (one: () => number): Arg =>
    draw.random.chance(0.4) ? one() : Array.from({ length: draw.mishap() ? dims + 1 : dims }, one);
  const factor = (): number => draw.random.pick([1, 2, 3, 0.5, 1.5, 1.7, 2.3, draw.mishap() ? -1 : 0.75]);
  const given: Record<string, Arg> = draw.random.chance(0.5)
    ? { size: all(() => draw.random.int(draw.mishap() ? 0 : 1, 9)) }
    : { scaleFactor: all(factor) };
  if (draw.mishap()) given['scaleFactor'] = 2;
  if (draw.random.chance(/linear|cubic/.test(mode) ? 0.5 : 0.03)) given['alignCorners'] = draw.random.chance(0.7);
  if (draw.random.chance('size' in given ? 0.02 : 0.3)) given['recomputeScaleFactor'] = true;
  return { options: given };
}

export const interpolations: readonly Operation[] = [
  ...MODES.map(([mode, dims]) =>
    row(
      `interpolate ${mode} ${dims}d`,
      `bw.interpolate($0, { mode: '${mode}', ...$1 })`,
      `F.interpolate($0, mode='${mode}', **$1)`,
      'sums',
      (draw) => [input(draw, dims), options(draw, mode, dims)],
      FLOATS,
    ),
  ),
  row(
    'nn.Upsample',
    "new nn.Upsample({ mode: 'bilinear', ...$1 }).forward($0)",
    "nn.Upsample(mode='bilinear', **$1)($0)",
    'sums',
    (draw) => [input(draw, 2), { options: { scaleFactor: draw.random.pick([2, 1.5]), alignCorners: true } }],
    FLOATS,
  ),
  ...['UpsamplingNearest2d', 'UpsamplingBilinear2d'].map((name) =>
    row(
      `nn.${name}`,
      `new nn.${name}({ scaleFactor: $1 }).forward($0)`,
      `nn.${name}(scale_factor=$1)($0)`,
      'sums',
      (draw) => [input(draw, 2), draw.random.pick([2, 3])],
      FLOATS,
    ),
  ),
];
