/** @file Channels as places of an image, and back: pixelShuffle, pixelUnshuffle. */
import { ShapeError } from '../errors.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction } from './define.ts';
import { ALL, each } from './takes.ts';

/** [..., C r², H, W] to [..., C, H r, W r]. */
export const pixelShuffle = defineFunction('pixelShuffle', each(ALL), (t: Tensor, factor: number): Tensor => {
  if (t.rank < 3) throw new ShapeError(`pixelShuffle expects input to have at least 3 dimensions, but got ${t.rank}`);
  if (!Number.isInteger(factor) || factor < 1)
    throw new RangeError(`pixelShuffle expects a positive upscale_factor, but got ${factor}`);
  const [c, h, w] = t.shape.slice(-3) as [number, number, number];
  const lead = t.shape.slice(0, -3);
  if (c % factor ** 2 !== 0)
    throw new ShapeError(
      `pixelShuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but ${c} is not`,
    );
  return sweep(() => {
    const n = lead.length;
    const parts = t.reshape([...lead, c / factor ** 2, factor, factor, h, w]);
    const order = [...lead.map((_, i) => i), n, n + 3, n + 1, n + 4, n + 2];
    return parts.permute(order).reshape([...lead, c / factor ** 2, h * factor, w * factor]);
  });
});

/** [..., C, H r, W r] to [..., C r², H, W]. */
export const pixelUnshuffle = defineFunction('pixelUnshuffle', each(ALL), (t: Tensor, factor: number): Tensor => {
  if (t.rank < 3) throw new ShapeError(`pixelUnshuffle expects input to have at least 3 dimensions, but got ${t.rank}`);
  if (!Number.isInteger(factor) || factor < 1)
    throw new RangeError(`pixelUnshuffle expects a positive downscale_factor, but got ${factor}`);
  const [c, h, w] = t.shape.slice(-3) as [number, number, number];
  const lead = t.shape.slice(0, -3);
  if (h % factor !== 0 || w % factor !== 0)
    throw new ShapeError(
      `pixelUnshuffle expects height and width to be divisible by downscale_factor, but got ${h} by ${w}`,
    );
  return sweep(() => {
    const n = lead.length;
    const parts = t.reshape([...lead, c, h / factor, factor, w / factor, factor]);
    const order = [...lead.map((_, i) => i), n, n + 2, n + 4, n + 1, n + 3];
    return parts.permute(order).reshape([...lead, c * factor ** 2, h / factor, w / factor]);
  });
});
