/** @file Chains of operations on a few leaves, with results used more than once: the engine's order and sums. */
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import type { Arg, Ref } from '../program.ts';
import type { Suite } from './suite.ts';

interface Value {
  readonly ref: Ref;
  readonly shape: readonly number[];
}

const SMOOTH = [
  'sigmoid',
  'tanh',
  'sin',
  'cos',
  'square',
  'softplus',
  'silu',
  'gelu',
  'relu',
  'neg',
  'abs',
  'exp',
  'atan',
];
const SPELLED: Readonly<Record<string, string>> = {
  softplus: 'F.softplus($0)',
  silu: 'F.silu($0)',
  gelu: 'F.gelu($0)',
};

/** One step on matrices [n, m]; answers what it made. */
function step(draw: Draw, values: readonly Value[]): Value {
  const { random } = draw;
  const { ref, shape } = random.pick(values);
  const [n, m] = shape as [number, number];
  const make = (
    op: string,
    ts: string,
    py: string,
    args: readonly Arg[],
    to: readonly number[],
    sums = false,
  ): Value => ({
    ref: draw.call(op, ts, py, args, sums ? 'sums' : 'once'),
    shape: to,
  });
  const both = (op: string, text: string, args: readonly Arg[], to: readonly number[], sums = false): Value =>
    make(op, text, text, args, to, sums);
  switch (
    random.weighted({
      unary: 5,
      binary: 5,
      matmul: 3,
      transpose: 2,
      softmax: 1,
      mean: 1,
      concat: 1,
      norm: 1,
      slice: 1,
      index: 1,
      where: 1,
    })
  ) {
    case 'unary': {
      const name = random.pick(SMOOTH);
      return make(name, `$0.${name}()`, SPELLED[name] ?? `$0.${name}()`, [ref], shape);
    }
    case 'binary': {
      const fitting = values.filter((v) => v.shape.every((k, i) => k === shape[i]));
      const name = random.pick(['add', 'sub', 'mul', 'maximum', 'minimum', 'div']);
      if (name === 'div') return both('div', '$0.div($1.square().add(1))', [ref, random.pick(fitting).ref], shape);
      return both(name, `$0.${name}($1)`, [ref, random.pick(fitting).ref], shape);
    }
    case 'matmul': {
      const fitting = values.filter((v) => v.shape[0] === m);
      if (fitting.length === 0) return both('matmul', '$0.matmul($0.transpose(0, 1))', [ref], [n, n], true);
      const other = random.pick(fitting);
      return both('matmul', '$0.matmul($1)', [ref, other.ref], [n, other.shape[1] as number], true);
    }
    case 'transpose':
      return both('transpose', '$0.transpose(0, 1)', [ref], [m, n]);
    case 'softmax':
      return both('softmax', '$0.softmax($1)', [ref, random.int(0, 2)], shape, true);
    case 'mean':
      return make(
        'mean',
        '$0.sub($0.mean($1, true))',
        '$0.sub($0.mean($1, True))',
        [ref, random.int(0, 2)],
        shape,
        true,
      );
    case 'concat':
      return make('concat', 'bw.concat([$0, $0], 0)', 'torch.cat([$0, $0], 0)', [ref], [2 * n, m]);
    case 'norm':
      return make('layerNorm', 'bw.layerNorm($0, [$1])', 'F.layer_norm($0, [$1])', [ref, m], shape, true);
    case 'slice':
      return both('narrow', '$0.narrow(1, 0, $1)', [ref, Math.max(1, m - 1)], [n, Math.max(1, m - 1)]);
    case 'index':
      return make(
        'indexSelect',
        '$0.indexSelect(0, $1)',
        '$0.index_select(0, $1)',
        [ref, draw.index([3], () => random.int(0, n))],
        [3, m],
      );
    default:
      return make(
        'where',
        'bw.where($0.gt(0.1), $0, $0.mul(0.3))',
        'torch.where($0.gt(0.1), $0, $0.mul(0.3))',
        [ref],
        shape,
      );
  }
}

function sizes(random: Random): [number, number] {
  return [random.int(1, 5), random.int(1, 5)];
}

/** Keeps the gradient of a value, which hooks that came before and come after change on its way. */
function watch(draw: Draw, ref: Ref): Ref {
  const double = (): unknown =>
    draw.call(
      'registerHook',
      '!$0.registerHook((g) => g.mul(2))',
      '!$0.register_hook(lambda g: g * 2)',
      [ref],
      'never',
    );
  if (draw.random.chance(0.3)) double();
  draw.call('retainGrad', '!$0.retainGrad()', '!$0.retain_grad()', [ref], 'never');
  if (draw.random.chance(0.3)) double();
  return ref;
}

export const chainSuite: Suite = {
  name: 'chains',
  perSeed: 400,
  draw(random, seed) {
    const dtype = random.weighted({ float32: 6, float64: 3, float16: 0.5, bfloat16: 0.5 });
    const draw = new Draw(random, { dtype, mishaps: 0, views: 0.2 });
    const [n, m] = sizes(random);
    const values: Value[] = [
      [n, m],
      [m, n],
      [n, m],
    ].map((shape) => ({ ref: draw.tensor(shape, { style: random.pick(['plain', 'plain', 'whole']) }), shape }));
    for (let i = random.int(2, 8); i > 0; i--) values.push(step(draw, values));
    const watched = random.chance(0.3) ? watch(draw, random.pick(values).ref) : undefined;
    for (const { ref } of values.slice(-random.int(1, 3))) draw.backward(ref, true);
    if (watched !== undefined) draw.call('grad', '$0.grad', '$0.grad', [watched], 'never');
    return draw.program('chains', seed);
  },
};
