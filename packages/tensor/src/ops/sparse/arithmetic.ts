/** @file Sums and products with sparse operands. */
import { shareHandle } from '../../autograd/record.ts';
import { DTypeError, ShapeError } from '../../errors.ts';
import { sparseFromParts } from '../../creation.ts';
import { decode, dtypes, encode, promote, type DType, type NumberArray } from '../../dtype.ts';
import { fromArray, readArray } from '../../host.ts';
import { apply } from '../op.ts';
import { ALL, each, NUMBER } from '../takes.ts';
import { defineOp } from '../define.ts';
import { concat } from '../join.ts';
import { resultDType } from '../promotion.ts';
import { sweep } from '../../scope.ts';
import { sameShape, sizeOf, type Shape } from '../../shape.ts';
import { Tensor, type SparseParts } from '../../tensor.ts';
import { coalesce, sparseCooTensor, toDense } from './coo.ts';
import { gatherRows } from './gather.ts';
import { partsOf } from './parts.ts';
import { linearIndices, unravel } from './plan.ts';

const addSparseOp = defineOp<{ alpha: number }>(['addSparse', 'add'], each(ALL), ([a, b], { alpha }) =>
  sweep(() => {
    const [x, y] = [a, b];
    const [p, q] = [partsOf(x, 'add'), partsOf(y, 'add')];
    const dtype = promote(x.dtype, y.dtype);
    const made = (parts: SparseParts): Tensor => sparseFromParts({ ...parts, shape: x.shape });
    const left = p.values.to(dtype);
    const right = alpha === 1 ? q.values.to(dtype) : q.values.to(dtype).mul(alpha).to(dtype);
    if (q.values.shape[0] === 0) return made({ ...p, values: left.clone() });
    if (p.values.shape[0] === 0) return made({ ...q, values: right.clone() });
    if (p.values.isContiguous && q.values.isContiguous)
      return made(merged({ ...p, values: left }, { ...q, values: right }, x.shape));
    const values = concat([left, right], 0);
    const sum = made({ indices: concat([p.indices, q.indices], 1) as Tensor<'int64'>, values, coalesced: false });
    // As in PyTorch: repeated sums of one pattern must not grow without end.
    return (values.shape[0] as number) <= x.size ? sum : made({ ...partsOf(coalesce(sum), 'add'), coalesced: false });
  }),
);

/**
 * PyTorch's walk along both operands: the entry with the lower index comes first, and entries of equal indices that meet become one. So
 * coalesced operands give a coalesced sum, and others one whose order depends on theirs.
 */
function merged(p: SparseParts, q: SparseParts, shape: Shape): SparseParts {
  const dims = p.indices.shape[0] as number;
  const size = shape.slice(0, dims);
  const [left, right] = [linearIndices(p.indices, size), linearIndices(q.indices, size)];
  const [n, m] = [left.length, right.length];
  const [ofLeft, ofRight] = [new Int32Array(n), new Int32Array(m)];
  const keys = new Float64Array(n + m);
  // Entries of the right operand that met one of the left.
  const met = new Uint8Array(m);
  let count = 0;
  for (let i = 0, j = 0; i < n || j < m; count++) {
    const order = j === m ? -1 : i === n ? 1 : left[i]! - right[j]!;
    keys[count] = order <= 0 ? left[i]! : right[j]!;
    if (order === 0) met[j] = 1;
    if (order <= 0) ofLeft[i++] = count;
    if (order >= 0) ofRight[j++] = count;
  }
  return {
    indices: fromArray(unravel(keys.subarray(0, count), size), 'int64', [dims, count]),
    values: placed([p.values, ofLeft], [q.values, ofRight], met, count),
    coalesced: p.coalesced && q.coalesced,
  };
}

type Rows = readonly [values: Tensor, at: Int32Array];

