/** @file Arithmetic on shapes and strides (both counted in elements). */
import { ShapeError } from './errors.ts';
import { kindOf } from './given.ts';
import { limits } from './limits.ts';

/** The sizes of the dimensions, in elements; a scalar has none. */
export type Shape = readonly number[];

/** The number of elements; 1 for a scalar. */
export function sizeOf(shape: Shape): number {
  let size = 1;
  for (const n of shape) size *= n;
  return size;
}

/** Checks that every dimension is a whole number, and that the element count can be held. */
export function checkShape(shape: Shape): void {
  checkList(shape);
  if (shape.length > limits.maxRank)
    throw new ShapeError(`rank ${shape.length} exceeds the limit of ${limits.maxRank}`);
  for (const n of shape) {
    // What is no number at all is named as well: a join would leave it out.
    if (!Number.isInteger(n) || n < 0)
      throw new ShapeError(`shape [${shape.map(String).join(', ')}] has an invalid dimension`);
  }
  checkCount(shape);
}

/** @throws TypeError for what is no list: programs without types may write `zeros(2, 3)`, or `x.permute(1, 0)`. */
export function checkList(list: unknown, what = 'a shape is a list of whole numbers, such as [2, 3]'): void {
  if (!Array.isArray(list)) throw new TypeError(`${what}; got ${kindOf(list)}`);
}

/** Checks that the elements of a shape that was computed can be held. */
export function checkCount(shape: Shape): void {
  if (sizeOf(shape) > limits.maxElements)
    throw new ShapeError(`shape [${shape.join(', ')}] has too many elements: more than ${limits.maxElements}`);
}

/** Row-major strides. */
export function contiguousStrides(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= Math.max(shape[i] as number, 1);
  }
  return strides;
}

/** Whether the elements lie in row-major order without gaps. */
export function isContiguous(shape: Shape, strides: Shape): boolean {
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const n = shape[i] as number;
    if (n === 0) return true;
    if (n !== 1 && strides[i] !== step) return false;
    step *= n;
  }
  return true;
}

export function sameShape(a: Shape, b: Shape): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** `dim` counted from the front; throws like PyTorch when it is out of range. */
export function normalizeDim(dim: number, rank: number): number {
  const range = Math.max(rank, 1);
  if (!Number.isInteger(dim) || dim < -range || dim >= range) {
    throw new ShapeError(
      `Dimension out of range (expected to be in range of [${-range}, ${range - 1}], but got ${typeof dim === 'number' ? dim : kindOf(dim)})`,
    );
  }
  return dim < 0 ? dim + range : dim;
}

/** The dims to reduce, sorted and counted from the front; all of them for undefined or an empty list. */
export function normalizeDims(dim: number | Shape | undefined, rank: number): number[] {
  const all = dim === undefined || (typeof dim !== 'number' && dim.length === 0);
  if (all) return Array.from({ length: rank }, (_, i) => i);
  const list = typeof dim === 'number' ? [dim] : dim;
  if (!Array.isArray(list))
    throw new TypeError(`a dimension is a whole number, or several a list; got ${kindOf(list)}`);
  const dims = (list as Shape).map((d) => normalizeDim(d, rank)).sort((a, b) => a - b);
  for (let i = 1; i < dims.length; i++) {
    if (dims[i] === dims[i - 1])
      throw new ShapeError(`dim ${dims[i] as number} appears multiple times in the list of dims`);
  }
  return rank === 0 ? [] : dims;
}

/** The shape two operands broadcast to. */
export function broadcastShapes(a: Shape, b: Shape): number[] {
  const rank = Math.max(a.length, b.length);
  const out = new Array<number>(rank);
  for (let i = 1; i <= rank; i++) {
    const x = i <= a.length ? (a[a.length - i] as number) : 1;
    const y = i <= b.length ? (b[b.length - i] as number) : 1;
    if (x !== y && x !== 1 && y !== 1) {
      throw new ShapeError(
        `The size of tensor a (${x}) must match the size of tensor b (${y}) at non-singleton dimension ${rank - i}`,
      );
    }
    out[rank - i] = x === 1 ? y : x;
  }
  checkCount(out);
  return out;
}

/** @throws ShapeError where what is called `what`, of shape `own`, would make more of what has `shape`, in PyTorch's words. */
export function checkWithin(what: string, own: Shape, shape: Shape): void {
  const wide = broadcastShapes(shape, own);
  if (!sameShape(wide, shape))
    throw new ShapeError(
      `${what}: output with shape [${shape.join(', ')}] doesn't match the broadcast shape [${wide.join(', ')}]`,
    );
}

