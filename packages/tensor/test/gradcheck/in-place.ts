/** @file Changes in place, through views and of their base, to be checked against central differences. */
import type { Tensor } from '../../src/index.ts';
import type { Case } from './case.ts';

/** Each view of a [3, 3] changed by an operand, then its base, and both read. */
export function inPlace(): Case[] {
  const views: Record<string, [view: (t: Tensor) => Tensor, shape: number[]]> = {
    'the tensor itself': [(t) => t, [3, 3]],
    select: [(t) => t.select(0, 1), [3]],
    slice: [(t) => t.slice(1, 0, 3, 2), [3, 2]],
    narrow: [(t) => t.narrow(0, 1, 2), [2, 3]],
    transpose: [(t) => t.transpose(0, 1), [3, 3]],
    unsqueeze: [(t) => t.unsqueeze(1), [3, 1, 3]],
    view: [(t) => t.view([9]), [9]],
    diagonal: [(t) => t.diagonal(), [3]],
    'diagonal of transposed': [(t) => t.transpose(0, 1).diagonal(), [3]],
    'a row of a column': [(t) => t.select(1, 2).narrow(0, 1, 1), [1]],
  };
  return Object.entries(views).flatMap(([name, [view, shape]]): Case[] => [
    [
      `mul_ through ${name}`,
      (a, b) => {
        const x = a.mul(1);
        const v = view(x).mul_(b);
        x.mul_(a);
        return x.sum().add(v.square().sum());
      },
      [3, 3],
      shape,
    ],
    [
      `div_ and copy_ through ${name}`,
      (a, b) => {
        const x = a.mul(1);
        view(x).div_(b);
        view(x).add_(b, { alpha: 2 });
        const y = x.mul(a);
        view(y).copy_(b.sigmoid());
        return x.mul(y);
      },
      [3, 3],
      shape,
    ],
  ]);
}
