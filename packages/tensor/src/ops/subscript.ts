/** @file Indexing as programs write it: `x.index([mask])`, `x.index([0, ':', ids])`, and writing to what such an index names. */
import { full, tensor } from '../creation.ts';
import { decode } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { readArray } from '../host.ts';
import type { IndexItem as Item, IndexPutOptions, Slice } from '../arranging-methods.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { checkOptionNames } from '../option-names.ts';
import { broadcastShapes, normalizeDim, sizeOf, type Shape } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { checkFill } from '../range.ts';
import { indexAdd, indexCopy, indexSelect } from './indexing.ts';
import { checkOverlap } from './overlap.ts';
import { scalar } from './promotion.ts';
import { where } from './where.ts';
import { nonzero } from './structure.ts';
import { check, each, REAL } from './takes.ts';
import { select, slice, unsqueeze } from './views.ts';

type IndexItem = Item<Tensor>;

const SLICE = /^\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?$/;

/** A view, and positions along some of its dimensions: all that an index names. */
interface Place {
  readonly view: Tensor;
  /** Positions along each dimension of the view; undefined: all of it. */
  readonly at: readonly (Tensor | undefined)[];
}

/** How many dimensions an item names. */
function dimsOf(item: IndexItem | Tensor): number {
  if (item === null || item === '...') return 0;
  return item instanceof Tensor && item.dtype === 'bool' ? item.rank : 1;
}

function asTensor(item: IndexItem): IndexItem {
  if (!Array.isArray(item)) return item;
  let first: unknown = item;
  while (Array.isArray(first)) first = first[0] as unknown;
  return tensor(item as never, { dtype: typeof first === 'boolean' ? 'bool' : 'int64' });
}

function sliceOf(item: string | Slice): Slice {
  if (typeof item !== 'string') return item;
  const parts = SLICE.exec(item);
  if (parts === null) throw new ShapeError(`an index is written '1:3', ':', '::2' or '...', but got '${item}'`);
  const [start, end, step] = parts.slice(1).map((part) => (part === undefined ? undefined : Number(part)));
  return {
    ...(start === undefined ? {} : { start }),
    ...(end === undefined ? {} : { end }),
    ...(step === undefined ? {} : { step }),
  };
}

/** Bytes are masks in PyTorch, which warns of it, and positions to whoever has them in a Uint8Array: neither is guessed. */
function checkItem(item: IndexItem): void {
  if (!(item instanceof Tensor) || item.dtype !== 'uint8') return;
  throw new DTypeError(
    "an index takes no uint8, which may be a mask or positions: convert it, a mask by to('bool'), positions by to('int64')",
  );
}

/** Takes the basic part of an index, which views can name, off the rest. */
function placeOf(t: Tensor, given: readonly IndexItem[]): Place {
  if (!Array.isArray(given)) throw new TypeError('an index is a list, with an item for each dimension');
  const items = given.map(asTensor);
  items.forEach(checkItem);
  if (items.filter((item) => item === '...').length > 1)
    throw new ShapeError("an index can only have a single ellipsis ('...')");
  const count = items.reduce((sum: number, item) => sum + dimsOf(item), 0);
  if (count > t.rank) throw new ShapeError(`too many indices for tensor of dimension ${t.rank}`);
  let view = t;
  let dim = 0;
  const at: (Tensor | undefined)[] = [];
  const skip = (n: number): void => {
    for (; n > 0; n--, dim++) at.push(undefined);
  };
  for (const item of items) {
    if (item === '...') skip(t.rank - count);
    else if (item === null) {
      view = unsqueeze(view, dim);
      skip(1);
    } else if (typeof item === 'number') view = selectAt(view, dim, item);
    else if (item instanceof Tensor) {
      if (item.rank === 0 && item.dtype !== 'bool') view = selectAt(view, dim, item.item());
      else if (item.dtype === 'bool' && item.rank === 0) {
        view = unsqueeze(view, dim);
        at.push(positionsOf(item.reshape([1]))[0]);
        dim++;
      } else {
        const positions = item.dtype === 'bool' ? maskPositions(view, dim, item) : [item];
        at.push(...positions);
        dim += positions.length;
      }
    } else {
      const { start, end, step } = sliceOf(item as string | Slice);
      view = slice(view, dim, start, end, step);
      skip(1);
    }
  }
  skip(view.rank - dim);
  return { view, at };
}

function selectAt(view: Tensor, dim: number, index: number): Tensor {
  const n = view.shape[dim] ?? 0;
  if (!Number.isInteger(index)) throw new DTypeError(`tensors are indexed by whole numbers, but got ${index}`);
  if (index < -n || index >= n)
    throw new ShapeError(`index ${index} is out of bounds for dimension ${dim} with size ${n}`);
  return select(view, dim, index);
}