/** The last dimensions of `own`, which are those of `shape`. @throws ShapeError naming `name` where they are not. */
export function trailingDims(name: string, own: Shape, shape: Shape): number[] {
  const dims = shape.map((_, i) => own.length - shape.length + i);
  if (shape.length === 0) throw new ShapeError(`${name}: expected a shape of at least one dimension`);
  if (dims.some((d, i) => own[d] !== shape[i]))
    throw new ShapeError(
      `${name}: expected input whose last dimensions are [${shape.join(', ')}], got [${own.join(', ')}]`,
    );
  return dims;
}

/** The shape after reducing `dims`. */
export function reducedShape(shape: Shape, dims: readonly number[], keepDim: boolean): number[] {
  if (keepDim) return shape.map((n, i) => (dims.includes(i) ? 1 : n));
  return shape.filter((_, i) => !dims.includes(i));
}

/** Whether `shape` broadcasts to `target`. */
export function expandsTo(shape: Shape, target: Shape): boolean {
  const lead = target.length - shape.length;
  return lead >= 0 && shape.every((n, i) => n === 1 || n === target[lead + i]);
}

/** Strides with which `shape` reads as `target`; throws when it does not broadcast. */
export function expandStrides(shape: Shape, strides: Shape, target: Shape): number[] {
  const lead = target.length - shape.length;
  if (lead < 0) {
    throw new ShapeError(
      `the number of sizes provided (${target.length}) must be greater or equal to the number of dimensions in the tensor (${shape.length})`,
    );
  }
  return target.map((n, i) => {
    if (i < lead) return 0;
    const have = shape[i - lead] as number;
    if (have === n) return strides[i - lead] as number;
    if (have === 1) return 0;
    throw new ShapeError(
      `The expanded size of the tensor (${n}) must match the existing size (${have}) at non-singleton dimension ${i}`,
    );
  });
}

/** Fills in the one -1 of a requested shape and checks that it holds `size` elements. */
export function inferShape(requested: Shape, size: number): number[] {
  checkList(requested);
  const at = requested.indexOf(-1);
  const invalid = (): ShapeError =>
    new ShapeError(`shape '[${requested.join(', ')}]' is invalid for input of size ${size}`);
  if (at === -1) {
    checkShape(requested);
    if (sizeOf(requested) !== size) throw invalid();
    return [...requested];
  }
  const rest = requested.filter((_, i) => i !== at);
  if (rest.includes(-1))
    throw new ShapeError(`only one dimension can be inferred, but the shape is [${requested.join(', ')}]`);
  checkShape(rest);
  const known = sizeOf(rest);
  if (known === 0 && size === 0) {
    throw new ShapeError(
      `cannot reshape tensor of 0 elements into shape [${requested.join(', ')}] because the unspecified dimension size -1 can be any value and is ambiguous`,
    );
  }
  if (known === 0 || size % known !== 0) throw invalid();
  return requested.map((n, i) => (i === at ? size / known : n));
}

/** Strides with which `shape` reads the elements of a view in the same order, or undefined when that needs a copy (PyTorch's rule). */
export function viewStrides(from: Shape, strides: Shape, shape: Shape): number[] | undefined {
  if (from.length === 0 || sizeOf(from) === 0) return contiguousStrides(shape);
  const out = new Array<number>(shape.length);
  let at = shape.length - 1;
  let base = strides[from.length - 1] as number;
  let have = 1;
  let want = 1;
  for (let d = from.length - 1; d >= 0; d--) {
    have *= from[d] as number;
    const chunkEnds = d === 0 || (from[d - 1] !== 1 && strides[d - 1] !== have * base);
    if (!chunkEnds) continue;
    while (at >= 0 && (want < have || shape[at] === 1)) {
      out[at] = want * base;
      want *= shape[at] as number;
      at--;
    }
    if (want !== have) return undefined;
    if (d > 0) base = strides[d - 1] as number;
    have = 1;
    want = 1;
  }
  return at === -1 ? out : undefined;
}

/** One past the highest element offset a view can reach, relative to its own offset; 0 when it is empty. */
export function extentOf(shape: Shape, strides: Shape): number {
  let last = 0;
  for (let i = 0; i < shape.length; i++) {
    const n = shape[i] as number;
    if (n === 0) return 0;
    last += (n - 1) * (strides[i] as number);
  }
  return last + 1;
}
