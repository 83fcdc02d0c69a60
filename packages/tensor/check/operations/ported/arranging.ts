/** @file Repeating, joining, order statistics, bits, einsum, distances. */
import { FLOATS, INTEGERS } from '../../dtypes.ts';
import type { Operation } from '../../draw/operation.ts';
import type { Arg } from '../../program.ts';
import { pair } from '../arithmetic.ts';
import { row, target, torchRow } from './rows.ts';

const MATRIX = ['float32', 'float32', 'float64'] as const;
const BITS = [...INTEGERS, 'bool', ...INTEGERS, 'float32'] as const;

const arranging: Operation[] = [
  row('repeat', '$0.repeat($1)', '$0.repeat($1)', 'never', (draw) => {
    const shape = draw.shape(0, 3);
    const more = draw.mishap() ? -1 : draw.random.int(0, 2);
    return [draw.tensor(shape), Array.from({ length: Math.max(0, shape.length + more) }, () => draw.random.int(0, 4))];
  }),
  torchRow('repeatInterleave', 3, 'never', (draw) => {
    const shape = draw.shape();
    const d = draw.random.chance(0.3) ? undefined : draw.dim(shape);
    return [draw.tensor(shape), draw.random.int(draw.mishap() ? -1 : 0, 4), d];
  }),
  row('repeatInterleave each', '$0.repeatInterleave($1, $2)', '$0.repeat_interleave($1, $2)', 'never', (draw) => {
    const shape = draw.shape(1);
    const d = draw.random.int(0, shape.length);
    return [draw.tensor(shape), draw.integers([shape[d] as number], 0, 4), d];
  }),
  row('meshgrid', 'bw.meshgrid([$0, $1, $2], $3)', 'torch.meshgrid($0, $1, $2, indexing=$3)', 'never', (draw) => [
    draw.tensor(draw.shape(draw.mishap() ? 0 : 1, 1)),
    draw.tensor([draw.size()]),
    draw.tensor(draw.shape(0, 1)),
    draw.random.pick(['ij', 'xy']),
  ]),
  ...['hstack', 'vstack', 'dstack', 'columnStack'].map((name) =>
    row(
      name,
      `bw.${name}([$0, $1, $0])`,
      `torch.${name === 'columnStack' ? 'column_stack' : name}([$0, $1, $0])`,
      'never',
      (draw) => {
        const shape = draw.shape();
        const other = draw.mishap() ? draw.shape() : shape;
        return [draw.tensor(shape), draw.tensor(other)];
      },
    ),
  ),
  torchRow('movedim', 3, 'never', (draw) => {
    const shape = draw.shape();
    if (draw.random.chance(0.5)) return [draw.tensor(shape), draw.dim(shape), draw.dim(shape)];
    const [from, to] = [draw.dims(shape), draw.dims(shape)];
    const n = Math.min(from.length, to.length);
    return [draw.tensor(shape), from.slice(0, n), to.slice(0, n)];
  }),
  torchRow('unflatten', 3, 'never', (draw) => {
    const [a, b] = [draw.random.int(1, 4), draw.random.int(1, 4)];
    const shape = [draw.size(), a * b, draw.size(1)];
    const sizes = draw.random.pick<Arg>([[a, b], [-1, b], [a, -1], draw.mishap() ? [a + 1, b] : [a, 1, b]]);
    return [draw.tensor(shape), draw.random.pick([1, -2]), sizes];
  }),
  torchRow('broadcastTo', 2, 'never', (draw) => {
    const [full, part] = draw.broadcast(2) as [number[], number[]];
    return [draw.tensor(part), full];
  }),
  row('broadcastTensors', 'bw.broadcastTensors([$0, $1])', 'list(torch.broadcast_tensors($0, $1))', 'never', pair),
  row('diff', ['$0.diff($1, $2)', 'bw.diff($0, $1, $2)'], 'torch.diff($0, $1, $2)', 'sums', (draw) => {
    const shape = draw.shape();
    return [draw.tensor(shape), draw.random.int(0, 3), draw.dim(shape)];
  }),
];

const FLOAT_ORDER = ['float32', 'float64', 'float32', 'int64', 'int32', 'float16', 'bfloat16', 'uint8'] as const;