function maskPositions(view: Tensor, dim: number, mask: Tensor): Tensor[] {
  mask.shape.forEach((n, i) => {
    if (n === view.shape[dim + i]) return;
    throw new ShapeError(
      `The shape of the mask [${mask.shape.join(', ')}] at index ${i} does not match the shape of the indexed tensor [${view.shape.join(', ')}] at index ${dim + i}`,
    );
  });
  return positionsOf(mask);
}

/** Where a mask holds: a vector of positions for each of its dimensions. */
function positionsOf(mask: Tensor): Tensor[] {
  return nonzero(mask).unbind(1);
}

/** Positions in the indexed dimensions as one, and how the result is arranged. */
interface Rows {
  /** Into the indexed dimensions, taken as one: a vector. */
  readonly rows: Tensor;
  /** The shape that the positions broadcast to. */
  readonly shape: Shape;
  /** The dimensions of the view, the indexed ones first. */
  readonly order: readonly number[];
  readonly indexed: readonly number[];
  /** Where the positions' dimensions are in the result. */
  readonly front: number;
}

function rowsOf({ view, at }: Place): Rows {
  const indexed = at.flatMap((one, d) => (one === undefined ? [] : [d]));
  const others = at.flatMap((one, d) => (one === undefined ? [d] : []));
  const given = indexed.map((d) => at[d] as Tensor);
  for (const one of given) check('index', each(REAL, 'positions are integers, masks bool'), [one]);
  let shape: Shape = [];
  try {
    for (const one of given) shape = broadcastShapes(shape, one.shape);
  } catch {
    throw new ShapeError(
      `shape mismatch: indexing tensors could not be broadcast together with shapes ${given.map((one) => `[${one.shape.join(', ')}]`).join(', ')}`,
    );
  }
  const out = new BigInt64Array(sizeOf(shape));
  for (const [i, one] of given.entries()) addPositions(out, one, shape, indexed[i] as number, view);
  const first = indexed[0] as number;
  const together = indexed.every((d, i) => d === first + i);
  return {
    rows: tensor(out, { dtype: 'int64', shape: [out.length] }),
    shape,
    order: [...indexed, ...others],
    indexed,
    front: together ? first : 0,
  };
}

/** out = out n + the positions along one more dimension, of size n. */
function addPositions(out: BigInt64Array, positions: Tensor, shape: Shape, dim: number, view: Tensor): void {
  const n = view.shape[dim] as number;
  const wide = positions.detach().expand(shape);
  const values = decode(readArray(wide), wide.dtype);
  for (let i = 0; i < out.length; i++) {
    const v = values[i] as number;
    if (!Number.isInteger(v)) throw new DTypeError(`indices must be whole numbers, but got ${v}`);
    if (v < -n || v >= n) throw new ShapeError(`index ${v} is out of bounds for dimension ${dim} with size ${n}`);
    out[i] = (out[i] as bigint) * BigInt(n) + BigInt(v < 0 ? v + n : v);
  }
}

/** The view with its indexed dimensions first and as one. */
function lined(view: Tensor, { order, indexed }: Rows): Tensor {
  const rest = order.slice(indexed.length).map((d) => view.shape[d] as number);
  const rows = sizeOf(indexed.map((d) => view.shape[d] as number));
  return view.permute(order).reshape([rows, ...rest]);
}

/** The order that puts `count` dimensions from the front to position `at`. */
function moved(count: number, rank: number, at: number): number[] {
  const rest = Array.from({ length: rank - count }, (_, i) => count + i);
  const own = Array.from({ length: count }, (_, i) => i);
  return [...rest.slice(0, at), ...own, ...rest.slice(at)];
}

/** Whether views name all of it. */
function isBasic({ at }: Place): boolean {
  return at.every((one) => one === undefined);
}

/**
 * The part of `t` that `items` name. Numbers, slices, '...' and null give a view; positions and masks a copy, whose dimensions stand
 * where the indexed ones stood, or in front where there is a slice between these.
 */
export const index = named('aten::index', (t: Tensor, items: readonly IndexItem[]): Tensor => {
  const place = placeOf(t, items);
  if (isBasic(place)) return place.view === t ? t.alias() : place.view;
  return sweep(() => {
    const rows = rowsOf(place);
    const picked = indexSelect(lined(place.view, rows), 0, rows.rows);
    const spread = picked.reshape([...rows.shape, ...picked.shape.slice(1)]);
    return rows.front === 0 ? spread : spread.permute(moved(rows.shape.length, spread.rank, rows.front));
  });
});

