/** @file A tensor as tests compare it. */

/** What is looked at. */
interface Showable {
  readonly layout: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  toDense(): Showable;
  toArray(): unknown;
}

/** All that makes two tensors equal. */
export function shown(t: Showable): unknown {
  const { layout, dtype, shape } = t;
  return { layout, dtype, shape, values: (layout === 'sparse_coo' ? t.toDense() : t).toArray() };
}
