/** @file A tensor as tests compare it. */

/** What is looked at. */
interface Showable {
  readonly layout: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The entries of a sparse one. */
  readonly sparse?: { readonly coalesced: boolean; readonly indices: Showable; readonly values: Showable } | undefined;
  toDense(): Showable;
  toArray(): unknown;
}

/** All that makes two tensors equal; of sparse ones the entries as they are, in their order and with those that repeat an index. */
export function shown(t: Showable): unknown {
  const { layout, dtype, shape, sparse } = t;
  if (sparse === undefined) return { layout, dtype, shape, values: t.toArray() };
  const { coalesced, indices, values: entries } = sparse;
  const values = t.toDense().toArray();
  return { layout, dtype, shape, values, coalesced, indices: shown(indices), entries: shown(entries) };
}
