/** @file Triangles, flips, padding, joining, indexing. */
import type { Arg } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { fn, method, type Form, type Operation } from '../draw/operation.ts';
import { DTYPES, INTEGERS } from '../dtypes.ts';

const both = (name: string, takes: number): Form[] => [method(name, takes), fn(name, takes)];
const sizeAt = (shape: readonly number[], dim: number): number => shape.at(dim) ?? 1;

const shapes: Operation[] = [
  ...['tril', 'triu'].map((name): Operation => ({
    name,
    forms: both(name, 2),
    rounding: 'never',
    draw: (draw) => [draw.tensor(draw.shape(draw.mishap() ? 0 : 2)), draw.random.int(-3, 4)],
  })),
  {
    name: 'trace',
    forms: both('trace', 1),
    rounding: 'sums',
    draw: (draw) => [draw.tensor(draw.mishap() ? draw.shape() : draw.shape(2, 2))],
  },
  {
    name: 'diagEmbed',
    forms: both('diagEmbed', 1),
    rounding: 'never',
    draw: (draw) => [draw.tensor(draw.shape(draw.mishap() ? 0 : 1, 3))],
  },
  {
    name: 'flip',
    forms: both('flip', 2),
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape();
      return [draw.tensor(shape), draw.dims(shape)];
    },
  },
  {
    name: 'pad',
    forms: [
      { ts: '$0.pad($1, $2)', py: 'F.pad($0, $1, value=$2)' },
      { ts: 'bw.pad($0, $1, $2)', py: 'F.pad($0, $1, value=$2)' },
    ],
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape(1);
      const count = draw.random.int(1, shape.length + 1) * 2 - (draw.mishap() ? 1 : 0);
      return [draw.tensor(shape), Array.from({ length: count }, () => draw.random.int(-1, 3)), draw.number()];
    },
  },
  {
    name: 'roll',
    forms: both('roll', 3),
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape();
      return [draw.tensor(shape), draw.random.int(-6, 7), draw.random.chance(0.3) ? undefined : draw.dim(shape)];
    },
  },
  {
    name: 'tile',
    forms: both('tile', 2),
    rounding: 'never',
    draw: (draw) => [
      draw.tensor(draw.shape(0, 3)),
      Array.from({ length: draw.random.int(0, 4) }, () => draw.random.int(0, 3)),
    ],
  },
];

const joining: Operation[] = [
  {
    name: 'concat',
    forms: [{ ts: 'bw.concat($0, $1)', py: 'torch.cat($0, $1)' }],
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape(1);
      const dim = draw.dim(shape);
      const at = dim < 0 ? dim + shape.length : dim;
      const parts = Array.from({ length: draw.random.int(1, 4) }, () => {
        if (draw.random.chance(0.05)) return draw.tensor([0]);
        const own = shape.map((n, i) => (i === at ? draw.size() : draw.mishap() ? n + 1 : n));
        return draw.tensor(own, draw.random.chance(0.15) ? { dtype: draw.random.pick(DTYPES) } : {});
      });
      return [parts, dim];
    },
    weight: 2,
  },
  {
    name: 'stack',
    forms: [fn('stack', 2)],
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape(0, 3);
      const parts = Array.from({ length: draw.random.int(1, 4) }, () =>
        draw.tensor(
          draw.mishap() ? draw.shape() : shape,
          draw.random.chance(0.15) ? { dtype: draw.random.pick(DTYPES) } : {},
        ),
      );
      return [parts, draw.dim([...shape, 1])];
    },
  },
];

/** An index tensor of t's rank whose entries point along `dim`. */
function positions(draw: Draw, shape: readonly number[], dim: number): [Arg, number[]] {
  const at = dim < 0 ? dim + shape.length : dim;
  const own = shape.map((n, i) =>
    i === at ? draw.size() : draw.mishap() ? n + 1 : draw.random.chance(0.3) ? draw.random.int(0, n + 1) : n,
  );
  return [draw.integers(own, 0, sizeAt(shape, dim)), own];
}

