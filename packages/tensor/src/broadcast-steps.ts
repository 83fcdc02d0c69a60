/** @file The dimensions in which two operands broadcast, as few as there can be. */
import { contiguousStrides, expandStrides, type Shape } from './shape.ts';

/** A dimension of the result, and by how much each operand moves along it: not at all where it is repeated. */
export interface Step {
  readonly n: number;
  readonly a: number;
  readonly b: number;
}

/** The dimensions of the result of two contiguous operands, those as one that both walk through as one. */
export function mergedSteps(aShape: Shape, bShape: Shape, out: Shape): Step[] {
  const as = expandStrides(aShape, contiguousStrides(aShape), out);
  const bs = expandStrides(bShape, contiguousStrides(bShape), out);
  const dims: Step[] = [];
  for (let i = 0; i < out.length; i++) {
    const n = out[i] as number;
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
