/** @file Programs of several statements on tensors that share memory: views of views, changes through them and through their bases. */
import type { DType } from '../../src/index.ts';
import type { Random } from '@backwire/testing';
import { DTYPES, FLOATS, INTEGERS, isDifferentiable } from '../dtypes.ts';
import { Draw } from '../draw/draw.ts';
import { inPlaceKinds } from '../operations/others.ts';
import type { Arg, Ref } from '../program.ts';
import type { Suite } from './suite.ts';

interface Variable {
  readonly ref: Ref;
  readonly shape: readonly number[];
}

/** What a program has made so far. */
class Heap {
  readonly draw: Draw;
  readonly variables: Variable[] = [];

  constructor(draw: Draw) {
    this.draw = draw;
  }

  any(): Variable {
    return this.draw.random.pick(this.variables);
  }

  add(ref: Ref, shape: readonly number[]): void {
    this.variables.push({ ref, shape });
  }

  call(op: string, ts: string, py: string, args: readonly Arg[], shape: readonly number[]): void {
    this.add(this.draw.call(op, ts, py, args, 'never'), shape);
  }
}

/** A view of a variable, and the shape it has. */
function addView(heap: Heap): void {
  const { draw } = heap;
  const { random } = draw;
  const { ref, shape } = heap.any();
  const d = random.int(0, Math.max(1, shape.length));
  const n = shape[d] ?? 1;
  const same = (op: string, ts: string, args: readonly Arg[], to: readonly number[], py = ts): void =>
    heap.call(op, ts, py, args, to);
  const without = shape.filter((_, i) => i !== d);
  const withSize = (m: number): number[] => shape.map((k, i) => (i === d ? m : k));
  const size = shape.reduce((a, b) => a * b, 1);
  if (shape.length === 0) return same('unsqueeze', '$0.unsqueeze($1)', [ref, 0], [1]);
  switch (
    random.weighted({
      select: 3,
      slice: 3,
      narrow: 2,
      transpose: 3,
      reshape: 2,
      unsqueeze: 1,
      expand: 1,
      diagonal: shape.length >= 2 ? 2 : 0,
      split: 1,
      chunk: 1,
      detach: 0.6,
      flatten: 0.7,
      alias: 0.5,
    })
  ) {
    case 'select':
      if (n === 0) return same('detach', '$0.detach()', [ref], shape);
      return same('select', '$0.select($1, $2)', [ref, d, random.int(-n, n)], without);
    case 'slice': {
      const step = random.int(1, 3);
      const start = random.int(0, n + 1);
      const length = Math.max(0, Math.ceil((n - start) / step));
      return same(
        'slice',
        '$0.slice($1, $2, $3, $4)',
        [ref, d, start, n, step],
        withSize(length),
        'aten.slice($0, $1, $2, $3, $4)',
      );
    }
    case 'narrow': {
      const start = random.int(0, n + 1);
      const length = random.int(0, n - start + 1);
      return same('narrow', '$0.narrow($1, $2, $3)', [ref, d, start, length], withSize(length));
    }
    case 'transpose': {
      const e = random.int(0, shape.length);
      const to = [...shape];
      [to[d], to[e]] = [to[e] as number, to[d] as number];
      return same('transpose', '$0.transpose($1, $2)', [ref, d, e], to);
    }
    case 'reshape': {
      const to = random.pick([[size], [1, size], [...shape, 1]]);
      return same('reshape', '$0.reshape($1)', [ref, to], to);
    }
    case 'unsqueeze':
      return same('unsqueeze', '$0.unsqueeze($1)', [ref, d], [...shape.slice(0, d), 1, ...shape.slice(d)]);
    case 'expand':
      return same('expand', '$0.expand($1)', [ref, [2, ...shape]], [2, ...shape]);
    case 'diagonal':
      return same(
        'diagonal',
        '$0.diagonal()',
        [ref],
        [...shape.slice(0, -2), Math.min(shape.at(-1) as number, shape.at(-2) as number)],
        '$0.diagonal(dim1=-2, dim2=-1)',
      );
    case 'split': {
      const first = random.int(0, n + 1);
      return same('split', '$0.split($1, $2)[0]', [ref, [first, n - first], d], withSize(first));
    }
    case 'chunk': {
      const part = Math.max(n === 0 ? 0 : 1, Math.ceil(n / 2));
      return same('chunk', '$0.chunk(2, $1)[0]', [ref, d], withSize(part));
    }
    case 'detach':
      return same('detach', '$0.detach()', [ref], shape);
    case 'flatten':
      return same('flatten', '$0.flatten()', [ref], [size]);
    default:
      return same('alias', '$0.alias()', [ref], shape, 'aten.alias($0)');
  }
}

/** A tensor that broadcasts to `shape`: one there is, possibly sharing memory with the one that is changed, or a new one. */
function operandFor(heap: Heap, shape: readonly number[]): Ref {
  const { draw, variables } = heap;
  const fitting = variables.filter(
    (v) =>
      v.shape.length <= shape.length &&
      v.shape.every((n, i) => n === 1 || n === shape[i + shape.length - v.shape.length]),
  );
  if (fitting.length > 0 && draw.random.chance(0.5)) return draw.random.pick(fitting).ref;
  const own = draw.random.chance(0.3) ? shape.slice(1) : shape;
  return draw.leaf(
    own,
    draw.random.chance(0.15)
      ? { dtype: draw.random.pick(DTYPES), style: 'whole' }
      : { style: draw.random.pick(['plain', 'whole', 'positive']) },
  );
}

