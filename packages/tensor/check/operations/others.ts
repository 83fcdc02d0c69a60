/** @file Making tensors, complex numbers, sparse tensors, and operations in place. */
import { DTYPES } from '../dtypes.ts';
import type { Arg, Ref, Rounding } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { fn, method, type Form, type Operation } from '../draw/operation.ts';
import { pair } from './arithmetic.ts';

function row(
  name: string,
  form: Form,
  rounding: Rounding,
  draw: Operation['draw'],
  dtypes?: Operation['dtypes'],
): Operation {
  return { name, forms: [form], rounding, draw, ...(dtypes === undefined ? {} : { dtypes }) };
}

const typed = (draw: Draw): Arg => ({ dtype: draw.random.chance(0.5) ? draw.dtype : draw.random.pick(DTYPES) });

const creation: Operation[] = [
  row('zeros', { ts: 'bw.zeros($0, { dtype: $1 })', py: 'torch.zeros($0, dtype=$1)' }, 'never', (draw) => [
    draw.shape(),
    typed(draw),
  ]),
  row('ones', { ts: 'bw.ones($0, { dtype: $1 })', py: 'torch.ones($0, dtype=$1)' }, 'never', (draw) => [
    draw.shape(),
    typed(draw),
  ]),
  row('full', { ts: 'bw.full($0, $1, { dtype: $2 })', py: 'torch.full($0, $1, dtype=$2)' }, 'once', (draw) => [
    draw.shape(),
    draw.random.chance(0.1) ? draw.random.pick([300, -200, 1e10, NaN, Infinity]) : draw.number(),
    typed(draw),
  ]),
  row('eye', { ts: 'bw.eye($0, $1, { dtype: $2 })', py: 'torch.eye($0, $1, dtype=$2)' }, 'never', (draw) => [
    draw.size(),
    draw.size(),
    typed(draw),
  ]),
  row('zerosLike', { ts: 'bw.zerosLike($0)', py: 'torch.zeros_like($0)' }, 'never', (draw) => [
    draw.tensor(draw.shape()),
  ]),
  row('onesLike', { ts: 'bw.onesLike($0)', py: 'torch.ones_like($0)' }, 'never', (draw) => [draw.tensor(draw.shape())]),
  row('arange', { ts: 'bw.arange($0, $1, $2)', py: 'torch.arange($0, $1, $2)' }, 'once', (draw) => {
    const step = draw.random.pick([1, 2, 0.5, 0.3, -1, 3]);
    const start = draw.number();
    return [start, start + step * draw.random.int(draw.mishap() ? -3 : 0, 9), step];
  }),
  row('linspace', { ts: 'bw.linspace($0, $1, $2)', py: 'torch.linspace($0, $1, $2)' }, 'sums', (draw) => [
    draw.number(),
    draw.number(),
    draw.random.int(0, 12),
  ]),
  row('tensor', { ts: 'bw.tensor($0, { dtype: $1 })', py: 'torch.tensor($0, dtype=$1)' }, 'once', (draw) => [
    [
      [1, 2.5],
      [draw.random.chance(0.1) ? 300 : draw.number(), -3],
    ],
    typed(draw),
  ]),
];

const complexDTypes = ['complex64'] as const;

const complexes: Operation[] = [
  row(
    'complex',
    { ts: 'bw.complex($0, $1)', py: 'torch.complex($0, $1)' },
    'never',
    (draw) => {
      const shape = draw.shape();
      return [draw.tensor(shape), draw.tensor(draw.mishap() ? draw.shape() : shape)];
    },
    ['float32'],
  ),
  ...['real', 'imag', 'conj', 'angle', 'abs'].map((name) =>
    row(
      name,
      fn(name, 1, name === 'conj' ? 'torch.conj_physical' : `torch.${name}`),
      'once',
      (draw) => [draw.tensor(draw.shape())],
      complexDTypes,
    ),
  ),
];

/** A sparse tensor and its dense shape. */
export function sparse(draw: Draw, shape = draw.shape(1, 3), dims = draw.random.int(1, shape.length + 1)): Ref {
  const count = shape.slice(0, dims).includes(0) ? 0 : draw.size();
  const low = shape.slice(0, dims);
  const index = draw.index([dims, count], ([d]) => draw.random.int(0, Math.max(1, low[d as number] as number)));
  // PyTorch's coalesce damages its memory when these are a view of one row.
  const values = draw.leaf([count, ...shape.slice(dims)]);
  const made = draw.call(
    'sparseCooTensor',
    'bw.sparseCooTensor($0, $1, $2)',
    'torch.sparse_coo_tensor($0, $1, $2)',
    [index, values, shape],
    'never',
  );
  if (draw.random.chance(0.5)) return made;
  return draw.call('coalesce', '$0.coalesce()', '$0.coalesce()', [made], 'sums');
}

const sparseDTypes = ['float32', 'float32', 'float32', 'float64', 'int64', 'complex64'] as const;
const oneSparse = (name: string, rounding: Rounding): Operation =>
  row(`sparse ${name}`, method(name, 1), rounding, (draw) => [sparse(draw)], sparseDTypes);

function twoSparse(draw: Draw): [Ref, Ref] {
  const shape = draw.shape(1, 3);
  const dims = draw.random.int(1, shape.length + 1);
  return [sparse(draw, shape, dims), sparse(draw, shape, dims)];
}

