/** @file The dimensions in which two layouts are walked, as few as there can be. */
import { contiguousStrides, expandStrides, type Shape } from './shape.ts';

/** A dimension, and by how much each side moves along it: not at all where it is repeated. */
export interface Step {
  readonly n: number;
  readonly a: number;
  readonly b: number;
}

/** The dimensions of the result of two contiguous operands, merged. */
export function mergedSteps(aShape: Shape, bShape: Shape, out: Shape): Step[] {
  const as = expandStrides(aShape, contiguousStrides(aShape), out);
  return merged(out, as, expandStrides(bShape, contiguousStrides(bShape), out));
}

/** Merges neighbouring dimensions that both sides walk as one, and drops those of one element. */
export function merged(shape: Shape, as: Shape, bs: Shape): Step[] {
  const dims: Step[] = [];
  for (let i = 0; i < shape.length; i++) {
    const n = shape[i] as number;
    if (n === 1) continue;
    const a = as[i] as number;
    const b = bs[i] as number;
    const before = dims.at(-1);
    if (before !== undefined && before.a === a * n && before.b === b * n)
      dims[dims.length - 1] = { n: before.n * n, a, b };
    else dims.push({ n, a, b });
  }
  return dims;
}