/** A change of some of the elements, or by two numbers. */
function addChoice(heap: Heap): void {
  const { draw } = heap;
  const { random } = draw;
  const { ref, shape } = heap.any();
  const made = (op: string, ts: string, py: string, args: readonly Arg[]): void =>
    heap.add(draw.call(op, ts, py, [ref, ...args], 'inPlace'), shape);
  const kind = random.pick(['clamp_', 'maskedFill_', 'indexFill_'] as const);
  const d = random.int(0, Math.max(1, shape.length));
  const n = shape[d] ?? 1;
  if (kind === 'indexFill_' && n > 0)
    return made(kind, '$0.indexFill_($1, $2, $3)', '$0.index_fill_($1, $2, $3)', [
      d,
      draw.index([2], () => random.int(0, n)),
      random.int(0, 2),
    ]);
  if (kind === 'maskedFill_')
    return made(kind, '$0.maskedFill_($1, $2)', '$0.masked_fill_($1, $2)', [
      draw.leaf(random.chance(0.3) ? shape.slice(1) : shape, { dtype: 'bool' }),
      random.int(0, 2),
    ]);
  return made('clamp_', '$0.clamp_($1, $2)', '$0.clamp_($1, $2)', [-1, 1]);
}

function addChange(heap: Heap): void {
  const { draw } = heap;
  const { random } = draw;
  const { ref, shape } = heap.any();
  const floating = isDifferentiable(draw.dtype);
  const { name, form, takes } = random.pick(
    inPlaceKinds.filter(
      // What integers and truths refuse has its own suite.
      (kind) =>
        (floating || !/^(div|exp|sqrt|sigmoid|tanh|pow)_/.test(kind.name)) &&
        (!/^pow_/.test(kind.name) || random.chance(0.4)),
    ),
  );
  const args: Arg[] = [ref];
  if (takes === 'number') args.push(random.pick([2, 0.5, -1, 3]));
  if (takes === 'tensor' || takes === 'alpha') args.push(operandFor(heap, shape));
  if (takes === 'alpha') args.push(random.pick([2, -1]));
  const quiet = random.chance(0.06);
  const ts = quiet ? `bw.noGrad(() => ${form.ts})` : form.ts;
  const py = quiet ? `no_grad(lambda: ${form.py})` : form.py;
  heap.add(draw.call(name, ts, py, args, 'inPlace'), shape);
}

/** An operation that remembers its inputs, or makes something new of them. */
function addUse(heap: Heap): void {
  const { draw } = heap;
  const { ref, shape } = heap.any();
  const { random } = draw;
  const made = (op: string, text: string, args: readonly Arg[], to = shape): void =>
    heap.add(draw.call(op, text, text, args, 'once'), to);
  switch (random.weighted({ mul: 3, exp: 1, square: 1, tanh: 1, clone: 2, add: 1, sum: 1 })) {
    case 'mul':
      return made('mul', '$0.mul($1)', [ref, operandFor(heap, shape)]);
    case 'add':
      return made('add', '$0.add($1)', [ref, operandFor(heap, shape)]);
    case 'exp':
      return made('exp', '$0.exp()', [ref]);
    case 'square':
      return made('square', '$0.square()', [ref]);
    case 'tanh':
      return made('tanh', '$0.tanh()', [ref]);
    case 'sum':
      return made('sum', '$0.sum()', [ref], []);
    default:
      return made('clone', '$0.clone()', [ref]);
  }
}

function dtypeOf(random: Random): DType {
  const kind = random.weighted({ single: 6, float: 2, integer: 2, complex: 0.7, bool: 0.3 });
  if (kind === 'single') return 'float32';
  if (kind === 'float') return random.pick(FLOATS.slice(1));
  if (kind === 'integer') return random.pick(INTEGERS);
  return kind === 'bool' ? 'bool' : 'complex64';
}

export const viewSuite: Suite = {
  name: 'views',
  perSeed: 900,
  draw(random, seed) {
    const draw = new Draw(random, { dtype: dtypeOf(random), mishaps: 0.01, views: 0, longest: 4 });
    const heap = new Heap(draw);
    const shape = draw.shape(random.chance(0.9) ? 1 : 0, 3);
    const leaf = draw.leaf(shape, { style: random.pick(['plain', 'plain', 'whole', 'positive']) });
    const base = random.weighted({ product: 5, clone: 4, leaf: 0.7, view: 1 });
    if (base === 'leaf') heap.add(leaf, shape);
    else if (base === 'view')
      heap.call(
        'transpose',
        '$0.clone().transpose(0, -1)',
        '$0.clone().transpose(0, -1)',
        [leaf],
        shape.length < 2 ? shape : [shape.at(-1) as number, ...shape.slice(1, -1), shape[0] as number],
      );
    else
      heap.add(
        draw.call(
          base,
          base === 'clone' ? '$0.clone()' : '$0.mul(2)',
          base === 'clone' ? '$0.clone()' : '$0.mul(2)',
          [leaf],
          'once',
        ),
        shape,
      );
    for (let i = random.int(3, 9); i > 0; i--) {
      const kind = random.weighted({ view: 4, change: 3.4, choice: 0.6, use: 1 });
      if (kind === 'view') addView(heap);
      else if (kind === 'change') addChange(heap);
      else if (kind === 'choice') addChoice(heap);
      else addUse(heap);
    }
    const roots = random.shuffle(heap.variables).slice(0, random.int(1, 3));
    for (const { ref } of roots) draw.backward(ref, true);
    return draw.program('views', seed);
  },
};
