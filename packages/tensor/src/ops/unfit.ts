/** @file What products say of operands that do not fit. */
import type { Tensor } from '../tensor.ts';

/** That matrices do not fit, in PyTorch's words, which people look for. */
export function noProduct(x: readonly number[], y: readonly number[]): string {
  const [m, k, p, n] = [x.at(-2), x.at(-1), y.at(-2), y.at(-1)];
  return `mat1 and mat2 shapes cannot be multiplied (${m}x${k} and ${p}x${n})`;
}

/** What a weight of a linear map takes, and what x is instead. */
export function unfit(x: Tensor, weight: Tensor): string {
  const [last, width] = [x.shape.at(-1), weight.shape.at(-1) as number];
  const text = `x [..., ${width}], got [${x.shape.join(', ')}]`;
  if (last === undefined || last === 0 || weight.rank === 1) return text;
  return `${text}: ${noProduct([x.size / last, last], [width, weight.shape[0] as number])}`;
}
