/** @file Indexing, and writing through an index. */
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import type { Arg } from '../../program.ts';
import { row, target, torchRow } from './rows.ts';

const SLICES = [':', '1:', ':2', '::2', '-2:', '1:3', '0:0'] as const;

/** Items for a tensor of `shape`: basic ones, positions that broadcast, lists, masks. */
function items(draw: Draw, shape: readonly number[], basic: boolean): Arg[] {
  const { random } = draw;
  const count = random.int(0, shape.length + 1 + (draw.mishap() ? 1 : 0));
  const out: Arg[] = [];
  const [k, advanced] = [random.int(1, 4), random.pick(['positions', 'positions', 'mask', 'list'] as const)];
  for (let d = 0; d < count; d++) {
    const n = shape[d] ?? 1;
    const kind = random.weighted({ slice: 5, number: 2, dots: 0.7, none: 0.5, advanced: basic ? 0 : 6 });
    if (kind === 'slice' || n === 0) out.push(random.pick(SLICES));
    else if (kind === 'number') out.push(random.int(-n, draw.mishap() ? n + 1 : n));
    else if (kind === 'none') {
      out.push(undefined);
      d--;
      if (out.length > 6) break;
    } else if (kind === 'dots') {
      if (out.includes('...')) out.push(':');
      else {
        out.push('...');
        break;
      }
    } else if (advanced === 'mask') out.push(draw.leaf([n], { dtype: 'bool', grad: false, style: 'whole' }));
    else if (advanced === 'list') out.push(Array.from({ length: k }, () => random.int(-n, n)));
    else out.push(draw.integers(random.pick([[k], [], [2, 1], [k]]), random.chance(0.5) ? -n : 0, n));
  }
  return out;
}

const KEY = '$1.map((i) => i ?? null)';

function value(draw: Draw): Arg {
  return draw.random.chance(0.5) ? draw.random.int(0, 5) : draw.tensor(draw.random.pick([[], [1], [1, 1]]));
}

const put = (name: string, basic: boolean): Operation =>
  row(name, `$0.indexPut_(${KEY}, $2)`, 'put($0, $1, $2)', 'inPlace', (draw) => {
    const shape = draw.shape();
    return [target(draw, shape), items(draw, shape, basic), value(draw)];
  });