const order: Operation[] = [
  torchRow('median', 1, 'never', (draw) => [draw.tensor(draw.shape())], FLOAT_ORDER),
  ...['values', 'indices'].map((part) =>
    row(
      `median ${part}`,
      `$0.median($1, $2).${part}`,
      `torch.median($0, $1, $2).${part}`,
      'never',
      (draw) => {
        const shape = draw.shape();
        // Of equal elements PyTorch picks one by how its selection walks.
        return [draw.tensor(shape, { style: 'plain', views: false }), draw.dim(shape), draw.random.chance(0.4)];
      },
      ['float32', 'float64'],
    ),
  ),
  row(
    'kthValue',
    '$0.kthValue($1, $2, $3).values',
    'torch.kthvalue($0, $1, $2, $3).values',
    'never',
    (draw) => {
      const shape = draw.shape(1);
      const d = draw.random.int(0, shape.length);
      const n = shape[d] as number;
      return [
        draw.tensor(shape, { style: 'plain' }),
        draw.mishap() ? n + 1 : draw.random.int(1, Math.max(2, n + 1)),
        d,
        draw.random.chance(0.4),
      ];
    },
    ['float32', 'float64'],
  ),
  ...(['linear', 'lower', 'higher', 'nearest', 'midpoint'] as const).map((how) =>
    row(
      `quantile ${how}`,
      '$0.quantile($1, $2, { keepDim: $3, interpolation: $4 })',
      'torch.quantile($0, $1, $2, $3, interpolation=$4)',
      'sums',
      (draw) => {
        const scalar = draw.random.chance(0.2);
        const shape = scalar ? [] : draw.shape();
        const several = draw.random.chance(0.4);
        const q = several
          ? draw.leaf([draw.random.int(0, 4)], { style: 'unit', grad: false })
          : draw.random.pick([0, 0.25, 0.5, 0.9, 1]);
        return [
          draw.tensor(shape, { style: 'plain' }),
          q,
          draw.random.chance(0.3) ? undefined : scalar ? draw.random.int(-2, 2) : draw.dim(shape),
          draw.random.chance(0.4),
          how,
        ];
      },
      ['float32', 'float64'],
    ),
  ),
  row(
    'searchSorted',
    'bw.searchSorted($0, $1, { right: $2 })',
    'torch.searchsorted($0, $1, right=$2)',
    'never',
    (draw) => {
      const shape = draw.shape(1, 3);
      const sorted = draw.call(
        'sort',
        '$0.sort(-1).values',
        '$0.sort(-1).values',
        [draw.tensor(shape, { grad: false })],
        'never',
      );
      const values = shape.length === 1 ? draw.shape(0, 2) : [...shape.slice(0, -1), draw.size()];
      return [sorted, draw.tensor(draw.mishap() ? draw.shape() : values, { grad: false }), draw.random.chance(0.5)];
    },
    ['float32', 'int64', 'int32', 'float64'],
  ),
  row(
    'bucketize',
    'bw.bucketize($0, $1, { right: $2 })',
    'torch.bucketize($0, $1, right=$2)',
    'never',
    (draw) => {
      const sorted = draw.call(
        'sort',
        '$0.sort(-1).values',
        '$0.sort(-1).values',
        [draw.tensor([draw.size()], { grad: false })],
        'never',
      );
      return [draw.tensor(draw.shape(), { grad: false }), sorted, draw.random.chance(0.5)];
    },
    ['float32', 'int64'],
  ),
  torchRow(
    'countNonzero',
    2,
    'never',
    (draw) => {
      const shape = draw.shape();
      return [draw.tensor(shape), draw.random.chance(0.4) ? undefined : draw.dim(shape)];
    },
    [...FLOATS, ...INTEGERS],
  ),
];

const bits: Operation[] = [
  ...['bitwiseAnd', 'bitwiseOr', 'bitwiseXor'].map((name) => torchRow(name, 2, 'never', pair, BITS)),
  ...['bitwiseAnd', 'bitwiseOr', 'bitwiseXor'].map((name) => ({
    ...torchRow(name, 2, 'never', (draw) => [draw.tensor(draw.shape()), draw.random.int(0, 100)], BITS),
    name: `${name} number`,
  })),
  ...['bitwiseLeftShift', 'bitwiseRightShift'].map((name) =>
    torchRow(
      name,
      2,
      'never',
      (draw) => {
        const [a, b] = draw.broadcast(2) as [number[], number[]];
        return [draw.tensor(a), draw.integers(b, 0, 7, draw.dtype)];
      },
      [...INTEGERS, 'float32'],
    ),
  ),
  torchRow('bitwiseNot', 1, 'never', (draw) => [draw.tensor(draw.shape())], BITS),
];

/** Equations and the shapes of their operands by label. */
const EQUATIONS = [
  'ij,jk->ik',
  'bij,bjk->bik',
  'ii',
  'ii->i',
  'ij->ji',
  'ij->',
  'i,j->ij',
  'i,i',
  'bhid,bhjd->bhij',
  'ij,ij->i',
  'abc,cd',
  '...ij,...jk->...ik',
  'i,ij,j->',
  'ij,kj->ik',
  'a,b,c->cba',
  'ijk->k',
  'iij->j',
  '...i->...',
  'ij,j',
  'bij,bij->b',
] as const;