const sparses: Operation[] = [
  oneSparse('coalesce', 'sums'),
  oneSparse('toDense', 'sums'),
  oneSparse('neg', 'never'),
  row(
    'sparse values',
    { ts: '$0.coalesce().values()', py: '$0.coalesce().values()' },
    'sums',
    (draw) => [sparse(draw)],
    sparseDTypes,
  ),
  row(
    'sparse indices',
    { ts: '$0.coalesce().indices()', py: '$0.coalesce().indices()' },
    'never',
    (draw) => [sparse(draw)],
    sparseDTypes,
  ),
  row(
    'sparse isCoalesced',
    { ts: '$0.isCoalesced', py: '$0.is_coalesced()' },
    'never',
    (draw) => [sparse(draw)],
    sparseDTypes,
  ),
  row('toSparse', method('toSparse', 1), 'never', (draw) => [draw.tensor(draw.shape(1))]),
  row(
    'sparse add',
    { ts: '$0.add($1, { alpha: $2 })', py: 'torch.add($0, $1, alpha=$2)' },
    'sums',
    (draw) => [...twoSparse(draw), draw.random.pick([1, 1, 2, -1])],
    sparseDTypes,
  ),
  row('sparse sub', { ts: '$0.sub($1)', py: '$0.sub($1)' }, 'sums', twoSparse, sparseDTypes),
  row(
    'sparse mul number',
    { ts: '$0.mul($1)', py: '$0.mul($1)' },
    'once',
    (draw) => [sparse(draw), draw.number()],
    sparseDTypes,
  ),
  row(
    'sparse div number',
    { ts: '$0.div($1)', py: '$0.div($1)' },
    'once',
    (draw) => [sparse(draw), draw.random.pick([2, 0.5, -3])],
    sparseDTypes,
  ),
  row('sparse mul', { ts: '$0.mul($1)', py: '$0.mul($1)' }, 'once', twoSparse, sparseDTypes),
  row(
    'dense add sparse',
    { ts: '$0.add($1)', py: '$0.add($1)' },
    'sums',
    (draw) => {
      const shape = draw.shape(1, 3);
      return [draw.tensor(shape), sparse(draw, shape)];
    },
    sparseDTypes,
  ),
  row(
    'sparse matmul',
    { ts: '$0.matmul($1)', py: 'torch.sparse.mm($0, $1)' },
    'sums',
    (draw) => {
      const [m, k, n] = [draw.size(1), draw.size(1), draw.size(1)];
      return [sparse(draw, [m, k], 2), draw.tensor([k, n])];
    },
    sparseDTypes,
  ),
  row('sparse sum', { ts: '$0.sum()', py: 'torch.sparse.sum($0)' }, 'sums', (draw) => [sparse(draw)], sparseDTypes),
  row('sparse add_', { ts: '$0.detach().add_($1)', py: '$0.detach().add_($1)' }, 'inPlace', twoSparse, sparseDTypes),
];

/** A tensor that may be changed in place: the result of an operation, or a leaf for which that is refused. */
function target(draw: Draw, shape: readonly number[]): Ref {
  const t = draw.tensor(shape);
  return draw.random.chance(0.9) ? draw.call('clone', '$0.clone()', '$0.clone()', [t], 'never') : t;
}

export interface InPlaceKind {
  readonly name: string;
  readonly form: Form;
  /** What follows the tensor: an operand, a number, nothing. */
  readonly takes: 'tensor' | 'number' | 'nothing' | 'alpha';
}

export const inPlaceKinds: readonly InPlaceKind[] = [
  ...['copy_', 'add_', 'sub_', 'mul_', 'div_', 'pow_'].map((name): InPlaceKind => ({
    name,
    form: method(name, 2, name),
    takes: 'tensor',
  })),
  ...['add_', 'sub_', 'mul_', 'div_', 'pow_', 'fill_'].map((name): InPlaceKind => ({
    name: `${name} number`,
    form: method(name, 2, name),
    takes: 'number',
  })),
  ...['zero_', 'neg_', 'exp_', 'sqrt_', 'relu_', 'sigmoid_', 'tanh_'].map((name): InPlaceKind => ({
    name,
    form: method(name, 1, name),
    takes: 'nothing',
  })),
  ...['add_', 'sub_'].map((name): InPlaceKind => ({
    name: `${name} alpha`,
    form: { ts: `$0.${name}($1, { alpha: $2 })`, py: `$0.${name}($1, alpha=$2)` },
    takes: 'alpha',
  })),
];

const inPlace: Operation[] = inPlaceKinds.map(({ name, form, takes }) => ({
  name,
  forms: [form],
  rounding: 'inPlace',
  draw: (draw): readonly Arg[] => {
    if (takes === 'nothing') return [target(draw, draw.shape())];
    if (takes === 'number') return [target(draw, draw.shape()), draw.number()];
    const [a, b] = pair(draw);
    const own = draw.random.chance(0.9) ? draw.call('clone', '$0.clone()', '$0.clone()', [a], 'never') : a;
    return takes === 'alpha' ? [own, b, draw.random.pick([2, -1, 0.5])] : [own, b];
  },
}));

export const others: readonly Operation[] = [...creation, ...complexes, ...sparses, ...inPlace];
