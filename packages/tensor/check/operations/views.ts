/** @file Views, copies and conversions. */
import { DTYPES } from '../dtypes.ts';
import type { Arg } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { method, type Form, type Operation } from '../draw/operation.ts';

/** How a view is made of a tensor of a given shape: also for programs that have the tensor already. */
interface ViewKind {
  readonly name: string;
  readonly form: Form;
  readonly args: (draw: Draw, shape: readonly number[]) => readonly Arg[];
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** A shape of as many elements. */
function regrouped(draw: Draw, shape: readonly number[]): number[] {
  const { random } = draw;
  const size = sizeOf(shape);
  if (draw.mishap()) return [size + 1];
  const guess = random.pick([
    [size],
    [...shape, 1],
    [1, ...shape],
    [...shape].reverse(),
    shape.length > 1 ? [(shape[0] as number) * (shape[1] as number), ...shape.slice(2)] : [size, 1],
    size % 2 === 0 ? [2, size / 2] : [size],
  ]);
  return random.chance(0.3) ? guess.map((n, i) => (i === 0 ? -1 : n)) : guess;
}

const at = (draw: Draw, n: number): number => {
  if (draw.mishap()) return draw.random.pick([n, -n - 1]);
  return n === 0 ? 0 : draw.random.int(-n, n);
};

const sizeAt = (shape: readonly number[], dim: number): number => shape.at(dim) ?? 1;

function windowOf(draw: Draw, shape: readonly number[]): [dim: number, start: number, length: number] {
  const dim = draw.dim(shape);
  const n = sizeAt(shape, dim);
  const start = draw.random.int(0, n + 1);
  return [dim, start, draw.mishap() ? n + 1 : draw.random.int(0, n - start + 1)];
}

const viewKinds: readonly ViewKind[] = [
  { name: 'reshape', form: method('reshape', 2), args: (draw, s) => [regrouped(draw, s)] },
  { name: 'view', form: method('view', 2), args: (draw, s) => [regrouped(draw, s)] },
  { name: 'transpose', form: method('transpose', 3), args: (draw, s) => [draw.dim(s), draw.dim(s)] },
  {
    name: 'permute',
    form: method('permute', 2),
    args: (draw, s) => [
      draw.mishap() ? draw.dims(s) : draw.random.shuffle(s.map((_, i) => (draw.random.chance(0.2) ? i - s.length : i))),
    ],
  },
  { name: 'narrow', form: method('narrow', 4), args: windowOf },
  {
    name: 'select',
    form: method('select', 3),
    args: (draw, s) => {
      const dim = draw.dim(s);
      return [dim, at(draw, sizeAt(s, dim))];
    },
  },
  {
    name: 'slice',
    form: { ts: '$0.slice($1, $2, $3, $4)', py: 'aten.slice($0, $1, $2, $3, $4)' },
    args: (draw, s) => [
      draw.dim(s),
      draw.random.int(-6, 6),
      draw.random.chance(0.3) ? undefined : draw.random.int(-6, 7),
      draw.random.int(1, 4),
    ],
  },
  {
    name: 'expand',
    form: method('expand', 2),
    args: (draw, s) => [
      [
        ...(draw.random.chance(0.3) ? [2] : []),
        ...s.map((n) =>
          n === 1 && !draw.mishap() ? draw.random.int(1, 4) : draw.random.chance(0.2) ? -1 : draw.mishap() ? n + 1 : n,
        ),
      ],
    ],
  },
  { name: 'squeeze', form: method('squeeze', 1), args: () => [] },
  { name: 'squeeze dim', form: method('squeeze', 2), args: (draw, s) => [draw.dim(s)] },
  { name: 'unsqueeze', form: method('unsqueeze', 2), args: (draw, s) => [draw.dim([...s, 1])] },
  {
    name: 'flatten',
    form: method('flatten', 3),
    args: (draw, s) => (draw.random.chance(0.4) ? [0, -1] : [draw.dim(s), draw.dim(s)]),
  },
  { name: 'alias', form: { ts: '$0.alias()', py: 'aten.alias($0)' }, args: () => [] },
  { name: 'diagonal', form: { ts: '$0.diagonal()', py: '$0.diagonal(dim1=-2, dim2=-1)' }, args: () => [] },
  { name: 'detach', form: method('detach', 1), args: () => [] },
  {
    name: 'split',
    form: { ts: '$0.split($1, $2)[$3]', py: '$0.split($1, $2)[$3]' },
    args: (draw, s) => {
      const dim = draw.dim(s);
      const n = sizeAt(s, dim);
      const first = draw.random.int(0, n + 1);
      const sizes = draw.random.chance(0.5)
        ? Math.max(1, Math.ceil(n / 2))
        : draw.mishap()
          ? [n + 1]
          : [first, n - first];
      return [sizes, dim, 0];
    },
  },
  {
    name: 'chunk',
    form: { ts: '$0.chunk($1, $2)', py: '$0.chunk($1, $2)' },
    args: (draw, s) => [draw.random.int(1, 4), draw.dim(s)],
  },
  {
    name: 'chunk first',
    form: { ts: '$0.chunk($1, $2)[0]', py: '$0.chunk($1, $2)[0]' },
    args: (draw, s) => [draw.random.int(1, 4), draw.dim(s)],
  },
  { name: 'unbind', form: { ts: '$0.unbind($1)', py: '$0.unbind($1)' }, args: (draw, s) => [draw.dim(s)] },
];

const views: Operation[] = viewKinds.map(({ name, form, args }) => ({
  name,
  forms: [form],
  rounding: 'never',
  draw: (draw) => {
    const shape = draw.shape(name === 'diagonal' && !draw.mishap() ? 2 : 0);
    return [draw.tensor(shape), ...args(draw, shape)];
  },
}));

const copies: Operation[] = [
  ...['clone', 'contiguous'].map((name): Operation => ({
    name,
    forms: [method(name, 1)],
    rounding: 'never',
    draw: (draw) => [draw.tensor(draw.shape())],
  })),
  {
    name: 'to',
    forms: [method('to', 2)],
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.shape()), { dtype: draw.random.pick(DTYPES) }],
    weight: 4,
  },
  {
    name: 'item',
    forms: [method('item', 1)],
    rounding: 'never',
    draw: (draw) => [draw.tensor(draw.random.chance(0.9) ? draw.random.pick([[], [1], [1, 1]]) : draw.shape())],
  },
  {
    name: 'equal',
    forms: [{ ts: '$0.equal($1)', py: 'torch.equal($0, $1)' }],
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape();
      return [
        draw.tensor(shape, { style: 'equal' }),
        draw.random.chance(0.5) ? { ref: draw.lines.length - 1 } : draw.tensor(shape),
      ];
    },
  },
  {
    name: 'allClose',
    forms: [
      {
        ts: '$0.allClose($1, { rtol: $2, atol: $3, equalNaN: $4 })',
        py: 'torch.allclose($0, $1, rtol=$2, atol=$3, equal_nan=$4)',
      },
    ],
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape();
      return [
        draw.tensor(shape),
        draw.tensor(shape),
        draw.random.pick([0, 0.1, 1]),
        draw.random.pick([0, 1, 3]),
        draw.random.chance(0.5),
      ];
    },
  },
];

export const viewing: readonly Operation[] = [...views, ...copies];
