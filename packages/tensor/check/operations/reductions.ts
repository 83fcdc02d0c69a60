/** @file Reductions, scans, and what works along one dimension: softmax, sorting, searching. */
import type { Arg } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { fn, method, type Form, type Operation } from '../draw/operation.ts';
import type { Rounding } from '../program.ts';

const both = (name: string, takes: number): Form[] => [method(name, takes), fn(name, takes)];

function row(name: string, forms: Form[], rounding: Rounding, draw: Operation['draw'], called = name): Operation {
  return { name: called, forms, rounding, draw };
}

const keep = (draw: Draw): boolean => draw.random.chance(0.4);

/** Of all elements, one dimension, several. */
function reduction(name: string, rounding: Rounding, several = true): Operation[] {
  const one = (draw: Draw): Arg[] => {
    const shape = draw.shape();
    return [draw.tensor(shape), draw.dim(shape), keep(draw)];
  };
  const list = (draw: Draw): Arg[] => {
    const shape = draw.shape();
    return [draw.tensor(shape), draw.dims(shape), keep(draw)];
  };
  return [
    row(name, both(name, 1), rounding, (draw) => [draw.tensor(draw.shape())], `${name} all`),
    row(name, both(name, 3), rounding, one),
    ...(several ? [row(name, both(name, 3), rounding, list, `${name} dims`)] : []),
  ];
}

function along(name: string, rounding: Rounding, forms = both(name, 2)): Operation {
  return row(name, forms, rounding, (draw) => {
    const shape = draw.shape();
    return [draw.tensor(shape), draw.dim(shape)];
  });
}

const spread = (name: 'variance' | 'std', py: string): Operation[] => [
  row(name, [{ ts: `$0.${name}()`, py: `$0.${py}()` }], 'sums', (draw) => [draw.tensor(draw.shape())], `${name} all`),
  row(
    name,
    [{ ts: `$0.${name}($1, { correction: $2, keepDim: $3 })`, py: `$0.${py}($1, correction=$2, keepdim=$3)` }],
    'sums',
    (draw) => {
      const shape = draw.shape();
      return [
        draw.tensor(shape),
        draw.random.chance(0.6) ? draw.dim(shape) : draw.dims(shape),
        draw.random.pick([0, 1, 1, 2]),
        keep(draw),
      ];
    },
  ),
];

const order = (draw: Draw): Arg[] => {
  const shape = draw.shape();
  return [draw.tensor(shape), draw.dim(shape), draw.random.chance(0.4)];
};

/** One of the two results of `max`, `sort` and so on. */
const part = (call: string, py: string, which: string): Form => ({ ts: `${call}.${which}`, py: `${py}.${which}` });

const sorting: Operation[] = [
  row('argSort', [{ ts: '$0.argSort($1, $2)', py: '$0.argsort(dim=$1, descending=$2, stable=True)' }], 'never', order),
  ...['values', 'indices'].flatMap((which) => [
    row(
      'sort',
      [part('$0.sort($1, $2)', '$0.sort(dim=$1, descending=$2, stable=True)', which)],
      'never',
      order,
      `sort ${which}`,
    ),
    ...(['max', 'min'] as const).map((name) =>
      row(
        name,
        [part(`$0.${name}($1, $2)`, `$0.${name}($1, $2)`, which)],
        'never',
        (draw) => {
          const shape = draw.shape();
          return [draw.tensor(shape), draw.dim(shape), keep(draw)];
        },
        `${name} ${which}`,
      ),
    ),
  ]),
  // Which of equal elements are taken is open, so only the values are compared.
  row('topK', [part('$0.topK($1, $2, $3)', '$0.topk($1, $2, $3)', 'values')], 'never', (draw) => {
    const shape = draw.shape();
    const dim = draw.dim(shape);
    const n = shape.at(dim) ?? 1;
    return [
      draw.tensor(shape, { style: draw.random.pick(['plain', 'special', 'extreme']), grad: false }),
      draw.mishap() ? n + 1 : draw.random.int(0, n + 1),
      dim,
      draw.random.chance(0.6),
    ];
  }),
  row(
    'unique',
    [{ ts: '$0.unique().values', py: '$0.unique()' }],
    'never',
    (draw) => [draw.tensor(draw.shape())],
    'unique values',
  ),
  row(
    'unique',
    [{ ts: '$0.unique().inverse', py: '$0.unique(return_inverse=True)[1]' }],
    'never',
    (draw) => [draw.tensor(draw.shape())],
    'unique inverse',
  ),
  row(
    'unique',
    [{ ts: '$0.unique().counts', py: '$0.unique(return_counts=True)[1]' }],
    'never',
    (draw) => [draw.tensor(draw.shape())],
    'unique counts',
  ),
  row('nonzero', both('nonzero', 1), 'never', (draw) => [draw.tensor(draw.shape())]),
];

const norms: Operation[] = [
  row(
    'norm',
    [{ ts: '$0.norm($1)', py: '$0.norm(p=$1)' }],
    'sums',
    (draw) => [draw.tensor(draw.shape()), power(draw)],
    'norm all',
  ),
  row('norm', [{ ts: '$0.norm($1, $2, $3)', py: '$0.norm($1, $2, $3)' }], 'sums', (draw) => {
    const shape = draw.shape();
    return [draw.tensor(shape), power(draw), draw.random.chance(0.6) ? draw.dim(shape) : draw.dims(shape), keep(draw)];
  }),
  row('normalize', [{ ts: 'bw.normalize($0, $1, $2)', py: 'F.normalize($0, $1, $2)' }], 'sums', (draw) => {
    const shape = draw.shape(1);
    return [draw.tensor(shape), power(draw), draw.dim(shape)];
  }),
  row(
    'cosineSimilarity',
    [{ ts: 'bw.cosineSimilarity($0, $1, $2)', py: 'F.cosine_similarity($0, $1, dim=$2)' }],
    'sums',
    (draw) => {
      const [a, b] = draw.broadcast(2, 1) as [number[], number[]];
      return [draw.tensor(a), draw.tensor(b), draw.dim(a)];
    },
  ),
];

const power = (draw: Draw): number => draw.random.pick([2, 2, 1, 3, 0.5, Infinity, -Infinity, 0, 2.5, -1]);

export const reductions: readonly Operation[] = [
  ...reduction('sum', 'sums'),
  ...reduction('mean', 'sums'),
  ...reduction('prod', 'sums', false),
  ...['amax', 'amin'].flatMap((name) => reduction(name, 'never')),
  ...['argMax', 'argMin'].flatMap((name) => reduction(name, 'never', false)),
  ...['any', 'all'].flatMap((name) => reduction(name, 'never')),
  along('cumsum', 'sums'),
  along('cumprod', 'sums'),
  along('softmax', 'sums'),
  along('logSoftmax', 'sums'),
  row('logSumExp', both('logSumExp', 3), 'sums', (draw) => {
    const shape = draw.shape();
    return [draw.tensor(shape), draw.dim(shape), keep(draw)];
  }),
  ...spread('variance', 'var'),
  ...spread('std', 'std'),
  ...sorting,
  ...norms,
];
