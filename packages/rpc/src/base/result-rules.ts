/** @file The sizes of results that are larger than the tensors they are made from, operation by operation. */
import { amax, Tensor } from '@backwire/tensor';
import { dtypeBytes } from '@backwire/wire/internal';

type Shape = readonly number[];
/** Elements of the result. */
type Rule = (args: readonly unknown[]) => number;

export function multiply(sizes: Shape): number {
  return sizes.reduce((product, size) => product * size, 1);
}

function shapeOf(value: unknown): Shape {
  return value instanceof Tensor ? (value as Tensor).shape : [];
}

/** Those in lists and options, too. */
function tensorsIn(args: readonly unknown[]): Tensor[] {
  return args.flatMap((arg): Tensor[] => {
    if (arg instanceof Tensor) return [arg as Tensor];
    if (typeof arg !== 'object' || arg === null) return [];
    return Object.values(arg).filter((each): each is Tensor => each instanceof Tensor);
  });
}

/** Bytes of an element: the most that an argument has, or the dtype that one names. What is computed of truth values are integers. */
export function widest(args: readonly unknown[]): number {
  const given = [...tensorsIn(args).map(({ dtype }) => dtype), ...args.filter((arg) => typeof arg === 'string')];
  return Math.max(1, ...given.map((dtype) => dtypeBytes(dtype === 'bool' ? 'int64' : dtype) ?? 1));
}

/**
 * The general rule: the tensors broadcast together, or the largest of them where they cannot be. As many of them as the operation may
 * take: what is sent besides, and is ignored, must not make the others look smaller.
 */
export function broadcast(args: readonly unknown[]): number {
  const same = sizeOfOneShape(args);
  if (same !== undefined) return same;
  const shapes = tensorsIn(args).map(({ shape }) => shape);
  return Math.max(0, ...shapes.flatMap((shape, i) => [multiply(shape), broadcastSize(shapes.slice(0, i + 1))]));
}

/** Elements where all that is given are tensors of one shape and numbers, as it mostly is: this is asked at every call of an operation. */
function sizeOfOneShape(args: readonly unknown[]): number | undefined {
  let first: Shape | undefined;
  for (const arg of args) {
    if (typeof arg !== 'object' || arg === null) continue;
    if (!(arg instanceof Tensor)) return undefined;
    const { shape } = arg as Tensor;
    first ??= shape;
    if (shape.length !== first.length || shape.some((size, i) => size !== first?.[i])) return undefined;
  }
  return first && multiply(first);
}

/** 0 where they cannot be. */
function broadcastSize(shapes: readonly Shape[]): number {
  const rank = Math.max(0, ...shapes.map(({ length }) => length));
  let size = 1;
  for (let back = 1; back <= rank; back++) {
    const [one = 1, another] = new Set(shapes.map((shape) => shape.at(-back) ?? 1).filter((each) => each !== 1));
    if (another !== undefined) return 0;
    size *= one;
  }
  return size;
}

/** Matrix products: the batches broadcast, the rows of the first, the columns of the second. */
function product(a: Shape, b: Shape): number {
  const rows = a.length < 2 ? 1 : (a.at(-2) as number);
  const columns = b.length < 2 ? 1 : (b.at(-1) as number);
  return broadcastSize([a.slice(0, -2), b.slice(0, -2)]) * rows * columns;
}

/** A number, or the largest or smallest of several. */
function numberIn(options: unknown, key: string, none: number, pick: (...each: number[]) => number): number {
  const given: unknown = (options as Record<string, unknown> | undefined)?.[key] ?? none;
  const list = (Array.isArray(given) ? (given as unknown[]) : [given]).filter((each) => typeof each === 'number');
  return list.length === 0 ? none : pick(...list);
}

/** Images of `channels` after a window has gone over them; the window itself is not subtracted. */
function slide(shape: Shape, spatial: number, channels: number, options: unknown): number {
  const padding = 2 * numberIn(options, 'padding', 0, Math.max);
  const stride = Math.max(1, numberIn(options, 'stride', 1, Math.min));
  const places = shape.slice(-spatial).map((size) => Math.floor((size + padding) / stride) + 1);
  return images(shape, spatial) * channels * multiply(places);
}

