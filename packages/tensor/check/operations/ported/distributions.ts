/** @file Distributions: densities, entropies and divergences; samples have statistics of their own (test/sampling.test.ts). */
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import { snake, type Arg } from '../../program.ts';
import { row } from './rows.ts';

const FLOATS = ['float32', 'float32', 'float64'] as const;

interface Kind {
  readonly name: string;
  readonly params: (draw: Draw, shape: readonly number[]) => readonly Arg[];
  /** How it is made of $0 and $1. */
  readonly ts?: string;
  readonly py?: string;
  readonly count: 1 | 2;
  readonly value: (draw: Draw, shape: readonly number[]) => Arg;
  /** Beside logProb, entropy, mean and variance. */
  readonly more?: readonly string[];
  readonly kl?: boolean;
  readonly least?: number;
}

const unit = (draw: Draw, shape: readonly number[]): Arg => draw.tensor(shape, { style: 'unit' });
const plain = (draw: Draw, shape: readonly number[]): Arg => draw.tensor(shape, { style: 'plain' });
/** Above zero. */
const width = (draw: Draw, shape: readonly number[]): Arg =>
  draw.call('width', '$0.add(0.5)', '$0.add(0.5)', [unit(draw, shape)], 'once');
const count =
  (n: number) =>
  (draw: Draw, shape: readonly number[]): Arg =>
    draw.call(
      'count',
      '$0.to($1)',
      '$0.to($1)',
      [draw.index(shape, () => draw.random.int(0, n)), { dtype: draw.dtype }],
      'never',
    );

const placed = {
  params: (draw: Draw, s: readonly number[]): Arg[] => [plain(draw, s), width(draw, s)],
  count: 2,
} as const;
const kinds: readonly Kind[] = [
  { name: 'Normal', ...placed, value: plain, more: ['cdf'], kl: true },
  { name: 'LogNormal', ...placed, value: width, kl: true },
  { name: 'Laplace', ...placed, value: plain, kl: true },
  { name: 'Cauchy', ...placed, value: plain },
  { name: 'Gumbel', ...placed, value: plain },
  { name: 'HalfNormal', params: (draw, s) => [width(draw, s)], count: 1, value: width, kl: true },
  { name: 'Exponential', params: (draw, s) => [width(draw, s)], count: 1, value: width, more: ['cdf'], kl: true },
  {
    name: 'Uniform',
    params: (draw, s) => {
      const low = unit(draw, s);
      return [low, draw.call('high', '$0.add($1)', '$0.add($1)', [low, width(draw, s)], 'once')];
    },
    count: 2,
    value: (draw, s) => draw.call('value', '$0.mul(0.25).add(0.75)', '$0.mul(0.25).add(0.75)', [unit(draw, s)], 'once'),
    kl: true,
  },
  ...(['probs', 'logits'] as const).flatMap((of): Kind[] => {
    const odds = (name: string): Pick<Kind, 'name' | 'ts' | 'py' | 'params'> => ({
      name: `${name} ${of}`,
      ts: `new bw.distributions.${name}({ ${of}: $0 })`,
      py: `torch.distributions.${name}(${of}=$0)`,
      params: (draw, s) => [
        of === 'probs'
          ? draw.call('odds', '$0.mul(0.75).add(0.125)', '$0.mul(0.75).add(0.125)', [unit(draw, s)], 'once')
          : plain(draw, s),
      ],
    });
    return [
      { ...odds('Bernoulli'), count: 1, value: count(2), kl: true },
      { ...odds('Geometric'), count: 1, value: count(5), kl: true },
      {
        ...odds('Categorical'),
        count: 1,
        value: (draw, s) => count(s.at(-1) as number)(draw, s.slice(0, -1)),
        kl: true,
        least: 1,
      },
    ];
  }),
];

function rowsOf(kind: Kind): Operation[] {
  const holes = kind.count === 1 ? '$0' : '$0, $1';
  const { name, ts = `new bw.distributions.${name}(${holes})`, py = `torch.distributions.${name}(${holes})` } = kind;
  const shapeOf = (draw: Draw): readonly number[] => [
    ...draw.shape(0, 2),
    ...(kind.least === 1 ? [draw.random.int(1, 5)] : []),
  ];
  const at = `$${kind.count}`;
  const withValue = ['logProb', ...(kind.more ?? [])].map((method) =>
    row(
      `distributions.${name} ${method}`,
      `${ts}.${method}(${at})`,
      `${py}.${snake(method)}(${at})`,
      'sums',
      (draw) => {
        const s = shapeOf(draw);
        return [...kind.params(draw, s), kind.value(draw, s)];
      },
      FLOATS,
    ),
  );
  const moments = `((d) => [d.mean, d.variance, d.stddev, d.entropy()])(${ts})`;
  const theirs = `(lambda d: [d.mean, d.variance, d.stddev, d.entropy()])(${py})`;
  const others = [0, 1, 2, 3].map((i) =>
    row(
      `distributions.${name} ${['mean', 'variance', 'stddev', 'entropy'][i] as string}`,
      `${moments}[${i}]`,
      `${theirs}[${i}]`,
      'sums',
      (draw) => [...kind.params(draw, shapeOf(draw))],
      FLOATS,
    ),
  );
  const shifted = (text: string): string =>
    text.replaceAll('$1', `$${kind.count + 1}`).replaceAll('$0', `$${kind.count}`);
  const divergence = row(
    `distributions.klDivergence ${name}`,
    `bw.distributions.klDivergence(${ts}, ${shifted(ts)})`,
    `torch.distributions.kl_divergence(${py}, ${shifted(py)})`,
    'sums',
    (draw) => {
      const s = shapeOf(draw);
      return [...kind.params(draw, s), ...kind.params(draw, s)];
    },
    FLOATS,
  );
  return [...withValue, ...others, ...(kind.kl === true ? [divergence] : [])];
}

export const distributionRows: readonly Operation[] = [
  ...kinds.flatMap(rowsOf),
  ...['logProb($2)', 'entropy()'].map((method) =>
    row(
      `distributions.Independent ${method.slice(0, method.indexOf('('))}`,
      `new bw.distributions.Independent(new bw.distributions.Normal($0, $1), 1).${method}`,
      `torch.distributions.Independent(torch.distributions.Normal($0, $1), 1).${snake(method)}`,
      'sums',
      (draw) => {
        const s = draw.shape(1, 3);
        return [plain(draw, s), width(draw, s), plain(draw, s)];
      },
      FLOATS,
    ),
  ),
  row(
    'distributions.OneHotCategorical logProb',
    'new bw.distributions.OneHotCategorical({ logits: $0 }).logProb(bw.oneHot($1, 3).to($2))',
    'torch.distributions.OneHotCategorical(logits=$0).log_prob(F.one_hot($1, 3).to($2))',
    'sums',
    (draw) => {
      const s = draw.shape(0, 2);
      return [plain(draw, [...s, 3]), draw.index(s, () => draw.random.int(0, 3)), { dtype: draw.dtype }];
    },
    FLOATS,
  ),
];