/** Rows of both operands at their places, added up where they met. */
function placed([left, ofLeft]: Rows, [right, ofRight]: Rows, met: Uint8Array, count: number): Tensor {
  const { dtype, shape } = left;
  const step = sizeOf(shape.slice(1)) * dtypes[dtype].lanes;
  const size = [count, ...shape.slice(1)];
  if (dtype === 'int64') {
    const out = new BigInt64Array(count * step);
    const source = readArray(right) as BigInt64Array;
    copyRows(out, readArray(left) as BigInt64Array, ofLeft, step);
    copyRows(out, source, ofRight, step, met);
    met.forEach((one, i) => {
      if (one === 1) for (let k = 0; k < step; k++) out[ofRight[i]! * step + k]! += source[i * step + k]!;
    });
    return fromArray(out, dtype, size);
  }
  const [first, source] = [decode(readArray(left), dtype), decode(readArray(right), dtype)];
  const out = new (first.constructor as new (n: number) => NumberArray)(count * step);
  copyRows(out, first, ofLeft, step);
  copyRows(out, source, ofRight, step, met);
  met.forEach((one, i) => {
    if (one === 1) for (let k = 0; k < step; k++) out[ofRight[i]! * step + k]! += source[i * step + k]!;
  });
  // Complex values are already in their stored form.
  return fromArray(dtype === 'complex64' ? (out as Float32Array) : encode(out, dtype), dtype, size);
}

/** Copies row i to row at[i], neighbours in one piece; not those that `skip` marks. */
function copyRows<A extends NumberArray | BigInt64Array>(
  out: A,
  source: A,
  at: Int32Array,
  step: number,
  skip?: Uint8Array,
): void {
  for (let i = 0; i < at.length;) {
    const from = i++;
    if (skip?.[from] === 1) continue;
    while (i < at.length && at[i] === at[i - 1]! + 1 && skip?.[i] !== 1) i++;
    out.set(source.subarray(from * step, i * step) as never, at[from]! * step);
  }
}

/** a + alpha b where at least one is sparse: sparse with sparse stays sparse (uncoalesced), with dense becomes dense. */
export function addSparse(a: Tensor, b: Tensor | number, alpha: number): Tensor {
  if (!(b instanceof Tensor)) throw new DTypeError('add(sparse, number) is not defined; use toDense()');
  if (a.sparse === undefined || b.sparse === undefined) return toDense(a).add(denseBeside(a, b), { alpha });
  if (!sameShape(a.shape, b.shape)) {
    throw new ShapeError(
      `add: expected sizes of 'self' and 'other' to match, but [${a.shape.join(', ')}] != [${b.shape.join(', ')}]`,
    );
  }
  if (a.sparse.indices.shape[0] !== b.sparse.indices.shape[0])
    return toDense(a).add(denseBeside(a, b), { alpha }).toSparse();
  return apply(addSparseOp, [a, b], { alpha });
}

/** The dense form of `b` in the dtype in which it meets `a`: there values of one index add up, which bool has no place for. */
function denseBeside(a: Tensor, b: Tensor): Tensor {
  if (b.sparse === undefined) return toDense(b);
  return toDense(castSparse(b, resultDType(a, b)));
}

/** A number as the other operand, and the dtype in which it meets the tensor where that is not what such numbers have. */
interface ByNumber {
  readonly value: number;
  readonly dtype: DType | undefined;
}

const scaleSparseOp = defineOp<ByNumber>(['scaleSparse', 'mul'], each(ALL), ([t], { value, dtype }) =>
  ofValues(t, 'mul', dtype, (values) => values.mul(value)),
);

export const divideSparseOp = defineOp<ByNumber>(['divideSparse', 'div'], each(ALL), ([t], { value, dtype }) =>
  ofValues(t, 'div', dtype, (values) => values.div(value)),
);

/** A sparse tensor at the indices of `t`, whose values are those that `fn` makes of its own in `dtype`. */
function ofValues(t: Tensor, op: string, dtype: DType | undefined, fn: (values: Tensor) => Tensor): Tensor {
  const { indices, values, coalesced } = partsOf(t, op);
  return sparseFromParts({
    indices,
    values: fn(dtype === undefined ? values : values.to(dtype)),
    coalesced,
    shape: t.shape,
  });
}

/** An operand that is one number; undefined for one of several elements, one whose gradient is wanted, and one that no number holds exactly. */
export function asNumber(t: Tensor, other: Tensor | number): ByNumber | undefined {
  if (typeof other === 'number') return { value: other, dtype: undefined };
  if (other.rank > 0 || other.requiresGrad || other.dtype === 'int64' || other.dtype === 'complex64') return undefined;
  return { value: other.item(), dtype: resultDType(t, other) };
}

