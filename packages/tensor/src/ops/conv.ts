/** @file Convolution and pooling, as matrix products and reductions over windows. */
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { checkShape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { gather } from './indexing.ts';
import { concat } from './join.ts';
import { matmul } from './matmul.ts';
import {
  checkSpec,
  fold,
  largestInWindows,
  pair,
  placeWindows,
  unfold,
  type Pair,
  type WindowSpec,
} from './windows.ts';

export interface ConvOptions {
  bias?: Tensor | null;
  /** @default 1 */
  stride?: Pair;
  /** Zeros added on each side. @default 0 */
  padding?: Pair;
  /** @default 1 */
  dilation?: Pair;
  /** Channels are split into this many independent groups. @default 1 */
  groups?: number;
}

function windowSpec(weight: Tensor, options: ConvOptions): WindowSpec {
  if (weight.rank !== 4) throw new ShapeError(`expected a weight of 4 dimensions, got [${weight.shape.join(', ')}]`);
  return {
    kernel: weight.shape.slice(2) as [number, number],
    stride: pair(options.stride ?? 1),
    padding: pair(options.padding ?? 0),
    dilation: pair(options.dilation ?? 1),
  };
}

function addBias(t: Tensor, bias: Tensor | null | undefined): Tensor {
  return bias === null || bias === undefined ? t : t.add(bias.reshape([bias.size, 1, 1]));
}

/** x [N, C, H, W], weight [O, C / groups, kh, kw] to [N, O, H', W']. */
export const conv2d = named('aten::conv2d', (x: Tensor, weight: Tensor, options: ConvOptions = {}): Tensor =>
  sweep(() => {
    const groups = options.groups ?? 1;
    const spec = windowSpec(weight, options);
    const [out, inner] = weight.shape as [number, number];
    const channels = x.shape[1] as number;
    if (channels !== inner * groups || out % groups !== 0) {
      throw new ShapeError(
        `Given groups=${groups}, weight of size [${weight.shape.join(', ')}], expected input[${x.shape.join(', ')}] to have ${inner * groups} channels, but got ${channels} channels instead`,
      );
    }
    const windows = placeWindows(x.shape, spec);
    const taps = inner * spec.kernel[0] * spec.kernel[1];
    const columns = unfold(x, windows);
    const product =
      groups === 1
        ? matmul(weight.reshape([out, taps]), columns)
        : matmul(weight.reshape([groups, out / groups, taps]), columns.reshape([groups, taps, -1]));
    const image = product.reshape([out, windows.n, windows.outH, windows.outW]).permute([1, 0, 2, 3]);
    return addBias(image, options.bias);
  }),
);

/** x [N, C, L], weight [O, C / groups, k] to [N, O, L']. */
export const conv1d = named(
  'aten::conv1d',
  (
    x: Tensor,
    weight: Tensor,
    options: Omit<ConvOptions, 'stride' | 'padding' | 'dilation'> & {
      stride?: number;
      padding?: number;
      dilation?: number;
    } = {},
  ): Tensor =>
    sweep(() => {
      const { stride = 1, padding = 0, dilation = 1, ...rest } = options;
      const out = conv2d(x.unsqueeze(2), weight.unsqueeze(2), {
        ...rest,
        stride: [1, stride],
        padding: [0, padding],
        dilation: [1, dilation],
      });
      return out.squeeze(2);
    }),
);

/** The adjoint of conv2d: x [N, C, H, W], weight [C, O / groups, kh, kw] to [N, O, H', W']. */
export const convTranspose2d = named(
  'aten::conv_transpose2d',
  (x: Tensor, weight: Tensor, options: ConvOptions & { outputPadding?: Pair } = {}): Tensor =>
    sweep(() => {
      const groups = options.groups ?? 1;
      const spec = windowSpec(weight, options);
      checkSpec(spec);
      const extra = pair(options.outputPadding ?? 0);
      const [n, channels, h, w] = x.shape as [number, number, number, number];
      const [inC, perGroup] = weight.shape as [number, number];
      if (channels !== inC || channels % groups !== 0) {
        throw new ShapeError(`convTranspose2d: weight [${weight.shape.join(', ')}] does not fit ${channels} channels`);
      }
      const size = (given: number, d: 0 | 1): number =>
        (given - 1) * spec.stride[d] - 2 * spec.padding[d] + spec.dilation[d] * (spec.kernel[d] - 1) + extra[d] + 1;
      const outC = perGroup * groups;
      const windows = { ...spec, n, c: outC, h: size(h, 0), w: size(w, 1), outH: h, outW: w };
      const taps = perGroup * spec.kernel[0] * spec.kernel[1];
      const flat = x.permute([1, 0, 2, 3]).reshape([groups, channels / groups, n * h * w]);
      const columns = matmul(weight.reshape([groups, channels / groups, taps]).transpose(1, 2), flat);
      return addBias(fold(columns.reshape([groups * taps, n * h * w]), windows), options.bias);
    }),
);

export interface PoolOptions {
  /** @default the kernel's size */
  stride?: Pair;
  /** @default 0 */
  padding?: Pair;
}

function poolSpec(kernel: Pair, options: PoolOptions): WindowSpec {
  const size = pair(kernel);
  const padding = pair(options.padding ?? 0);
  // More would make windows of nothing but padding, which have no largest element.
  if (padding[0] > size[0] / 2 || padding[1] > size[1] / 2) {
    throw new ShapeError(
      `pad should be at most half of effective kernel size, but got pad=[${padding.join(', ')}] and kernel_size=[${size.join(', ')}]`,
    );
  }
  return { kernel: size, stride: pair(options.stride ?? size), padding, dilation: [1, 1] };
}

/** The largest of each window of [N, C, H, W]; of equal ones the first gets the gradient. */
export const maxPool2d = named('aten::max_pool2d', (t: Tensor, kernel: Pair, options: PoolOptions = {}): Tensor =>
  sweep(() => {
    const s = placeWindows(t.shape, poolSpec(kernel, options));
    const flat = t.reshape([s.n * s.c, s.h * s.w]);
    return gather(flat, 1, largestInWindows(t, s)).reshape([s.n, s.c, s.outH, s.outW]);
  }),
);

/** The mean of each window of [N, C, H, W]; padding counts as zeros. */
export const avgPool2d = named('aten::avg_pool2d', (t: Tensor, kernel: Pair, options: PoolOptions = {}): Tensor =>
  sweep(() => {
    const [n, c, h, w] = t.shape as [number, number, number, number];
    if (t.rank !== 4) throw new ShapeError(`expected images [N, C, H, W], got [${t.shape.join(', ')}]`);
    const s = placeWindows([n * c, 1, h, w], poolSpec(kernel, options));
    return unfold(t.reshape([n * c, 1, h, w]), s)
      .mean(0)
      .reshape([n, c, s.outH, s.outW]);
  }),
);

/** Means over a grid of `size` regions that cover [N, C, H, W]. */
export const adaptiveAvgPool2d = named('aten::adaptive_avg_pool2d', (t: Tensor, size: Pair): Tensor =>
  sweep(() => {
    const [outH, outW] = pair(size);
    checkShape([outH, outW]);
    const rows = regions(t.shape[2] as number, outH).map(([from, n]) => t.narrow(2, from, n));
    const cells = rows.map((row) =>
      concat(
        regions(t.shape[3] as number, outW).map(([from, n]) => row.narrow(3, from, n).mean([2, 3], true)),
        3,
      ),
    );
    return concat(cells, 2);
  }),
);

function regions(size: number, count: number): [from: number, length: number][] {
  return Array.from({ length: count }, (_, i): [number, number] => {
    const from = Math.floor((i * size) / count);
    return [from, Math.ceil(((i + 1) * size) / count) - from];
  });
}
