/** @file Walks two broadcast operands row by row on the host. */
import { expandStrides, contiguousStrides, sizeOf, type Shape } from '../shape.ts';

/** Calls `row(ia, sa, ib, sb, io, n)` for every innermost run of the result of two contiguous operands. */
export function forEachRow(
  aShape: Shape,
  bShape: Shape,
  out: Shape,
  row: (ia: number, sa: number, ib: number, sb: number, io: number, n: number) => void,
): void {
  const total = sizeOf(out);
  if (total === 0) return;
  const as = expandStrides(aShape, contiguousStrides(aShape), out);
  const bs = expandStrides(bShape, contiguousStrides(bShape), out);
  const dims: { n: number; a: number; b: number }[] = [];
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
  const inner = dims.pop() ?? { n: 1, a: 0, b: 0 };
  const index = new Array<number>(dims.length).fill(0);
  let ia = 0;
  let ib = 0;
  for (let io = 0; io < total; io += inner.n) {
    row(ia, inner.a, ib, inner.b, io, inner.n);
    for (let d = dims.length - 1; d >= 0; d--) {
      const dim = dims[d] as { n: number; a: number; b: number };
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