function images(shape: Shape, spatial: number): number {
  return multiply(shape.slice(0, Math.max(0, shape.length - spatial - 1)));
}

function channelsOf(shape: Shape): number {
  return shape.at(-3) ?? 1;
}

/** Images that a transposed window of `spatial` dimensions makes. */
function spread(shape: Shape, weight: Shape, spatial: number, options: unknown): number {
  const stride = numberIn(options, 'stride', 1, Math.max);
  const dilation = numberIn(options, 'dilation', 1, Math.max);
  const more = numberIn(options, 'outputPadding', 0, Math.max);
  const places = Array.from({ length: spatial }, (_, i) => i + 1).map(
    (back) => ((shape.at(-back) ?? 1) - 1) * stride + dilation * (weight.at(-back) ?? 1) + more + 1,
  );
  const channels = (weight[1] ?? 1) * numberIn(options, 'groups', 1, Math.max);
  return images(shape, spatial) * channels * multiply(places);
}

/** One more than the largest value, for results that have a place for each value. */
function values(t: unknown): number {
  if (!(t instanceof Tensor) || t.size === 0 || t.dtype === 'complex64') return 0;
  return amax((t as Tensor).detach()).item() + 1;
}

/** The size of `args[0]` with `index` in place of one of its dimensions. */
function selected([t, dim, index]: readonly unknown[]): number {
  const shape = shapeOf(t);
  const all = multiply(shape);
  const replaced = typeof dim === 'number' ? (shape.at(dim) ?? 1) : 1;
  return replaced === 0 ? 0 : (all / replaced) * multiply(shapeOf(index));
}

