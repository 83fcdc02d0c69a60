/** @file Convolution and pooling, as matrix products and reductions over windows. */
import { calledAs } from '../called-as.ts';
import { tensor } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { checkShape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { convolve } from './convolve.ts';
import { defineFunction } from './define.ts';
import { takeAt } from './indexing.ts';
import { concat } from './join.ts';
import { matmul } from './matmul.ts';
import { pad } from './structure.ts';
import { check, each, FLOAT, FLOATING, NUMBER, REAL_NUMBER, same, setOf, union, type Takes } from './takes.ts';
import {
  checkPadding,
  checkSpec,
  fold,
  largestInWindows,
  pair,
  placeWindows,
  unfold,
  type Pair,
  type Windows,
  type WindowSpec,
} from './windows.ts';
import { alike, inFloat32 } from './widen.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';

/** What `conv1d` and `conv2d` take beside input and weight. */
export interface ConvOptions {
  /** Added to each output channel, [O]. @default none */
  bias?: Tensor | null;
  /** How many elements a window is from the next; one number for both directions. @default 1 */
  stride?: Pair;
  /** Zeros added on each side; 'same' adds as many as keep the size, 'valid' none. @default 0 */
  padding?: Pair | 'same' | 'valid';
  /** How far apart the elements are that the kernel reads: 1 leaves none out. @default 1 */
  dilation?: Pair;
  /** Channels are split into this many independent groups. @default 1 */
  groups?: number;
}

const CONV_OPTIONS = optionNames<ConvOptions>()('bias stride padding dilation groups');
const TRANSPOSE_OPTIONS: ReadonlySet<string> = new Set([...CONV_OPTIONS, 'outputPadding']);

/** Of a transposed convolution, which has no padding by name. */
export interface TransposeOptions extends Omit<ConvOptions, 'padding'> {
  /** By how much the convolution that it undoes was padded. @default 0 */
  padding?: Pair;
  /** Rows and columns that are added at the end. @default 0 */
  outputPadding?: Pair;
}

function windowSpec(weight: Tensor, options: ConvOptions): WindowSpec {
  if (weight.rank !== 4) throw new ShapeError(`expected a weight of 4 dimensions, got [${weight.shape.join(', ')}]`);
  checkPadding(options.padding);
  return {
    kernel: weight.shape.slice(2) as [number, number],
    stride: pair(options.stride ?? 1),
    padding: typeof options.padding === 'string' ? [0, 0] : pair(options.padding ?? 0),
    dilation: pair(options.dilation ?? 1),
  };
}

/** What transposed convolutions, and those with gaps, add up in. */
const SUMMING = union(FLOATING, setOf('int64'));

function checkOperands(name: string, takes: Takes, x: Tensor, weight: Tensor, bias: Tensor | null | undefined): void {
  check(name, takes, bias === undefined || bias === null ? [x, weight] : [x, weight, bias]);
}

/** With a bias [O] for each channel of [N, O, ...]. */
export function addBias(t: Tensor, bias: Tensor | null | undefined): Tensor {
  if (bias === null || bias === undefined) return t;
  const channels = t.shape[1] as number;
  if (bias.rank !== 1 || bias.size !== channels)
    throw new ShapeError(`expected a bias of ${channels} elements, got [${bias.shape.join(', ')}]`);
  return t.add(bias.reshape([channels, ...t.shape.slice(2).map(() => 1)]));
}

/** Runs `fn` on images [N, C, H, W]; a single one [C, H, W] is a batch of one on the way. Only batches may be empty. */
function onImages(name: string, x: Tensor, fn: (x: Tensor) => Tensor): Tensor {
  if (x.rank !== 3 && x.rank !== 4)
    throw new ShapeError(`${name}: expected images [N, C, H, W] or [C, H, W], got [${x.shape.join(', ')}]`);
  return inFloat32(x, (wide) => (wide.rank === 3 ? fn(wide.unsqueeze(0)).squeeze(0) : fn(wide)));
}

export function checkGroups(groups: number): void {
  if (!Number.isInteger(groups) || groups < 1)
    throw new ShapeError(`groups must be a whole number of at least 1, but got ${groups}`);
}

/** Throws where images have no rows, no columns, or no channels. */
function checkFilled(name: string, t: Tensor): void {
  if (t.shape.slice(1).some((n) => n === 0))
    throw new ShapeError(`${name}: only the batch may be empty, but images have shape [${t.shape.join(', ')}]`);
}

/** With as many zeros as keep the size; of an odd count the last side gets more. */
function padSame(x: Tensor, { kernel, stride, dilation }: WindowSpec): Tensor {
  if (stride.some((one) => one !== 1)) throw new ShapeError("padding='same' is not supported for strided convolutions");
  const sides = [1, 0].flatMap((d) => {
    const more = (dilation[d] as number) * ((kernel[d] as number) - 1);
    return [Math.floor(more / 2), Math.ceil(more / 2)];
  });
  return pad(x, sides);
}

/** Throws DTypeError for integers that have no convolution with gaps, as in PyTorch; a batch of nothing needs none. */
export function checkDilated(name: string, x: Tensor, dilation: readonly number[]): void {
  if (dilation.some((one) => one !== 1) && x.size > 0) check(`${name} with dilation`, each(SUMMING), [x]);
}

/** @throws ShapeError for a weight [O, C / groups, ...] that is not of the channels of x [N, C, ...] or [C, ...]. */
export function checkChannels(x: Tensor, weight: Tensor, groups: number): void {
  const channels = x.shape[x.rank - weight.rank + 1] as number;
  const [out, inner] = weight.shape as [number, number];
  if (channels === inner * groups && out % groups === 0 && out > 0) return;
  throw new ShapeError(
    `Given groups=${groups}, weight of size [${weight.shape.join(', ')}], expected input[${x.shape.join(', ')}] to have ${inner * groups} channels, but got ${channels} channels instead`,
  );
}

/** @throws ShapeError for a weight [C, O / groups, ...] that is not of the channels of x [N, C, ...] or [C, ...]. */
export function checkTransposed(name: string, x: Tensor, weight: Tensor, groups: number): void {
  const channels = x.shape[x.rank - weight.rank + 1] as number;
  const [inner, perGroup] = weight.shape as [number, number];
  if (channels === inner && channels % groups === 0 && perGroup > 0) return;
  throw new ShapeError(
    `${name}: weight [${weight.shape.join(', ')}] does not fit ${channels} channels in ${groups} groups`,
  );
}

/** x [N, C, H, W] or [C, H, W], weight [O, C / groups, kh, kw] to [N, O, H', W'] or [O, H', W']. */
export const conv2d = named('aten::conv2d', (x: Tensor, weight: Tensor, options: ConvOptions = {}): Tensor => {
  checkOptionNames(options, CONV_OPTIONS, 'conv2d()');
  checkOperands('conv2d', same(NUMBER), x, weight, options.bias);
  const groups = options.groups ?? 1;
  const spec = windowSpec(weight, options);
  checkGroups(groups);
  checkDilated('conv2d', x, spec.dilation);
  if (options.padding === 'same') return conv2d(padSame(x, spec), weight, { ...options, padding: 'valid' });
  const [out, inner] = weight.shape as [number, number];
  return onImages('conv2d', x, (images) => {
    checkChannels(x, weight, groups);
    const windows = placeWindows(images.shape, spec);
    if (images.shape.slice(2).includes(0)) checkFilled('conv2d', images);
    const filters = alike(weight, x, images);
    if (groups === 1) return addBias(convolve(images, filters, windows), options.bias);
    const taps = inner * spec.kernel[0] * spec.kernel[1];
    const columns = unfold(images, windows).reshape([groups, taps, -1]);
    const product = matmul(filters.reshape([groups, out / groups, taps]), columns);
    const image = product.reshape([out, windows.n, windows.outH, windows.outW]).permute([1, 0, 2, 3]);
    return addBias(image, options.bias);
  });
});

/** x [N, C, L] or [C, L], weight [O, C / groups, k] to [N, O, L'] or [O, L']. */
export const conv1d = named(
  'aten::conv1d',
  (
    x: Tensor,
    weight: Tensor,
    options: Omit<ConvOptions, 'stride' | 'padding' | 'dilation'> & {
      stride?: number;
      padding?: number | 'same' | 'valid';
      dilation?: number;
    } = {},
  ): Tensor => {
    checkOperands('conv1d', same(NUMBER), x, weight, options.bias);
    if (x.rank !== 2 && x.rank !== 3)
      throw new ShapeError(`conv1d: expected signals [N, C, L] or [C, L], got [${x.shape.join(', ')}]`);
    if (weight.rank !== 3)
      throw new ShapeError(`conv1d: expected a weight of 3 dimensions, got [${weight.shape.join(', ')}]`);
    const { stride = 1, padding = 0, dilation = 1, ...rest } = options;
    const groups = rest.groups ?? 1;
    checkGroups(groups);
    checkChannels(x, weight, groups);
    return sweep(() => {
      const out = calledAs('conv1d()', () =>
        conv2d(x.unsqueeze(-2), weight.unsqueeze(2), {
          ...rest,
          stride: [1, stride],
          padding: typeof padding === 'string' ? padding : [0, padding],
          dilation: [1, dilation],
        }),
      );
      return out.squeeze(-2);
    });
  },
);

/** Where convTranspose2d writes: windows over its result. Throws ShapeError where that has no elements. */
function transposedWindows(images: Tensor, channels: number, spec: WindowSpec, outputPadding: Pair): Windows {
  checkSpec(spec);
  const extra = pair(outputPadding);
  for (const d of [0, 1] as const) {
    const room = Math.max(spec.stride[d], spec.dilation[d]);
    if (!Number.isInteger(extra[d]) || extra[d] < 0 || extra[d] >= room) {
      throw new ShapeError(
        `output padding must be smaller than either stride or dilation, and not negative, but got output padding [${extra.join(', ')}], stride [${spec.stride.join(', ')}] and dilation [${spec.dilation.join(', ')}]`,
      );
    }
  }
  const [n, , outH, outW] = images.shape as [number, number, number, number];
  const size = (given: number, d: 0 | 1): number =>
    (given - 1) * spec.stride[d] - 2 * spec.padding[d] + spec.dilation[d] * (spec.kernel[d] - 1) + extra[d] + 1;
  const [h, w] = [size(outH, 0), size(outW, 1)];
  if (h < 1 || w < 1) {
    throw new ShapeError(
      `Given input size per channel: (${outH} x ${outW}). Calculated output size per channel: (${h} x ${w}). Output size is too small`,
    );
  }
  return { n, c: channels, h, w, outH, outW, ...spec };
}

/** The adjoint of conv2d: x [N, C, H, W] or [C, H, W], weight [C, O / groups, kh, kw] to [N, O, H', W'] or [O, H', W']. */
export const convTranspose2d = named(
  'aten::conv_transpose2d',
  (x: Tensor, weight: Tensor, options: TransposeOptions = {}): Tensor => {
    checkOptionNames(options, TRANSPOSE_OPTIONS, 'convTranspose2d()');
    checkOperands('convTranspose2d', same(SUMMING), x, weight, options.bias);
    const groups = options.groups ?? 1;
    const spec = windowSpec(weight, options);
    checkGroups(groups);
    return onImages('convTranspose2d', x, (images) => {
      checkFilled('convTranspose2d', images);
      checkTransposed('convTranspose2d', x, weight, groups);
      const [n, channels, h, w] = images.shape as [number, number, number, number];
      const perGroup = weight.shape[1] as number;
      const windows = transposedWindows(images, perGroup * groups, spec, options.outputPadding ?? 0);
      const taps = perGroup * spec.kernel[0] * spec.kernel[1];
      const flat = images.permute([1, 0, 2, 3]).reshape([groups, channels / groups, n * h * w]);
      const filters = alike(weight, x, images).reshape([groups, channels / groups, taps]);
      const columns = matmul(filters.transpose(1, 2), flat);
      return addBias(fold(columns.reshape([groups * taps, n * h * w]), windows), options.bias);
    });
  },
);

/** How windows of a pooling lie. */
export interface PoolOptions {
  /** How many elements a window is from the next. @default the kernel's size: windows beside each other */
  stride?: Pair;
  /** How many elements are added on each side, which never are the largest and are 0 in a mean; at most half the kernel. @default 0 */
  padding?: Pair;
  /** Whether a last window that reaches beyond the padding counts, if it begins inside. @default false */
  ceilMode?: boolean;
}

/** As PoolOptions, with gaps inside of windows. */
export interface MaxPoolOptions extends PoolOptions {
  /** How far apart the elements of a window are: 1 leaves none out. @default 1 */
  dilation?: Pair;
}

/** As PoolOptions, and what sums are divided by. */
export interface AvgPoolOptions extends PoolOptions {
  /** Whether the zeros of the padding count as elements. @default true */
  countIncludePad?: boolean;
  /** What sums are divided by, instead of the count of elements. */
  divisorOverride?: number;
}

export const MAX_POOL_OPTIONS = optionNames<MaxPoolOptions>()('stride padding ceilMode dilation');
export const AVG_POOL_OPTIONS = optionNames<AvgPoolOptions>()(
  'stride padding ceilMode countIncludePad divisorOverride',
);

function poolSpec(kernel: Pair, options: MaxPoolOptions): WindowSpec {
  const size = pair(kernel);
  const padding = pair(options.padding ?? 0);
  // More would make windows of nothing but padding, which have no largest element.
  if (padding[0] > size[0] / 2 || padding[1] > size[1] / 2) {
    throw new ShapeError(
      `pad should be at most half of effective kernel size, but got pad=[${padding.join(', ')}] and kernel_size=[${size.join(', ')}]`,
    );
  }
  const { dilation = 1, ceilMode = false } = options;
  return { kernel: size, stride: pair(options.stride ?? size), padding, dilation: pair(dilation), ceilMode };
}

/** The largest of each window of [N, C, H, W] or [C, H, W]; of equal ones the first gets the gradient. */
export const maxPool2d = defineFunction(
  'maxPool2d',
  each(REAL_NUMBER),
  (t: Tensor, kernel: Pair, options: MaxPoolOptions = {}): Tensor => {
    checkOptionNames(options, MAX_POOL_OPTIONS, 'maxPool2d()');
    return onImages('maxPool2d', t, (images) => {
      checkFilled('maxPool2d', images);
      const s = placeWindows(images.shape, poolSpec(kernel, options));
      checkReached(s);
      return takeAt(images, largestInWindows(images, s));
    });
  },
);

/** Throws where dilation makes windows whose elements all lie in the padding: these have no largest. */
function checkReached(s: Windows): void {
  const empty = (size: number, count: number, d: 0 | 1): boolean =>
    Array.from({ length: count }, (_, i) => i * s.stride[d] - s.padding[d]).some((from) =>
      Array.from({ length: s.kernel[d] }, (_, k) => from + k * s.dilation[d]).every((at) => at < 0 || at >= size),
    );
  if (s.dilation.some((one) => one > 1) && (empty(s.h, s.outH, 0) || empty(s.w, s.outW, 1)))
    throw new ShapeError(
      `maxPool2d: with dilation [${s.dilation.join(', ')}] and padding [${s.padding.join(', ')}] some windows have no element`,
    );
}

/** As maxPool2d, and where in its image each was: int64, rows times width plus column. */
export const maxPool2dWithIndices = defineFunction(
  'maxPool2dWithIndices',
  each(REAL_NUMBER),
  (t: Tensor, kernel: Pair, options: MaxPoolOptions = {}): [Tensor, Tensor] => {
    const largest = maxPool2d(t, kernel, options);
    const [h, w] = t.shape.slice(-2) as [number, number];
    const images = t.detach().reshape([-1, 1, h, w]);
    const at = largestInWindows(images, placeWindows(images.shape, poolSpec(kernel, options)));
    return [
      largest,
      at
        .to('int64')
        .remainder(h * w)
        .reshape(largest.shape),
    ];
  },
);

/** The mean of each window of [N, C, H, W] or [C, H, W]; padding counts as zeros. */
export const avgPool2d = defineFunction(
  'avgPool2d',
  each(union(FLOAT, setOf('int64'))),
  (t: Tensor, kernel: Pair, options: AvgPoolOptions = {}): Tensor => {
    checkOptionNames(options, AVG_POOL_OPTIONS, 'avgPool2d()');
    if (options.divisorOverride === 0) throw new RangeError('avgPool2d: divisor must be not zero');
    return onImages('avgPool2d', t, (images) => {
      checkFilled('avgPool2d', images);
      const [n, c, h, w] = images.shape as [number, number, number, number];
      const s = placeWindows([n * c, 1, h, w], poolSpec(kernel, options));
      const columns = unfold(images.reshape([n * c, 1, h, w]), s);
      const means = meansOf(columns, s, t.dtype === 'int64', options);
      return means.reshape([n, c, s.outH, s.outW]);
    });
  },
);

/** Means of columns: their sums by how many elements their windows have. */
function meansOf(columns: Tensor, s: Windows, whole: boolean, options: AvgPoolOptions): Tensor {
  const { countIncludePad = true, divisorOverride } = options;
  const plain = divisorOverride === undefined && countIncludePad && s.ceilMode !== true;
  if (plain) return whole ? wholeMeans(columns) : columns.mean(0);
  const along = (size: number, count: number, d: 0 | 1): number[] =>
    Array.from({ length: count }, (_, i) => {
      const from = i * s.stride[d] - s.padding[d];
      const to = Math.min(from + s.kernel[d], size + s.padding[d]);
      return countIncludePad ? to - from : Math.min(to, size) - Math.max(from, 0);
    });
  const [rows, places] = [along(s.h, s.outH, 0), along(s.w, s.outW, 1)];
  const counts = rows.flatMap((a) => places.map((b) => divisorOverride ?? a * b));
  const divisors = tensor(counts, { dtype: whole ? 'float64' : columns.dtype });
  const sums = columns.sum(0).reshape([s.n, s.outH * s.outW]);
  return whole ? sums.to('float64').div(divisors).trunc().to('int64') : sums.div(divisors);
}

/** The means of columns of int64, without their fractions. */
function wholeMeans(columns: Tensor): Tensor {
  const sums = columns.sum(0).to('float64');
  return sums
    .div(columns.shape[0] as number)
    .trunc()
    .to('int64');
}

/** Means over a grid of `size` regions that cover [N, C, H, W] or [C, H, W]. */
export const adaptiveAvgPool2d = defineFunction('adaptiveAvgPool2d', each(FLOAT), (t: Tensor, size: Pair): Tensor => {
  const [outH, outW] = pair(size);
  checkShape([outH, outW]);
  return onImages('adaptiveAvgPool2d', t, (images) => {
    const [n, c, h, w] = images.shape as [number, number, number, number];
    // One region is what all have in common, if there is nothing too: the mean of that is NaN.
    if ((h === 0 || w === 0) && (outH !== 1 || outW !== 1))
      throw new ShapeError(`adaptiveAvgPool2d: expected images of non-zero size, got [${t.shape.join(', ')}]`);
    if (outH === 0 || outW === 0) return images.narrow(2, 0, 0).reshape([n, c, outH, outW]);
    const rows = regions(h, outH).map(([from, length]) => images.narrow(2, from, length));
    const cells = rows.map((row) =>
      concat(
        regions(w, outW).map(([from, length]) => row.narrow(3, from, length).mean([2, 3], true)),
        3,
      ),
    );
    return concat(cells, 2);
  });
});

function regions(size: number, count: number): [from: number, length: number][] {
  return Array.from({ length: count }, (_, i): [number, number] => {
    const from = Math.floor((i * size) / count);
    return [from, Math.ceil(((i + 1) * size) / count) - from];
  });
}
