/** @file Tensors of given numbers: ranges, constants, those like another. */
import { DTYPES, FLOATS, INTEGERS } from '../../dtypes.ts';
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import type { Arg } from '../../program.ts';
import { row } from './rows.ts';

/** Options with a dtype now and then, and with a gradient where that has one. */
function making(draw: Draw, dtypes: readonly string[] = DTYPES): { options: Record<string, Arg> } {
  const options: Record<string, Arg> = {};
  if (draw.random.chance(0.8)) {
    const dtype = draw.random.pick(draw.mishap() ? DTYPES : dtypes);
    options['dtype'] = { dtype } as Arg;
  }
  if (draw.random.chance(0.2)) options['requiresGrad'] = true;
  return { options };
}

const COUNTS = [...INTEGERS, ...FLOATS] as const;
const anyShape = (draw: Draw): number[] => draw.shape(0, 3);
const like = (name: string, py: string): Operation =>
  row(name, `bw.${name}($0, $1)`, `torch.${py}($0, **$1)`, 'never', (draw) => [
    draw.tensor(anyShape(draw), { grad: false }),
    making(draw),
  ]);

/** No part of a program here is of the dtype that is drawn for it. */
export const creations: readonly Operation[] = [
  row('arange end', 'bw.arange($0, $1)', 'torch.arange($0, **$1)', 'never', (draw) => [
    draw.random.int(draw.mishap() ? -2 : 0, 9),
    making(draw, COUNTS),
  ]),
  row('arange', 'bw.arange($0, $1, $2)', 'torch.arange($0, $1, **$2)', 'never', (draw) => [
    draw.random.int(0, 4),
    draw.random.int(draw.mishap() ? 0 : 4, 9),
    making(draw, COUNTS),
  ]),
  row('arange step', 'bw.arange($0, $1, $2, $3)', 'torch.arange($0, $1, $2, **$3)', 'never', (draw) => [
    draw.random.int(0, 4),
    draw.random.int(4, 9),
    draw.random.pick(draw.mishap() ? [0, -1] : [1, 2, 3]),
    making(draw, COUNTS),
  ]),
  row('linspace', 'bw.linspace($0, $1, $2, $3)', 'torch.linspace($0, $1, $2, **$3)', 'once', (draw) => [
    draw.random.int(-3, 4),
    draw.random.int(-3, 9),
    draw.random.int(draw.mishap() ? -1 : 0, 7),
    making(draw, FLOATS),
  ]),
  row('eye', 'bw.eye($0, $1)', 'torch.eye($0, **$1)', 'never', (draw) => [draw.size(), making(draw)]),
  row('eye columns', 'bw.eye($0, $1, $2)', 'torch.eye($0, $1, **$2)', 'never', (draw) => [
    draw.size(),
    draw.size(),
    making(draw),
  ]),
  row('zeros', 'bw.zeros($0, $1)', 'torch.zeros($0, **$1)', 'never', (draw) => [anyShape(draw), making(draw)]),
  row('ones', 'bw.ones($0, $1)', 'torch.ones($0, **$1)', 'never', (draw) => [anyShape(draw), making(draw)]),
  row('empty', 'bw.empty($0, $1).detach().zero_()', 'torch.empty($0, **$1).detach().zero_()', 'never', (draw) => [
    anyShape(draw),
    making(draw),
  ]),
  row('full', 'bw.full($0, $1, $2)', 'torch.full($0, $1, **{"dtype": torch.float32, **dict($2)})', 'never', (draw) => [
    anyShape(draw),
    draw.random.pick([0, 1, 3, 7]),
    making(draw),
  ]),
  like('zerosLike', 'zeros_like'),
  like('onesLike', 'ones_like'),
  row('fullLike', 'bw.fullLike($0, $1, $2)', 'torch.full_like($0, $1, **$2)', 'never', (draw) => [
    draw.tensor(anyShape(draw), { grad: false }),
    draw.random.pick([0, 1, 3, draw.mishap() ? 300 : 7]),
    making(draw),
  ]),
  row('randperm', 'bw.randperm($0, $1).sort().values', 'torch.randperm($0, **$1).sort().values', 'never', (draw) => [
    draw.random.int(0, 9),
    making(draw, COUNTS),
  ]),
  ...['float', 'double', 'half', 'bfloat16', 'long', 'int', 'bool'].map((name) =>
    row(name, `$0.${name}()`, `$0.${name}()`, 'once', (draw) => [draw.tensor(anyShape(draw), { style: 'plain' })]),
  ),
  row('typeAs', '$0.typeAs($1)', '$0.type_as($1)', 'once', (draw) => [
    draw.tensor(anyShape(draw), { style: 'plain' }),
    draw.tensor(anyShape(draw), { grad: false }),
  ]),
  ...(['expand', 'view', 'reshape'] as const).map((name) =>
    row(`${name}As`, `$0.${name}As($1)`, `$0.${name}_as($1)`, 'never', (draw) => {
      const shape = draw.shape(1, 3);
      const own = name === 'expand' ? shape.slice(1) : [...shape].reverse();
      return [draw.tensor(draw.mishap() ? [...own, 7] : own), draw.tensor(shape, { grad: false })];
    }),
  ),
  row('t', '$0.t()', '$0.t()', 'never', (draw) => [draw.tensor(draw.shape(0, draw.mishap() ? 4 : 2))]),
];
