/** @file How large the result of a builtin will be, from its arguments alone: a peer may ask for gigabytes with a few kilobytes. */
import { amax, Tensor } from '@backwire/tensor';
import { dtypeBytes } from '@backwire/wire/internal';

type Shape = readonly number[];
/** Elements of the result. */
type Rule = (args: readonly unknown[]) => number;

/** A recurrent layer has this many matrices of its sizes. */
const GATES = 4;
const FLOAT_BYTES = 4;

/**
 * Bytes that the result of an operation covers, at most; `name` is the operation's ('aten::outer'), or that of a method of tensors ('outer')
 * whose tensor comes first. What it computes on the way to a smaller result does not count. Arguments that the operation itself refuses
 * give anything.
 */
export function estimateResult(name: string, args: readonly unknown[]): number {
  const rule = RULES.get(name.startsWith('aten::') ? name.slice('aten::'.length) : underscored(name)) ?? broadcast;
  return rule(args) * widest(args);
}

/** Bytes of what a builtin class makes with these arguments, at most: its sizes multiplied, whatever they are sizes of. */
export function estimateInstance(args: readonly unknown[]): number {
  const sizes = args.flatMap((arg): unknown[] => (Array.isArray(arg) ? arg : [arg]));
  return multiply(sizes.filter((size) => typeof size === 'number' && size > 1) as number[]) * FLOAT_BYTES * GATES;
}

/** 'indexSelect' is 'index_select'. */
function underscored(method: string): string {
  return method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function multiply(sizes: Shape): number {
  return sizes.reduce((product, size) => product * size, 1);
}

function shapeOf(value: unknown): Shape {
  return value instanceof Tensor ? (value as Tensor).shape : [];
}

function tensorsIn(args: readonly unknown[]): Tensor[] {
  const each = args.flatMap((arg): unknown[] => (Array.isArray(arg) ? arg : [arg]));
  return each.filter((arg): arg is Tensor => arg instanceof Tensor);
}

/** Bytes of an element: the most that an argument has, or the dtype that one names. */
function widest(args: readonly unknown[]): number {
  const given = [...tensorsIn(args).map(({ dtype }) => dtype), ...args.filter((arg) => typeof arg === 'string')];
  return Math.max(1, ...given.map((dtype) => dtypeBytes(dtype) ?? 1));
}

/** The general rule: the tensors broadcast together, or the largest of them where they cannot be. */
function broadcast(args: readonly unknown[]): number {
  const shapes = tensorsIn(args).map(({ shape }) => shape);
  return Math.max(broadcastSize(shapes), ...shapes.map(multiply));
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

function spread(shape: Shape, weight: Shape, options: unknown): number {
  const stride = numberIn(options, 'stride', 1, Math.max);
  const dilation = numberIn(options, 'dilation', 1, Math.max);
  const more = numberIn(options, 'outputPadding', 0, Math.max);
  const places = [2, 1].map(
    (back) => ((shape.at(-back) ?? 1) - 1) * stride + dilation * (weight.at(-back) ?? 1) + more + 1,
  );
  const channels = (weight[1] ?? 1) * numberIn(options, 'groups', 1, Math.max);
  return images(shape, 2) * channels * multiply(places);
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
const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['outer', ([a, b]) => multiply(shapeOf(a)) * multiply(shapeOf(b))],
  ['matmul', ([a, b]) => product(shapeOf(a), shapeOf(b))],
  ['mm', ([a, b]) => product(shapeOf(a), shapeOf(b))],
  ['bmm', ([a, b]) => product(shapeOf(a), shapeOf(b))],
  ['dot', () => 1],
  ['addmm', ([, a, b]) => product(shapeOf(a), shapeOf(b))],
  ['linear', ([x, w]) => (multiply(shapeOf(x)) / (shapeOf(x).at(-1) || 1)) * (shapeOf(w)[0] ?? 1)],
  ['scaled_dot_product_attention', ([q, , v]) => product(shapeOf(q), shapeOf(v))],
  ['linalg_solve', ([a, b]) => Math.max(product(shapeOf(a), shapeOf(b)), broadcast([a, b]))],
  ['cat', (args) => tensorsIn(args).reduce((sum, { size }) => sum + size, 0)],
  ['stack', (args) => tensorsIn(args).reduce((sum, { size }) => sum + size, 0)],
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
  ['conv_transpose2d', ([x, w, options]) => spread(shapeOf(x), shapeOf(w), options)],
  ['max_pool2d', ([x, , options]) => slide(shapeOf(x), 2, channelsOf(shapeOf(x)), options)],
  ['avg_pool2d', ([x, , options]) => slide(shapeOf(x), 2, channelsOf(shapeOf(x)), options)],
  ['adaptive_avg_pool2d', ([x, size]) => pooled(shapeOf(x), size)],
]);

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
