/** @file Tensors that are views: of every kind of view, so that operations meet strides, offsets and repeated elements. */
import type { Random } from '@backwire/testing';
import type { DType } from '../../src/index.ts';
import type { Arg, Ref, Rounding } from '../program.ts';
import type { Style } from './elements.ts';

export type Shape = readonly number[];

/** How a tensor is drawn; what is left out is drawn as the case would have it. */
export interface TensorOptions {
  readonly dtype?: DType;
  readonly style?: Style;
  readonly grad?: boolean;
  /** Whether it may be a view of a larger tensor. @default true */
  readonly views?: boolean;
}

/** What draws the tensor that is viewed, and the view. */
interface Drawing {
  readonly random: Random;
  leaf(shape: Shape, options: TensorOptions): Ref;
  call(op: string, ts: string, py: string, args: readonly Arg[], rounding: Rounding): Ref;
}

/** A tensor of `shape` that is a view of a drawn one. */
export function drawLayout(draw: Drawing, shape: Shape, options: TensorOptions): Ref {
  const { random } = draw;
  const fitting = LAYOUTS.filter(({ least }) => shape.length >= least);
  return random.pick(fitting).make(draw, shape, options);
}

interface Layout {
  /** The least number of dimensions that has it. */
  readonly least: number;
  readonly make: (draw: Drawing, shape: Shape, options: TensorOptions) => Ref;
}

const replaced = (shape: Shape, d: number, n: number): number[] => shape.map((m, i) => (i === d ? n : m));

const LAYOUTS: readonly Layout[] = [
  {
    least: 2,
    make: (draw, shape, options) => {
      const [a, b] = draw.random.shuffle(shape.map((_, i) => i)) as [number, number];
      const base = [...shape];
      [base[a], base[b]] = [base[b] as number, base[a] as number];
      return draw.call(
        'transpose',
        '$0.transpose($1, $2)',
        '$0.transpose($1, $2)',
        [draw.leaf(base, options), a, b],
        'never',
      );
    },
  },
  {
    least: 1,
    make: (draw, shape, options) => {
      const d = draw.random.int(0, shape.length);
      const step = draw.random.int(2, 4);
      const n = shape[d] as number;
      const start = draw.random.int(0, 2);
      const base = draw.leaf(replaced(shape, d, start + (n === 0 ? 0 : (n - 1) * step + 1)), options);
      return slice(draw, base, [d, start, undefined, step]);
    },
  },
  {
    least: 1,
    make: (draw, shape, options) => {
      const d = draw.random.int(0, shape.length);
      const n = shape[d] as number;
      const base = draw.leaf(replaced(shape, d, n + 2), options);
      return draw.call('narrow', '$0.narrow($1, $2, $3)', '$0.narrow($1, $2, $3)', [base, d, 1, n], 'never');
    },
  },
  {
    least: 1,
    make: (draw, shape, options) => {
      const d = draw.random.int(0, shape.length);
      const base = draw.leaf(replaced(shape, d, 1), options);
      return draw.call('expand', '$0.expand($1)', '$0.expand($1)', [base, [...shape]], 'never');
    },
  },
  {
    least: 0,
    make: (draw, shape, options) => {
      const d = draw.random.int(0, shape.length + 1);
      const base = draw.leaf([...shape.slice(0, d), 3, ...shape.slice(d)], options);
      return draw.call('select', '$0.select($1, $2)', '$0.select($1, $2)', [base, d, draw.random.int(-3, 3)], 'never');
    },
  },
  {
    least: 0,
    make: (draw, shape, options) => {
      const size = shape.reduce((a, b) => a * b, 1);
      return draw.call(
        'reshape',
        '$0.reshape($1)',
        '$0.reshape($1)',
        [draw.leaf([size], options), [...shape]],
        'never',
      );
    },
  },
];

function slice(draw: Drawing, base: Ref, [d, start, end, step]: readonly [number, number, undefined, number]): Ref {
  const ts = '$0.slice($1, $2, $3, $4)';
  return draw.call('slice', ts, 'aten.slice($0, $1, $2, $3, $4)', [base, d, start, end, step], 'never');
}