function scattering(draw: Draw): Arg[] {
  const shape = draw.shape(0, 3);
  const dim = draw.dim(shape);
  const [index, own] = positions(draw, shape, dim);
  const source = own.map((n) => n + (draw.random.chance(0.15) ? 1 : 0));
  const other = draw.random.chance(0.06) ? { dtype: draw.random.pick(DTYPES) } : {};
  return [draw.tensor(shape), dim, index, draw.tensor(source, other)];
}

/** Indices without equal entries along `dim`: which of equal ones wins is open. */
function permutation(draw: Draw): Arg[] {
  const shape = draw.shape(0, 2);
  const dim = draw.dim(shape);
  const at = dim < 0 ? dim + shape.length : dim;
  const n = sizeAt(shape, dim);
  const order = draw.random.shuffle(Array.from({ length: n }, (_, i) => i)).slice(0, draw.random.int(0, n + 1));
  const index = draw.index(
    shape.map((m, i) => (i === at ? order.length : m)),
    (place) => order[place[at] ?? 0] ?? 0,
  );
  return [draw.tensor(shape), dim, index, draw.tensor(shape.map((m, i) => (i === at ? order.length : m)))];
}

const indexing: Operation[] = [
  {
    name: 'indexSelect',
    forms: both('indexSelect', 3),
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape();
      const dim = draw.dim(shape);
      const index = draw.random.chance(0.08) ? [] : [draw.size()];
      return [
        draw.tensor(shape),
        dim,
        draw.integers(index, 0, sizeAt(shape, dim), draw.random.chance(0.2) ? 'int32' : 'int64'),
      ];
    },
    weight: 2,
  },
  {
    name: 'indexAdd',
    forms: both('indexAdd', 4),
    rounding: 'sums',
    draw: (draw) => {
      const shape = draw.shape();
      const dim = draw.dim(shape);
      const count = draw.size();
      const at = dim < 0 ? dim + shape.length : dim;
      const index = draw.integers([count], 0, sizeAt(shape, dim));
      const source = shape.map((n, i) => (i === at ? count : n));
      return [
        draw.tensor(shape),
        dim,
        index,
        draw.tensor(
          draw.mishap() ? draw.shape() : source,
          draw.random.chance(0.08) ? { dtype: draw.random.pick(DTYPES) } : {},
        ),
      ];
    },
    weight: 2,
  },
  {
    name: 'gather',
    forms: both('gather', 3),
    rounding: 'never',
    draw: (draw) => {
      const shape = draw.shape(0, 3);
      const dim = draw.dim(shape);
      return [draw.tensor(shape), dim, positions(draw, shape, dim)[0]];
    },
    weight: 2,
  },
  { name: 'scatterAdd', forms: both('scatterAdd', 4), rounding: 'sums', draw: scattering, weight: 2 },
  { name: 'scatter', forms: both('scatter', 4), rounding: 'never', draw: permutation },
  {
    name: 'oneHot',
    forms: [{ ts: 'bw.oneHot($0, $1)', py: 'F.one_hot($0, $1)' }],
    rounding: 'never',
    draw: (draw) => [draw.integers(draw.shape(0, 3), 0, 4), draw.mishap() ? 0 : 4],
  },
  {
    name: 'bincount',
    forms: [{ ts: 'bw.bincount($0, undefined, $1)', py: 'torch.bincount($0, minlength=$1)' }],
    rounding: 'never',
    draw: (draw) => [draw.integers([draw.size()], 0, 5, draw.random.pick(INTEGERS)), draw.random.int(0, 8)],
  },
  {
    name: 'bincount weights',
    forms: [{ ts: 'bw.bincount($0, $1)', py: 'torch.bincount($0, $1)' }],
    rounding: 'sums',
    draw: (draw) => {
      const n = draw.size();
      return [draw.integers([n], 0, 5), draw.tensor([draw.mishap() ? n + 1 : n], { grad: false })];
    },
  },
];

export const structure: readonly Operation[] = [...shapes, ...joining, ...indexing];