/** Operations whose results are larger than the tensors they get, broadcast together. */
export const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['outer', ([a, b]) => multiply(shapeOf(a)) * multiply(shapeOf(b))],
  ['matmul', ([a, b]) => product(shapeOf(a), shapeOf(b))],
  ['mm', ([a, b]) => product(shapeOf(a), shapeOf(b))],
  ['bmm', ([a, b]) => product(shapeOf(a), shapeOf(b))],
  ['dot', () => 1],
  ['addmm', ([, a, b]) => product(shapeOf(a), shapeOf(b))],
  ['linear', ([x, w]) => (multiply(shapeOf(x)) / (shapeOf(x).at(-1) || 1)) * (shapeOf(w)[0] ?? 1)],
  ['scaled_dot_product_attention', ([q, , v]) => product(shapeOf(q), shapeOf(v))],
  ['linalg_solve', ([a, b]) => Math.max(product(shapeOf(a), shapeOf(b)), broadcast([a, b]))],
  ['cat', joined],
  ['stack', joined],
  ['hstack', joined],
  ['vstack', joined],
  ['dstack', joined],
  ['column_stack', joined],
  ['baddbmm', ([c, a, b]) => Math.max(product(shapeOf(a), shapeOf(b)), multiply(shapeOf(c)))],
  [
    'cdist',
    ([a, b]) => product(shapeOf(a), [...shapeOf(b).slice(0, -2), 1, shapeOf(b).at(-2) ?? 1]) * (shapeOf(a).at(-1) ?? 1),
  ],
  ['einsum', ([equation, ...tensors]) => contracted(String(equation), tensors.map(shapeOf))],
  ['meshgrid', ([tensors]) => tensorsIn([tensors]).length * multiply(tensorsIn([tensors]).map(({ size }) => size))],
  ['broadcast_tensors', ([tensors]) => tensorsIn([tensors]).length * broadcast([tensors])],
  ['broadcast_to', expanded],
  ['expand', expanded],
  ['repeat', ([t, ...counts]) => multiply(shapeOf(t)) * multiply(listed(counts))],
  ['repeat_interleave', ([t, counts]) => multiply(shapeOf(t)) * Math.max(0, largest(counts))],
  ['index', ([t, items]) => indexed(shapeOf(t), items)],
  ['take', ([, index]) => multiply(shapeOf(index))],
  ['take_along_dim', ([t, index, dim]) => (typeof dim === 'number' ? broadcast([t, index]) : multiply(shapeOf(index)))],
  ['multinomial', ([t, count]) => longs(t, (multiply(shapeOf(t)) / (shapeOf(t).at(-1) || 1)) * largest(count))],
  [
    'quantile',
    ([t, q, dim]) =>
      (typeof dim === 'number' ? multiply(shapeOf(t)) / (shapeOf(t).at(dim) || 1) : 1) *
      Math.max(1, multiply(shapeOf(q)), numbers(q).length),
  ],
  ['linalg_svd', ([t]) => 3 * multiply(shapeOf(t))],
  ['tile', ([t, counts]) => multiply(shapeOf(t)) * (Array.isArray(counts) ? multiply(counts as number[]) : 1)],
  ['pad', ([t, pads]) => padded(shapeOf(t), pads)],
  ['diag_embed', ([t]) => multiply(shapeOf(t)) * (shapeOf(t).at(-1) ?? 1)],
  ['one_hot', ([t, classes]) => longs(t, multiply(shapeOf(t)) * (typeof classes === 'number' ? classes : 0))],
  ['bincount', ([t, , least]) => longs(t, Math.max(values(t), typeof least === 'number' ? least : 0))],
  ['nonzero', ([t]) => longs(t, multiply(shapeOf(t)) * shapeOf(t).length)],
  ['index_select', selected],
  ['gather', ([, , index]) => multiply(shapeOf(index))],
  ['conv1d', ([x, w, options]) => slide(shapeOf(x), 1, shapeOf(w)[0] ?? 1, options)],
  ['conv2d', ([x, w, options]) => slide(shapeOf(x), 2, shapeOf(w)[0] ?? 1, options)],
  ['conv_transpose2d', ([x, w, options]) => spread(shapeOf(x), shapeOf(w), 2, options)],
  ['conv3d', ([x, w, options]) => slide(shapeOf(x), 3, shapeOf(w)[0] ?? 1, options)],
  ['conv_transpose1d', ([x, w, options]) => spread(shapeOf(x), shapeOf(w), 1, options)],
  ['conv_transpose3d', ([x, w, options]) => spread(shapeOf(x), shapeOf(w), 3, options)],
  ['max_pool1d', ([x, , options]) => slide(shapeOf(x), 1, shapeOf(x).at(-2) ?? 1, options)],
  ['avg_pool1d', ([x, , options]) => slide(shapeOf(x), 1, shapeOf(x).at(-2) ?? 1, options)],
  ['max_pool2d_with_indices', ([x, , options]) => 3 * slide(shapeOf(x), 2, channelsOf(shapeOf(x)), options)],
  ['max_pool2d', ([x, , options]) => slide(shapeOf(x), 2, channelsOf(shapeOf(x)), options)],
  ['avg_pool2d', ([x, , options]) => slide(shapeOf(x), 2, channelsOf(shapeOf(x)), options)],
  ['adaptive_avg_pool1d', ([x, size]) => images(shapeOf(x), 1) * (shapeOf(x).at(-2) ?? 1) * largest(size)],
  ['adaptive_avg_pool2d', ([x, size]) => pooled(shapeOf(x), size)],
  ['upsample', ([x, options]) => resampled(shapeOf(x), options)],
]);

/** All tensors side by side. */
function joined(args: readonly unknown[]): number {
  return tensorsIn(args).reduce((sum, { size }) => sum + size, 0);
}

/** The shape that is asked for; a negative size keeps what is there. */
function expanded([t, ...sizes]: readonly unknown[]): number {
  const shape = shapeOf(t);
  const wanted = listed(sizes);
  return multiply(wanted.map((size, d) => (size < 0 ? (shape.at(d - wanted.length) ?? 1) : size)));
}

/** Sizes that are given as a list, or one by one. */
function listed(sizes: readonly unknown[]): number[] {
  const [first] = sizes;
  return (Array.isArray(first) ? (first as unknown[]) : sizes).filter(
    (size): size is number => typeof size === 'number',
  );
}

function numbers(value: unknown): number[] {
  return (Array.isArray(value) ? (value as unknown[]) : [value]).filter(
    (each): each is number => typeof each === 'number' && each >= 0,
  );
}

/** Of a number, a list or a tensor of them. */
function largest(counts: unknown): number {
  return counts instanceof Tensor ? values(counts) - 1 : Math.max(0, ...numbers(counts));
}