export const subscripts: readonly Operation[] = [
  row('index basic', [`$0.index(${KEY})`, `bw.index($0, ${KEY})`], '$0[key($1)]', 'never', (draw) => {
    const shape = draw.shape();
    return [draw.tensor(shape), items(draw, shape, true)];
  }),
  {
    ...row('index', [`$0.index(${KEY})`, `bw.index($0, ${KEY})`], '$0[key($1)]', 'never', (draw) => {
      const shape = draw.shape(1);
      return [draw.tensor(shape), items(draw, shape, false)];
    }),
    weight: 3,
  },
  row('index mask', '$0.index([$1])', '$0[$1]', 'never', (draw) => {
    const shape = draw.shape();
    const mask = draw.mishap() ? draw.shape() : shape.slice(0, draw.random.int(0, shape.length + 1));
    return [draw.tensor(shape), draw.leaf(mask, { dtype: 'bool', grad: false })];
  }),
  put('indexPut_ basic', true),
  put('indexPut_', false),
  row(
    'indexPut accumulate',
    'bw.indexPut($0, [$1], $2, { accumulate: true })',
    'torch.index_put($0, ($1,), $2, accumulate=True)',
    'sums',
    (draw) => {
      const shape = draw.shape(1, 3);
      const n = shape[0] as number;
      const count = n === 0 ? 0 : draw.random.int(0, 5);
      return [draw.tensor(shape), draw.integers([count], 0, n), draw.tensor([count, ...shape.slice(1)])];
    },
  ),
  row('indexPut_ row', '$0.indexPut_([$1], $2)', 'put($0, [$1], $2)', 'inPlace', (draw) => {
    const shape = draw.shape(1, 3);
    const n = shape[0] as number;
    const index = draw.index([Math.min(n, 2)], ([i]) => n - 1 - (i as number));
    return [target(draw, shape), index, draw.tensor([Math.min(n, 2), ...shape.slice(1)])];
  }),
  torchRow('take', 2, 'never', (draw) => {
    const shape = draw.shape();
    const size = shape.reduce((a, b) => a * b, 1);
    return [draw.tensor(shape), draw.integers(size === 0 ? [0] : draw.shape(0, 2), -size, size)];
  }),
  torchRow('takeAlongDim', 3, 'never', (draw) => {
    const shape = draw.shape(1, 3);
    const d = draw.random.int(0, shape.length);
    const n = shape[d] as number;
    const at = shape.map((m, k) => (k === d ? (n === 0 ? 0 : draw.random.int(0, 4)) : draw.random.chance(0.2) ? 1 : m));
    return [draw.tensor(shape), draw.integers(at, 0, n), d];
  }),
  ...['indexCopy', 'indexCopy_'].map((name) =>
    row(
      name,
      `$0.${name}($1, $2, $3)`,
      `$0.index_copy${name.endsWith('_') ? '_' : ''}($1, $2, $3)`,
      name.endsWith('_') ? 'inPlace' : 'never',
      (draw) => {
        const shape = draw.shape(1, 3);
        const d = draw.random.int(0, shape.length);
        const n = shape[d] as number;
        const count = draw.random.int(0, n + 1);
        const from = shape.map((m, k) => (k === d ? count : m));
        return [target(draw, shape), d, draw.index([count], ([i]) => n - 1 - (i as number)), draw.tensor(from)];
      },
    ),
  ),
  ...['indexFill', 'indexFill_'].map((name) =>
    row(
      name,
      `$0.${name}($1, $2, $3)`,
      `$0.index_fill${name.endsWith('_') ? '_' : ''}($1, $2, $3)`,
      name.endsWith('_') ? 'inPlace' : 'never',
      (draw) => {
        const shape = draw.shape(0, 3);
        const d = draw.random.int(0, Math.max(1, shape.length));
        const n = shape[d] ?? 1;
        return [
          target(draw, shape),
          d,
          draw.integers([n === 0 ? 0 : draw.random.int(0, 4)], 0, n),
          draw.random.int(0, 3),
        ];
      },
    ),
  ),
  ...(['sum', 'prod', 'mean', 'amax', 'amin'] as const).flatMap((reduce) =>
    ['scatterReduce', 'scatterReduce_'].map((name) =>
      row(
        `${name} ${reduce}`,
        `$0.${name}($1, $2, $3, $4, { includeSelf: $5 })`,
        `$0.scatter_reduce${name.endsWith('_') ? '_' : ''}($1, $2, $3, $4, include_self=$5)`,
        name.endsWith('_') ? 'inPlace' : 'sums',
        (draw) => {
          const shape = draw.shape(1, 3).map((n) => Math.max(1, n));
          const d = draw.random.int(0, shape.length);
          const at = shape.map((m, k) => (k === d ? draw.random.int(1, 5) : m));
          return [
            target(draw, shape),
            d,
            draw.integers(at, 0, shape[d] as number),
            draw.tensor(at),
            reduce,
            draw.random.chance(0.6),
          ];
        },
        ['float32', 'float32', 'float64', 'int64', 'int32', 'uint8', 'float16'],
      ),
    ),
  ),
  row(
    'scatter number',
    ['$0.scatter($1, $2, $3)', 'bw.scatter($0, $1, $2, $3)'],
    'torch.scatter($0, $1, $2, $3)',
    'never',
    (draw) => {
      const shape = draw.shape(1, 3);
      const d = draw.random.int(0, shape.length);
      const at = shape.map((m, k) => (k === d && (shape[d] as number) > 0 ? draw.random.int(0, 4) : m));
      return [draw.tensor(shape), d, draw.integers(at, 0, shape[d] as number), draw.random.int(0, 3)];
    },
  ),
];