/**
 * A sparse tensor times a number, or element by element times a dense or sparse tensor that broadcasts to its shape: sparse, at the
 * coalesced indices of `t`; of two sparse tensors of one shape, at the indices that both have.
 */
export function mulSparse(t: Tensor, factor: Tensor | number): Tensor {
  const byNumber = asNumber(t, factor);
  if (byNumber !== undefined) return apply(scaleSparseOp, [t], byNumber);
  if (typeof factor === 'number') throw new Error('invariant: a number is one');
  const dtype = resultDType(t, factor);
  if (factor.sparse !== undefined && meet(t, factor)) return mulCommon(t.coalesce(), factor.coalesce());
  const own = t.coalesce();
  const at = own.indices();
  const other = toDense(factor).expand(t.shape);
  return sparseCooTensor(at, own.values().mul(gatherRows(other, at)).to(dtype), t.shape);
}

/** A sparse tensor by a number or a tensor without dimensions, at its indices: a float, as every quotient. */
export function divSparse(t: Tensor, divisor: Tensor | number): Tensor {
  checkDivisor(divisor);
  const byNumber = asNumber(t, divisor);
  if (byNumber !== undefined) return apply(divideSparseOp, [t], byNumber);
  const own = t.coalesce();
  return sparseCooTensor(own.indices(), own.values().div(divisor), t.shape);
}

/** As in PyTorch: what a sparse tensor has no entry for is zero, which a tensor of several elements would have to divide, too. */
export function checkDivisor(divisor: Tensor | number): void {
  if (typeof divisor === 'number' || (divisor.rank === 0 && divisor.sparse === undefined)) return;
  throw new ShapeError(
    `a sparse tensor is divided by a number or by a dense tensor without dimensions, not by a ${divisor.layout} one of shape [${divisor.shape.join(', ')}]; use toDense()`,
  );
}

function meet(a: Tensor, b: Tensor): boolean {
  return sameShape(a.shape, b.shape) && a.sparse?.indices.shape[0] === b.sparse?.indices.shape[0];
}

/** The product of two coalesced tensors: an element that either lacks is zero, whatever the other holds there. */
function mulCommon(a: Tensor, b: Tensor): Tensor {
  const rows = a.indices();
  const dims = rows.shape[0] as number;
  const size = a.shape.slice(0, dims);
  const [left, right] = [linearIndices(rows, size), linearIndices(b.indices(), size)];
  const [inA, inB]: [number[], number[]] = [[], []];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    const order = (left[i] as number) - (right[j] as number);
    if (order === 0) {
      inA.push(i);
      inB.push(j);
    }
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
  const pick = (t: Tensor, at: readonly number[]): Tensor =>
    t.values().indexSelect(0, fromArray(BigInt64Array.from(at, BigInt), 'int64', [at.length]));
  const common = unravel(
    Float64Array.from(inA, (i) => left[i] as number),
    size,
  );
  return sparseCooTensor(fromArray(common, 'int64', [dims, inA.length]), pick(a, inA).mul(pick(b, inB)), a.shape);
}

const negSparseOp = defineOp(['negSparse', 'neg'], each(NUMBER), ([t]) => {
  const { indices, values, coalesced } = partsOf(t, 'neg');
  return sparseFromParts({ indices, values: values.neg(), coalesced, shape: t.shape });
});

/** The negative of a sparse tensor. */
export function negSparse(t: Tensor): Tensor {
  return apply(negSparseOp, [t], undefined);
}

const castSparseOp = defineOp<{ dtype: DType }>(['castSparse', '_to_copy'], each(ALL), ([t], { dtype }) => {
  const { indices, values, coalesced } = partsOf(t, 'to');
  return sparseFromParts({ indices, values: values.to(dtype), coalesced, shape: t.shape });
});

/** A sparse tensor with its values converted. */
export function castSparse(t: Tensor, dtype: DType): Tensor {
  return t.dtype === dtype ? shareHandle(t) : apply(castSparseOp, [t], { dtype });
}
