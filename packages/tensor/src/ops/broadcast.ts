/** @file How two operands broadcast: walked row by row on the host, or as the fewest dimensions for a kernel. */
import { mergedSteps, type Step } from '../broadcast-steps.ts';
import { sizeOf, type Shape } from '../shape.ts';

/** The shapes of two contiguous operands with the fewest dimensions that broadcast in the same way. */
export function mergedShapes(aShape: Shape, bShape: Shape, out: Shape): { a: number[]; b: number[] } {
  const steps = mergedSteps(aShape, bShape, out);
  return { a: steps.map(({ n, a }) => (a === 0 ? 1 : n)), b: steps.map(({ n, b }) => (b === 0 ? 1 : n)) };
}

/** Calls `row(ia, sa, ib, sb, io, n)` for every innermost run of the result of two contiguous operands. */
export function forEachRow(
  aShape: Shape,
  bShape: Shape,
  out: Shape,
  row: (ia: number, sa: number, ib: number, sb: number, io: number, n: number) => void,
): void {
  const total = sizeOf(out);
  if (total === 0) return;
  const dims = mergedSteps(aShape, bShape, out);
  const inner = dims.pop() ?? { n: 1, a: 0, b: 0 };
  const index = new Array<number>(dims.length).fill(0);
  let ia = 0;
  let ib = 0;
  for (let io = 0; io < total; io += inner.n) {
    row(ia, inner.a, ib, inner.b, io, inner.n);
    for (let d = dims.length - 1; d >= 0; d--) {
      const dim = dims[d] as Step;
      ia += dim.a;
      ib += dim.b;
      const next = (index[d] as number) + 1;
      if (next < dim.n) {
        index[d] = next;
        break;
      }
      ia -= dim.a * dim.n;
      ib -= dim.b * dim.n;
      index[d] = 0;
    }
  }
}
