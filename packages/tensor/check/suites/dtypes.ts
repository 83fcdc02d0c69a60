/** @file Operations on tensors of every pair of dtypes, with and without dimensions, out of place and in place. */
import type { DType } from '../../src/index.ts';
import type { Random } from '@backwire/testing';
import { DTYPES } from '../dtypes.ts';
import { Draw } from '../draw/draw.ts';
import { fn, method, type Form } from '../draw/operation.ts';
import type { Style } from '../draw/elements.ts';
import type { Arg, Rounding } from '../program.ts';
import type { Suite } from './suite.ts';

interface Row {
  readonly name: string;
  readonly form: Form;
  readonly rounding: Rounding;
  /** What follows the two tensors, or how they are passed. */
  readonly args?: (a: Arg, b: Arg, draw: Draw) => readonly Arg[];
  readonly inPlace?: boolean;
}

const rounded = ['add', 'sub', 'mul', 'div', 'pow', 'floorDivide', 'remainder', 'atan2'];
const exact = ['maximum', 'minimum', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'logicalAnd', 'logicalOr', 'logicalXor'];

const ROWS: readonly Row[] = [
  ...rounded.map((name): Row => ({ name, form: method(name, 2), rounding: 'once' })),
  ...exact.map((name): Row => ({ name, form: method(name, 2), rounding: 'never' })),
  ...['add_', 'sub_', 'mul_', 'div_', 'pow_', 'copy_'].map((name): Row => ({
    name,
    form: method(name, 2, name),
    rounding: 'inPlace',
    inPlace: true,
  })),
  {
    name: 'add alpha',
    form: { ts: '$0.add($1, { alpha: $2 })', py: '$0.add($1, alpha=$2)' },
    rounding: 'sums',
    args: (a, b, draw) => [a, b, draw.random.pick([2, -1, 0.5])],
  },
  { name: 'concat', form: { ts: 'bw.concat($0)', py: 'torch.cat($0)' }, rounding: 'never', args: (a, b) => [[a, b]] },
  { name: 'stack', form: { ts: 'bw.stack($0)', py: 'torch.stack($0)' }, rounding: 'never', args: (a, b) => [[a, b]] },
  {
    name: 'where',
    form: { ts: 'bw.where($0.eq($0), $0, $1)', py: 'torch.where($0 == $0, $0, $1)' },
    rounding: 'never',
  },
  { name: 'lerp', form: { ts: '$0.lerp($1, 0.25)', py: '$0.lerp($1, 0.25)' }, rounding: 'sums' },
  { name: 'dot', form: fn('dot', 2), rounding: 'sums' },
  { name: 'outer', form: fn('outer', 2), rounding: 'once' },
  { name: 'mseLoss', form: { ts: 'bw.mseLoss($0, $1)', py: 'F.mse_loss($0, $1)' }, rounding: 'sums' },
  { name: 'complex', form: fn('complex', 2), rounding: 'never' },
  {
    name: 'indexAdd',
    form: {
      ts: "$0.indexAdd(0, bw.tensor([0, 0], { dtype: 'int64' }), $1)",
      py: '$0.index_add(0, torch.tensor([0, 0]), $1)',
    },
    rounding: 'sums',
  },
  {
    name: 'scatterAdd',
    form: {
      ts: "$0.scatterAdd(0, bw.tensor([0, 0], { dtype: 'int64' }), $1)",
      py: '$0.scatter_add(0, torch.tensor([0, 0]), $1)',
    },
    rounding: 'sums',
  },
  {
    name: 'scatter',
    form: {
      ts: "$0.scatter(0, bw.tensor([1, 0], { dtype: 'int64' }), $1)",
      py: '$0.scatter(0, torch.tensor([1, 0]), $1)',
    },
    rounding: 'never',
  },
  { name: 'indexSelect', form: { ts: '$0.indexSelect(0, $1)', py: '$0.index_select(0, $1)' }, rounding: 'never' },
  { name: 'gather', form: { ts: '$0.gather(0, $1)', py: '$0.gather(0, $1)' }, rounding: 'never' },
  { name: 'prelu', form: { ts: 'bw.prelu($0, $1)', py: 'F.prelu($0, $1)' }, rounding: 'once' },
];

const NUMBERS = [2, -1, 0, 0.5, -2.5, 3, 300, -200, 1e10];

function style(random: Random): Style {
  return random.weighted({ whole: 5, plain: 2, positive: 2, special: 1, extreme: 1 });
}

export const dtypeSuite: Suite = {
  name: 'dtypes',
  perSeed: 900,
  draw(random, seed) {
    const row = random.pick(ROWS);
    const [left, right] = [random.pick(DTYPES), random.pick(DTYPES)] as [DType, DType];
    const draw = new Draw(random, { dtype: left, mishaps: 0, views: 0.1 });
    const shape = (): number[] => random.pick([[2], [2], [2], []]);
    const a = draw.tensor(shape(), { dtype: left, style: style(random) });
    const number =
      row.args === undefined &&
      rounded.includes(row.name.replace(/_$/, '')) &&
      row.name !== 'atan2' &&
      random.chance(0.15);
    const b: Arg = number ? random.pick(NUMBERS) : draw.tensor(shape(), { dtype: right, style: style(random) });
    const own = row.inPlace === true ? draw.call('clone', '$0.clone()', '$0.clone()', [a], 'never') : a;
    const args = row.args?.(own, b, draw) ?? [own, b];
    draw.backward(draw.call(row.name, row.form.ts, row.form.py, args, row.rounding));
    return draw.program('dtypes', seed);
  },
};
