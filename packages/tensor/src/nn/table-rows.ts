/** @file What tables of rows have in common: reading rows by ids, their padding, and what changes rows or gradients by the ids that are read. */
import { calledAs } from '../called-as.ts';
import { noGrad } from '../autograd/record.ts';
import { tensor } from '../creation.ts';
import { readNumbers } from '../host.ts';
import { defineOp } from '../ops/define.ts';
import { apply } from '../ops/op.ts';
import { ALL, each, indexed, setOf } from '../ops/takes.ts';
import { sweep } from '../scope.ts';
import { Parameter, type Tensor } from '../tensor.ts';

/** What ids are of: float32 is what lists of numbers make. Smaller integers are no ids in PyTorch either. */
export const IDS = each(setOf('int64', 'int32', 'float32', 'float64'));

/** The first operand as it is; its gradient is multiplied by the second. */
const scaleGradient = defineOp('scaleGradient', each(ALL), ([rows]) => rows.detach().clone());

/** `table[ids]`; its gradient names only the rows that were read. */
const sparseLookup = defineOp('embedding', indexed(each(ALL)), ([weight, at]) => {
  return sweep(() => selected(weight.detach(), at));
});

function selected(table: Tensor, ids: Tensor): Tensor {
  return table.indexSelect(0, ids.reshape([ids.size])).reshape([...ids.shape, table.shape[1] as number]);
}

/**
 * The rows of `table` [count, dim] at `ids` [...], as [..., dim].
 * @param name of the layer that is asked for them
 * @param sparse whether the gradient names only the rows that were read
 * @throws ShapeError naming the first id outside [0, count).
 */
export function lookup(name: string, table: Tensor, ids: Tensor, sparse: boolean): Tensor {
  return calledAs(name, () => (sparse ? apply(sparseLookup, [table, ids], undefined) : selected(table, ids)));
}

/**
 * `rows` [..., dim], which were read at `ids` [...]; only their gradients are others.
 * @param padding the row that gets none
 * @param byFrequency whether the gradient of a row is divided by how often it was read
 */
export function shareGradients(rows: Tensor, ids: Tensor, padding: number, byFrequency: boolean): Tensor {
  const numbers = readNumbers(ids);
  const counts = new Map<number, number>();
  if (byFrequency) for (const id of numbers) counts.set(id, (counts.get(id) ?? 0) + 1);
  const shares = Float64Array.from(numbers, (id) => (id === padding ? 0 : 1 / (counts.get(id) ?? 1)));
  return sweep(() =>
    apply(scaleGradient, [rows, tensor(shares, { shape: [...ids.shape, 1], dtype: rows.dtype })], undefined),
  );
}

/** Scales the rows of `table` at `ids`, in place, to a norm of at most `maxNorm`; none where an id is no row. */
export function renormRows(table: Tensor, ids: Tensor, maxNorm: number, normType: number): void {
  noGrad(() =>
    sweep(() => {
      const own = [...new Set(Array.from(readNumbers(ids)))];
      const count = table.shape[0] as number;
      // What reads the rows says which id there is not: until then nothing is scaled.
      if (!own.every((id) => Number.isInteger(id) && id >= 0 && id < count)) return;
      for (const id of own) {
        const row = table.detach().narrow(0, id, 1);
        const size = row.norm(normType).item();
        if (size > maxNorm) row.mul_(maxNorm / (size + 1e-7));
      }
    }),
  );
}

/** What `fromPretrained` makes: a layer over given rows [count, dim], which are trained where they are not frozen. */
export function overRows<L extends object>(
  table: Tensor,
  { paddingIdx, freeze = true }: { readonly paddingIdx?: number; readonly freeze?: boolean },
  make: (count: 0, dim: number) => L,
): L {
  if (table.rank !== 2) throw new RangeError('Embeddings parameter is expected to be 2-dimensional');
  const [count, dim] = table.shape as [number, number];
  const padding = paddingRow(count, paddingIdx);
  // Made without rows: none is drawn only to be thrown away, and random numbers go on as if there had been nothing.
  return Object.assign(make(0, dim), { padding, weight: new Parameter(table.detach(), !freeze) });
}

/** The row that `paddingIdx` means; -1 for none. */
export function paddingRow(count: number, paddingIdx: number | undefined): number {
  if (paddingIdx === undefined) return -1;
  if (!Number.isInteger(paddingIdx) || paddingIdx >= count || paddingIdx < -count)
    throw new RangeError(`paddingIdx must be within the ${count} rows of the table, but got ${paddingIdx}`);
  return paddingIdx < 0 ? paddingIdx + count : paddingIdx;
}
