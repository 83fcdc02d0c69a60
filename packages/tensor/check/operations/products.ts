/** @file Matrix products, linear algebra and attention. */
import { FLOATS } from '../dtypes.ts';
import type { Arg } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { fn, method, type Form, type Operation } from '../draw/operation.ts';

const both = (name: string, takes: number): Form[] => [method(name, takes), fn(name, takes)];

/** Sizes of a product; one of them does not fit now and then. */
function inner(draw: Draw): [m: number, k: number, again: number, n: number] {
  const k = draw.size();
  return [draw.size(), k, draw.mishap() ? k + 1 : k, draw.size()];
}

const products: Operation[] = [
  {
    name: 'matmul',
    forms: both('matmul', 2),
    rounding: 'sums',
    draw: (draw) => {
      const [m, k, again, n] = inner(draw);
      const [left, right] = draw.random.chance(0.5) ? [[], []] : (draw.broadcast(2, 0, 2) as [number[], number[]]);
      const a = draw.random.chance(0.15) ? [k] : [...left, m, k];
      const b = draw.random.chance(0.15) ? [again] : [...right, again, n];
      return [draw.tensor(a), draw.tensor(b, draw.mishap() ? { dtype: draw.random.pick(FLOATS) } : {})];
    },
    weight: 5,
  },
  {
    name: 'mm',
    forms: both('mm', 2),
    rounding: 'sums',
    draw: (draw) => {
      const [m, k, again, n] = inner(draw);
      return [draw.tensor(draw.mishap() ? [2, m, k] : [m, k]), draw.tensor([again, n])];
    },
  },
  {
    name: 'bmm',
    forms: both('bmm', 2),
    rounding: 'sums',
    draw: (draw) => {
      const [m, k, again, n] = inner(draw);
      const batch = draw.size();
      return [draw.tensor([batch, m, k]), draw.tensor([draw.mishap() ? 1 : batch, again, n])];
    },
  },
  {
    name: 'dot',
    forms: both('dot', 2),
    rounding: 'sums',
    draw: (draw) => {
      const [, k, again] = inner(draw);
      return [draw.tensor([k]), draw.tensor([again])];
    },
  },
  {
    name: 'addmm',
    forms: [
      { ts: '$0.addmm($1, $2, { alpha: $3, beta: $4 })', py: '$0.addmm($1, $2, alpha=$3, beta=$4)' },
      { ts: 'bw.addmm($0, $1, $2, { alpha: $3, beta: $4 })', py: 'torch.addmm($0, $1, $2, alpha=$3, beta=$4)' },
    ],
    rounding: 'sums',
    draw: (draw) => {
      const [m, k, again, n] = inner(draw);
      const added = draw.random.pick([[m, n], [n], [m, 1], [1, n], []]);
      const factor = (): number => draw.random.pick([1, 1, 0, 2, 0.5, -1, -1.5, 300]);
      return [draw.tensor(added), draw.tensor([m, k]), draw.tensor([again, n]), factor(), factor()];
    },
    weight: 2,
  },
  {
    name: 'outer',
    forms: [fn('outer', 2)],
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.mishap() ? [2, 2] : [draw.size()]), draw.tensor([draw.size()])],
  },
  {
    name: 'linear',
    forms: [{ ts: 'bw.linear($0, $1, $2)', py: 'F.linear($0, $1, $2)' }],
    rounding: 'sums',
    draw: (draw) => {
      const [m, k, again, n] = inner(draw);
      const lead = draw.random.pick([[], [m], [2, m]]);
      const weight = draw.random.chance(0.1) ? [again] : [n, again];
      const bias = draw.random.chance(0.6) ? draw.tensor(weight.length === 1 ? [] : [n]) : undefined;
      return [draw.tensor([...lead, k]), draw.tensor(weight), bias];
    },
    weight: 3,
  },
];

/** Square matrices with a strong diagonal, so that they have an inverse. */
function matrix(draw: Draw, symmetric = false): [Arg, number] {
  const n = draw.size();
  const batch = draw.random.pick([[], [], [2], [1, 3], [0]]);
  const rows = draw.mishap() ? n + 1 : n;
  const t = draw.tensor([...batch, rows, n], { style: draw.random.pick(['plain', 'whole', 'unit']) });
  if (symmetric) {
    return [
      draw.call(
        'gram',
        '$0.matmul($0.transpose(-1, -2)).add(bw.eye($1, $1, { dtype: $2 }))',
        '$0.matmul($0.transpose(-1, -2)) + torch.eye($1, dtype=$2)',
        [t, rows, { dtype: draw.dtype }],
        'sums',
      ),
      n,
    ];
  }
  return [
    draw.random.chance(0.2)
      ? t
      : draw.call(
          'diagonally',
          '$0.add(bw.eye($1, $2, { dtype: $3 }).mul(4))',
          '$0 + torch.eye($1, $2, dtype=$3) * 4',
          [t, rows, n, { dtype: draw.dtype }],
          'once',
        ),
    n,
  ];
}

const linalg: Operation[] = [
  {
    name: 'inverse',
    forms: both('inverse', 1),
    rounding: 'sums',
    draw: (draw) => [matrix(draw)[0]],
    dtypes: ['float32', 'float64', 'float32', 'float64', 'int64', 'bool', 'float16', 'complex64'],
  },
  {
    name: 'det',
    forms: both('det', 1),
    rounding: 'sums',
    draw: (draw) => [matrix(draw)[0]],
    dtypes: ['float32', 'float64', 'float32', 'int32'],
  },
  {
    name: 'cholesky',
    forms: [{ ts: '$0.cholesky()', py: 'torch.linalg.cholesky($0)' }],
    rounding: 'sums',
    draw: (draw) => [matrix(draw, true)[0]],
    dtypes: ['float32', 'float64'],
  },
  {
    name: 'solve',
    forms: [{ ts: 'bw.solve($0, $1)', py: 'torch.linalg.solve($0, $1)' }],
    rounding: 'sums',
    draw: (draw) => {
      const [a, n] = matrix(draw);
      const right = draw.random.pick([[n], [n, 2], [2, n, 1]]);
      return [a, draw.tensor(right)];
    },
    dtypes: ['float32', 'float64'],
  },
];

const attention: Operation = {
  name: 'scaledDotProductAttention',
  forms: [
    { ts: 'bw.scaledDotProductAttention($0, $1, $2, $3)', py: 'F.scaled_dot_product_attention($0, $1, $2, **$3)' },
  ],
  rounding: 'sums',
  draw: (draw) => {
    const lead = draw.random.pick([[1], [2], [2, 2]]);
    const [n, m, d, e] = [draw.size(1), draw.size(1), draw.size(1), draw.size(1)];
    const options: Record<string, Arg> = {};
    const kind = draw.random.weighted({ none: 3, causal: 2, mask: 2, added: 1 });
    if (kind === 'causal') options['causal'] = true;
    if (kind === 'mask') options['mask'] = draw.tensor([n, m], { dtype: 'bool', style: 'whole' });
    if (kind === 'added') options['mask'] = draw.tensor([n, m], { grad: false });
    if (draw.random.chance(0.3)) options['scale'] = 0.5;
    return [draw.tensor([...lead, n, d]), draw.tensor([...lead, m, d]), draw.tensor([...lead, m, e]), { options }];
  },
  dtypes: [...FLOATS, 'float32', 'float32'],
  weight: 2,
};

export const productRows: readonly Operation[] = [...products, ...linalg, attention];
