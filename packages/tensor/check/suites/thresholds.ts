/**
 * @file Sizes on both sides of every size at which another kernel takes over, and products that share a storage: what a device keeps of
 * an operand must not outlive the shape it was seen in, or its values.
 */
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import type { Arg, Ref } from '../program.ts';
import type { Suite } from './suite.ts';

/** Elements, or multiply-adds, from which backends use a kernel: a test compares them with the backends' own tables. */
const THRESHOLDS = [2048, 8192, 16_384] as const;

const near = (random: Random, at: number): number => at + random.pick([-1, 0, 0, 1, 17]);

const UNARY = [
  'neg',
  'abs',
  'exp',
  'sqrt',
  'rsqrt',
  'square',
  'relu',
  'sigmoid',
  'tanh',
  'log',
  'erf',
  'sin',
  'floor',
  'sign',
  'softplus',
  'gelu',
  'silu',
];
const FUNCTIONAL: Readonly<Record<string, string>> = {
  softplus: 'F.softplus($0)',
  gelu: 'F.gelu($0)',
  silu: 'F.silu($0)',
};
const BINARY = ['add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'pow', 'gt', 'atan2'];
const IN_PLACE = ['exp_', 'sqrt_', 'relu_', 'sigmoid_', 'tanh_', 'neg_'];

/** A large tensor, turned or cut now and then. */
function large(draw: Draw, shape: readonly number[]): Ref {
  const { random } = draw;
  const [rows, columns] = shape as [number, number];
  const kind = random.weighted({ plain: 5, transposed: 2, stepped: 1, offset: 1 });
  if (shape.length !== 2 || kind === 'plain') return draw.leaf(shape);
  if (kind === 'transposed')
    return draw.call('transpose', '$0.transpose(0, 1)', '$0.transpose(0, 1)', [draw.leaf([columns, rows])], 'never');
  if (kind === 'stepped')
    return draw.call('slice', '$0.slice(0, 0, undefined, 2)', '$0[::2]', [draw.leaf([2 * rows, columns])], 'never');
  return draw.call(
    'narrow',
    '$0.narrow(0, 1, $1)',
    '$0.narrow(0, 1, $1)',
    [draw.leaf([rows + 1, columns]), rows],
    'never',
  );
}

function shapeOf(random: Random, size: number): number[] {
  const rows = random.pick([1, 2, 7, 64]);
  return random.chance(0.4) ? [size] : [rows, Math.ceil(size / rows)];
}

function elementwise(draw: Draw): void {
  const { random } = draw;
  const shape = shapeOf(random, near(random, random.pick(THRESHOLDS)));
  const kind = random.weighted({ unary: 4, binary: 4, broadcast: 2, inPlace: 2, reduce: 2 });
  if (kind === 'unary') {
    const name = random.pick(UNARY);
    return draw.backward(
      draw.call(name, `$0.${name}()`, FUNCTIONAL[name] ?? `$0.${name}()`, [large(draw, shape)], 'once'),
    );
  }
  if (kind === 'reduce') {
    const [name, dim] = [
      random.pick(['sum', 'mean', 'prod', 'softmax', 'logSoftmax', 'variance', 'amax', 'cumsum']),
      shape.length - 1,
    ];
    const py = { logSoftmax: 'log_softmax', variance: 'var' }[name] ?? name;
    return draw.backward(draw.call(name, `$0.${name}($1)`, `$0.${py}($1)`, [large(draw, shape), dim], 'sums'));
  }
  if (kind === 'inPlace') {
    const name = random.pick(IN_PLACE);
    const own = draw.call('clone', '$0.clone()', '$0.clone()', [large(draw, shape)], 'never');
    const changed = draw.call(name, `$0.${name}()`, `$0.${name}()`, [own], 'inPlace');
    return draw.backward(
      draw.call('mul', '$0.mul($1)', '$0.mul($1)', [changed, random.chance(0.5) ? changed : 3], 'once'),
    );
  }
  const name = random.pick(BINARY);
  const other =
    kind === 'broadcast' ? random.pick([shape.slice(1), shape.map((n, i) => (i === 0 ? 1 : n)), []]) : shape;
  return draw.backward(
    draw.call(name, `$0.${name}($1)`, `$0.${name}($1)`, [large(draw, shape), large(draw, other)], 'once'),
  );
}

/** Sizes m, k, n with about `work` multiply-adds; one of them is 1 now and then. */
function product(random: Random, work: number): [number, number, number] {
  const k = random.pick([16, 32, 64, 127, 128]);
  const n = random.pick([1, 1, 4, 16, 33]);
  const m = Math.max(1, Math.round(work / (k * n)) + random.pick([-1, 0, 0, 1]));
  return random.chance(0.3) ? [n, k, m] : [m, k, n];
}

function matmuls(draw: Draw): void {
  const { random } = draw;
  const [m, k, n] = product(random, random.pick([16_384, 16_384, 20_000, 60_000]));
  const batch = random.chance(0.25) ? [random.int(1, 4)] : [];
  const b = random.chance(0.5) ? [...batch, k, n] : [k, n];
  draw.backward(
    draw.call('matmul', '$0.matmul($1)', '$0.matmul($1)', [large(draw, [...batch, m, k]), large(draw, b)], 'sums'),
  );
}

/** One weight in products of several shapes, transposed and not, changed in between. */
function shared(draw: Draw): void {
  const { random } = draw;
  const [rows, columns] = random.pick([
    [64, 1],
    [1, 64],
    [128, 64],
    [64, 256],
    [256, 1],
    [32, 32],
    [96, 10],
  ] as const);
  const leaf = draw.leaf([rows, columns]);
  const weight = random.chance(0.5) ? draw.call('clone', '$0.clone()', '$0.clone()', [leaf], 'never') : leaf;
  const size = rows * columns;
  const results: Ref[] = [];
  for (let i = random.int(2, 6); i > 0; i--) {
    const form = random.weighted({
      plain: 3,
      turned: 3,
      reshaped: 2,
      batched: 1,
      changed: weight === leaf ? 0.3 : 1.5,
    });
    if (form === 'changed') {
      draw.call('mul_', 'bw.noGrad(() => $0.mul_(1.5))', 'no_grad(lambda: $0.mul_(1.5))', [weight], 'inPlace');
      continue;
    }
    const [n, m] =
      form === 'reshaped'
        ? random.pick(
            [
              [size, 1],
              [1, size],
              [rows * 2, columns / 2],
            ].filter(([, c]) => Number.isInteger(c)) as [number, number][],
          )
        : form === 'turned'
          ? [columns, rows]
          : [rows, columns];
    const count = random.pick([1, Math.max(1, Math.ceil(16_384 / size)), Math.ceil(20_000 / size) + 3]);
    const x = draw.leaf(form === 'batched' ? [2, count, n] : [count, n]);
    const args: Arg[] = [x, weight, [n, m]];
    const text =
      form === 'turned'
        ? '$0.matmul($1.transpose(0, 1))'
        : form === 'reshaped'
          ? '$0.matmul($1.reshape($2))'
          : '$0.matmul($1)';
    results.push(draw.call('matmul', text, text, args, 'sums'));
  }
  for (const result of results) if (random.chance(0.6)) draw.backward(result, true);
}

export const thresholdSuite: Suite = {
  name: 'thresholds',
  perSeed: 100,
  large: true,
  draw(random, seed) {
    const draw = new Draw(random, {
      dtype: random.weighted({ float32: 9, float64: 1, float16: 0.5, int64: 0.5, int32: 0.7, uint8: 0.3, bool: 0.3 }),
      mishaps: 0,
    });
    const kind = random.weighted({ elementwise: 4, matmuls: 3, shared: 4 });
    if (kind === 'elementwise') elementwise(draw);
    else if (kind === 'matmuls') matmuls(draw);
    else shared(draw);
    return draw.program('thresholds', seed);
  },
};