const products: Operation[] = [
  row(
    'einsum',
    'bw.einsum($0, ...$1)',
    'torch.einsum($0, *$1)',
    'sums',
    (draw) => {
      const equation = draw.random.pick(EQUATIONS);
      const sizes = new Map<string, number>();
      const size = (l: string): number => {
        const n = sizes.get(l) ?? draw.size();
        sizes.set(l, n);
        return draw.mishap() ? n + 1 : n;
      };
      const dots = [draw.size(), 2].slice(draw.random.int(0, 3));
      const operands = (equation.split('->')[0] as string).split(',').map((term) => {
        const shape = term.startsWith('...') ? [...dots, ...[...term.slice(3)].map(size)] : [...term].map(size);
        return draw.tensor(shape);
      });
      return [equation, operands];
    },
    ['float32', 'float32', 'float64', 'int64', 'complex64', 'float16', 'int8', 'bool'],
  ),
  row(
    'cdist',
    'bw.cdist($0, $1, $2)',
    'torch.cdist($0, $1, $2)',
    'sums',
    (draw) => {
      const [n, m, d] = [draw.size(), draw.size(), draw.size(1)];
      const batch = draw.random.pick([[], [], [2], [1]]);
      const p = draw.random.pick([2, 1, 3, Infinity, 2]);
      return [
        draw.tensor([...batch, n, d], { style: 'plain' }),
        draw.tensor([...batch, m, draw.mishap() ? d + 1 : d], { style: 'plain' }),
        p,
      ];
    },
    MATRIX,
  ),
  ...(['addcmul', 'addcdiv'] as const).flatMap((name) =>
    [name, `${name}_`].map((full) =>
      row(
        full,
        `$0.${full}($1, $2, { value: $3 })`,
        `$0.${full}($1, $2, value=$3)`,
        full === name ? 'sums' : 'inPlace',
        (draw) => {
          const [t, a, b] = draw.broadcast(3) as [number[], number[], number[]];
          return [target(draw, t), draw.tensor(a), draw.tensor(b), draw.random.pick([1, 2, 0.5, -1])];
        },
        [...FLOATS, 'float32', 'float32', 'int64', 'complex64'],
      ),
    ),
  ),
  row(
    'baddbmm',
    ['$0.baddbmm($1, $2, $3)', 'bw.baddbmm($0, $1, $2, $3)'],
    'torch.baddbmm($0, $1, $2, **$3)',
    'sums',
    (draw) => {
      const [b, m, k, n] = [draw.size(), draw.size(), draw.size(), draw.size()];
      const options: Record<string, Arg> = {};
      if (draw.random.chance(0.4)) options['alpha'] = draw.random.pick([2, -1, 0]);
      if (draw.random.chance(0.4)) options['beta'] = draw.random.pick([2, 0, 1]);
      return [draw.tensor([b, m, n]), draw.tensor([b, m, k]), draw.tensor([b, k, n]), { options }];
    },
    ['float32', 'float32', 'float64', 'int64', 'complex64'],
  ),
];

const UNARY_IN_PLACE = [
  'abs',
  'sign',
  'square',
  'rsqrt',
  'reciprocal',
  'log',
  'log1p',
  'expm1',
  'sin',
  'cos',
  'floor',
  'ceil',
  'round',
  'trunc',
];

const inPlace: Operation[] = [
  ...UNARY_IN_PLACE.map((name) =>
    row(`${name}_`, `$0.${name}_()`, `$0.${name}_()`, 'inPlace', (draw) => [target(draw, draw.shape())]),
  ),
  row('clamp_', '$0.clamp_($1, $2)', '$0.clamp_($1, $2)', 'inPlace', (draw) => [
    target(draw, draw.shape()),
    draw.random.chance(0.3) ? undefined : draw.random.int(-1, 1),
    draw.random.int(1, 3),
  ]),
  row('maskedFill_', '$0.maskedFill_($1, $2)', '$0.masked_fill_($1, $2)', 'inPlace', (draw) => {
    const [a, m] = draw.broadcast(2) as [number[], number[]];
    return [target(draw, a), draw.tensor(m, { dtype: 'bool' }), draw.random.int(0, 3)];
  }),
  row(
    'lerp_',
    '$0.lerp_($1, $2)',
    '$0.lerp_($1, $2)',
    'inPlace',
    (draw) => {
      const [a, b] = draw.broadcast(2) as [number[], number[]];
      return [target(draw, a), draw.tensor(b), draw.random.chance(0.5) ? 0.25 : draw.tensor(b)];
    },
    [...FLOATS, 'float32'],
  ),
  ...(['indexAdd_', 'scatter_', 'scatterAdd_'] as const).map((name) =>
    row(
      name,
      `$0.${name}($1, $2, $3)`,
      `$0.${{ indexAdd_: 'index_add_', scatter_: 'scatter_', scatterAdd_: 'scatter_add_' }[name]}($1, $2, $3)`,
      'inPlace',
      (draw) => {
        const shape = draw.shape(1, 3).map((n) => Math.max(1, n));
        const d = draw.random.int(0, shape.length);
        const n = shape[d] as number;
        const count = name === 'scatter_' ? draw.random.int(0, n + 1) : draw.random.int(0, 4);
        const at = shape.map((m, k) => (k === d ? count : m));
        const index =
          name === 'indexAdd_'
            ? draw.integers([count], 0, n)
            : draw.index(at, (place) => n - 1 - ((place[d] as number) % n));
        return [target(draw, shape), d, index, draw.tensor(at)];
      },
    ),
  ),
];

export const arrangements: readonly Operation[] = [...arranging, ...order, ...bits, ...products, ...inPlace];