/** Leading dimensions of 1 that a value has more than what it is written to. */
function trimmed(value: Tensor, rank: number): Tensor {
  let t = value;
  while (t.rank > rank && t.shape[0] === 1) t = t.squeeze(0);
  return t;
}

/** `place.view` with `value` written to, or added at, what `place` names. */
function written(place: Place, value: Tensor, accumulate: boolean): Tensor {
  const { view } = place;
  const rows = rowsOf(place);
  const line = lined(view, rows);
  const rest = line.shape.slice(1);
  const shown = [...rest.slice(0, rows.front), ...rows.shape, ...rest.slice(rows.front)];
  const wide = fitted(trimmed(value, shown.length), shown);
  // From where the positions' dimensions stand to the front.
  const lead = Array.from({ length: rows.shape.length }, (_, i) => rows.front + i);
  const others = shown.flatMap((_, d) => (lead.includes(d) ? [] : [d]));
  const source = wide.permute([...lead, ...others]).reshape([sizeOf(rows.shape), ...rest]);
  const result = (accumulate ? indexAdd : indexCopy)(line, 0, rows.rows, source);
  const back = result.reshape(rows.order.map((d) => view.shape[d] as number));
  return back.permute(rows.order.map((_, d) => rows.order.indexOf(d)));
}

function fitted(value: Tensor, shape: Shape): Tensor {
  try {
    return value.expand(shape);
  } catch {
    throw new ShapeError(
      `shape mismatch: value tensor of shape [${value.shape.join(', ')}] cannot be broadcast to indexing result of shape [${shape.join(', ')}]`,
    );
  }
}

function valueFor(t: Tensor, value: Tensor | number): Tensor {
  if (typeof value !== 'number') return value;
  checkFill(value, t.dtype);
  return scalar(value, t.dtype);
}

function checkValue(t: Tensor, value: Tensor): void {
  if (value.dtype === t.dtype) return;
  throw new DTypeError(
    `Index put requires the source and destination dtypes match, got ${t.dtype} for the destination and ${value.dtype} for the source.`,
  );
}

const PUT_OPTIONS: ReadonlySet<string> = new Set(['accumulate']);

/** Writes `value`, broadcast, to the part of `t` that `items` name; of equal positions the last wins. */
export const indexPut_ = named(
  'aten::index_put_',
  <T extends Tensor>(t: T, items: readonly IndexItem[], value: Tensor | number, options: IndexPutOptions = {}): T => {
    checkOptionNames(options, PUT_OPTIONS, 'indexPut()');
    const place = placeOf(t, items);
    const source = valueFor(t, value);
    sweep(() => {
      if (isBasic(place)) {
        const own = trimmed(source, place.view.rank);
        if (options.accumulate === true) place.view.add_(own);
        else place.view.copy_(own);
        return;
      }
      checkValue(t, source);
      checkOverlap(t, source);
      place.view.copy_(written(place, source, options.accumulate === true));
    });
    return t;
  },
);

/** As indexPut_, but a copy of `t` is written to. */
export const indexPut = named(
  'aten::index_put',
  (t: Tensor, items: readonly IndexItem[], value: Tensor | number, options: IndexPutOptions = {}): Tensor =>
    sweep(() => indexPut_(t.clone(), items, value, options)),
);

/** The elements of `t`, taken as a vector, at positions; negative ones count from the end. In the shape of `positions`. */
export const take = named('aten::take', (t: Tensor, positions: Tensor): Tensor =>
  sweep(() =>
    index(t.reshape([t.size]), [positions.rank === 0 ? positions.reshape([1]) : positions]).reshape(positions.shape),
  ),
);

/** Negative positions counted from the end of a dimension of size `n`. */
function fromEnd(at: Tensor, n: number): Tensor {
  const own = at.detach();
  return own.lt(0).any().item() === 0 ? own : where(own.lt(0), own.add(n), own);
}

/** `t` with the slices at `at` (a vector) of `dim` filled with `value`. */
export const indexFill = named('aten::index_fill', (t: Tensor, dim: number, at: Tensor, value: number): Tensor =>
  sweep(() => {
    checkFill(value, t.dtype);
    const d = normalizeDim(dim, t.rank);
    // A source without dimensions would be for one position.
    if (t.rank === 0) return indexFill(t.reshape([1]), 0, at, value).reshape([]);
    const shape = t.shape.map((n, k) => (k === d ? at.size : n));
    return indexCopy(t, dim, fromEnd(at, t.shape[d] as number), full(shape, value, { dtype: t.dtype }));
  }),
);