/**
 * Of the result of an einsum, and of what it multiplies on the way there, operand by operand: labels that neither the result nor a later
 * operand has are summed over at once.
 */
function contracted(equation: string, shapes: readonly Shape[]): number {
  const [left = '', output] = equation.replaceAll(' ', '').split('->');
  const terms = left.split(',').map((term, i) => labelled(term, shapes[i] ?? []));
  const kept = new Set(output === undefined ? terms.flatMap((term) => [...term.keys()]) : labelled(output, []).keys());
  let most = 0;
  let open = new Map<string, number>();
  for (const [i, term] of terms.entries()) {
    const later = new Set(terms.slice(i + 1).flatMap((each) => [...each.keys()]));
    const all = new Map(open);
    for (const [label, size] of term) all.set(label, Math.max(size, all.get(label) ?? 1));
    const stays = [...all].filter(([label]) => label === '...' || kept.has(label) || later.has(label));
    open = new Map(stays);
    most = Math.max(most, multiply([...open.values()]));
  }
  return most;
}

/** The sizes of the labels of a term; those that '...' stands for are multiplied. */
function labelled(term: string, shape: Shape): Map<string, number> {
  const [before = '', after] = term.split('...');
  const sizes = new Map<string, number>();
  for (const [i, label] of [...before].entries()) sizes.set(label, shape[i] ?? 1);
  if (after === undefined) return sizes;
  for (const [i, label] of [...after].entries()) sizes.set(label, shape[shape.length - after.length + i] ?? 1);
  sizes.set('...', multiply(shape.slice(before.length, shape.length - after.length)));
  return sizes;
}

/** What an index picks: positions broadcast together, times the dimensions that no item of the index takes. */
function indexed(shape: Shape, items: unknown): number {
  if (!Array.isArray(items)) return multiply(shape);
  const given = items as readonly unknown[];
  const taken = given.reduce((sum: number, item) => sum + taking(item), 0);
  const positions: Shape[] = [];
  let rest = 1;
  let dim = 0;
  for (const item of given) {
    const own = item === '...' ? Math.max(0, shape.length - taken) : taking(item);
    const size = multiply(shape.slice(dim, dim + own));
    dim += own;
    if (item instanceof Tensor) positions.push(item.dtype === 'bool' ? [size] : item.shape);
    else if (Array.isArray(item)) positions.push([Math.max(size, item.flat(8).length)]);
    else if (typeof item !== 'number') rest *= size;
  }
  return Math.max(broadcastSize(positions), ...positions.map(multiply)) * rest * multiply(shape.slice(dim));
}

/** Dimensions that an item of an index names. */
function taking(item: unknown): number {
  if (item === null || item === '...') return 0;
  return item instanceof Tensor && item.dtype === 'bool' ? item.rank : 1;
}

/** Elements of the dtype of `t` that take as much as `count` of int64, which positions and counts are, whatever is looked through. */
function longs(t: unknown, count: number): number {
  return (count * 8) / widest([t]);
}

function padded(shape: Shape, pads: unknown): number {
  if (!Array.isArray(pads)) return multiply(shape);
  const list = pads as number[];
  return multiply([...shape].reverse().map((size, d) => size + (list[2 * d] ?? 0) + (list[2 * d + 1] ?? 0)));
}

function pooled(shape: Shape, size: unknown): number {
  const [rows, columns] = Array.isArray(size) ? (size as number[]) : [size as number, size as number];
  return images(shape, 2) * channelsOf(shape) * (rows ?? 1) * (columns ?? 1);
}

/** The most that it has on the way: the last direction is resampled first. */
function resampled(shape: Shape, options: unknown): number {
  const { size, scaleFactor } = (options ?? {}) as { readonly size?: unknown; readonly scaleFactor?: unknown };
  const at = (given: unknown, d: number): number => (Array.isArray(given) ? given[d - 2] : given) as number;
  const after = shape.map((n, d) => (d < 2 ? n : (at(size, d) ?? n * (at(scaleFactor, d) ?? 1))));
  return Math.max(...shape.map((_, d) => multiply([...shape.slice(0, d), ...after.slice(d)])), multiply(shape));
}
