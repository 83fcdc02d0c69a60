/** @file Convolutions of signals, images and volumes, pools with all their options, and padding with elements. */
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import { snake, type Arg } from '../../program.ts';
import { row, some } from './rows.ts';

const F32 = ['float32'] as const;
const FLOATS = ['float32', 'float32', 'float64'] as const;

const sizes = (draw: Draw, dims: number, low: number, high: number): number[] =>
  Array.from({ length: dims }, () => draw.random.int(low, high));

/** One for all directions, or one for each. */
const side = (dims: number, values: readonly number[]): readonly Arg[] =>
  dims === 1 ? values : [...values, values.slice(0, 1).flatMap((v) => Array<number>(dims).fill(v))];

function convolutions(dims: 1 | 2 | 3): Operation[] {
  const stride = side(dims, [2, 3]);
  const input = (draw: Draw, low = 3): Arg =>
    draw.tensor([draw.random.int(1, 3), 2, ...sizes(draw, dims, low, 6)], { style: 'plain' });
  const weights = (draw: Draw, perGroup: boolean): number[] => [
    ...(perGroup ? [2, 1] : [4, 2]),
    ...sizes(draw, dims, 1, 4),
  ];
  const rows = (name: string, table: Readonly<Record<string, readonly Arg[]>>): Operation =>
    row(
      name,
      `bw.${name}($0, $1, { bias: $2, groups: $3, ...$4 })`,
      `F.${snake(name)}($0, $1, bias=$2, groups=$3, **$4)`,
      'sums',
      (draw) => {
        const grouped = draw.random.chance(0.3);
        const transposed = name.startsWith('convTranspose');
        const [first, second, ...kernel] = weights(draw, grouped) as [number, number, ...number[]];
        const weight = transposed ? [2, grouped ? 1 : 3, ...kernel] : [first, second, ...kernel];
        const out = transposed ? (grouped ? 2 : 3) : first;
        const bias = draw.random.chance(0.5) ? draw.tensor([out]) : draw.call('none', 'null', 'None', [], 'never');
        return [input(draw), draw.tensor(weight, { style: 'plain' }), bias, grouped ? 2 : 1, some(draw, table, 0.4)];
      },
      FLOATS,
    );
  const layer = (name: string, table: Readonly<Record<string, readonly Arg[]>>): Operation =>
    row(
      `nn.${name}`,
      `filled(new nn.${name}(2, 4, $1, $2), $3).forward($0)`,
      `filled(nn.${name}(2, 4, $1, **$2), $3)($0)`,
      'sums',
      (draw) => [
        input(draw),
        draw.random.int(1, 4),
        some(draw, { ...table, bias: [false], groups: [2] }, 0.4),
        draw.random.int(0, 50),
      ],
      F32,
    );
  const padding = [1, 2, 'same', 'valid'];
  const conv = { stride, padding: side(dims, [1, 2]), dilation: side(dims, [2]) };
  return [
    rows(`conv${dims}d`, { ...conv, padding }),
    rows(`convTranspose${dims}d`, { ...conv, stride: side(dims, [2]), outputPadding: side(dims, [1]) }),
    layer(`Conv${dims}d`, {
      padding,
      dilation: side(dims, [2]),
      paddingMode: ['zeros', 'reflect', 'replicate', 'circular'],
    }),
    layer(`ConvTranspose${dims}d`, { stride: side(dims, [2]), padding: [1], outputPadding: [1] }),
  ];
}

function pools(dims: 1 | 2): Operation[] {
  const common = { stride: side(dims, [1, 2, 3]), padding: [1], ceilMode: [true] };
  const input = (draw: Draw): Arg =>
    draw.tensor([...(draw.random.chance(0.3) ? [] : [draw.random.int(1, 3)]), 2, ...sizes(draw, dims, 3, 8)]);
  const both = (name: string, table: Readonly<Record<string, readonly Arg[]>>): Operation[] => {
    const draw: Operation['draw'] = (d) => [input(d), d.random.int(1, 4), some(d, table)];
    const module = `${name[0]?.toUpperCase() ?? ''}${name.slice(1)}`;
    return [
      row(name, `bw.${name}($0, $1, $2)`, `F.${snake(name)}($0, $1, **$2)`, 'sums', draw, FLOATS),
      row(`nn.${module}`, `new nn.${module}($1, $2).forward($0)`, `nn.${module}($1, **$2)($0)`, 'sums', draw, FLOATS),
    ];
  };
  return [
    ...both(`maxPool${dims}d`, { ...common, dilation: side(dims, [2]) }),
    ...both(`avgPool${dims}d`, {
      ...common,
      countIncludePad: [false],
      ...(dims === 2 ? { divisorOverride: [2, 5] } : {}),
    }),
    row(
      `nn.AdaptiveAvgPool${dims}d`,
      `new nn.AdaptiveAvgPool${dims}d($1).forward($0)`,
      `nn.AdaptiveAvgPool${dims}d($1)($0)`,
      'sums',
      (draw) => [input(draw), draw.random.int(1, 6)],
      FLOATS,
    ),
  ];
}

export const windowRows: readonly Operation[] = [
  ...([1, 2, 3] as const).flatMap(convolutions),
  ...([1, 2] as const).flatMap(pools),
  ...([1, 2, 3] as const).map((dims) =>
    row(
      `conv${dims}d of integers`,
      `bw.conv${dims}d($0, $1, $2)`,
      `F.conv${dims}d($0, $1, **$2)`,
      'sums',
      (draw) => [
        draw.leaf([draw.random.int(1, 3), 2, ...sizes(draw, dims, 3, 6)], { style: 'plain' }),
        draw.leaf([3, 2, ...sizes(draw, dims, 1, 3)], { style: 'plain' }),
        some(draw, { stride: [1, 2], dilation: [1, 2], padding: [1] }),
      ],
      ['int64', 'int8', 'int32', 'uint8', 'int16'],
    ),
  ),
  row(
    'maxPool2dWithIndices',
    'bw.maxPool2dWithIndices($0, $1, $2)[1]',
    'F.max_pool2d($0, $1, return_indices=True, **$2)[1]',
    'never',
    (draw) => [
      draw.leaf([2, 3, ...sizes(draw, 2, 3, 8)], { grad: false }),
      draw.random.int(1, 4),
      some(draw, { stride: [1, 2], padding: [1], ceilMode: [true], dilation: [2] }),
    ],
    FLOATS,
  ),
  ...(['reflect', 'replicate', 'circular'] as const).map((mode) =>
    row(
      `pad ${mode}`,
      `bw.pad($0, $1, '${mode}')`,
      `F.pad($0, $1, '${mode}')`,
      'sums',
      (draw) => {
        const dims = draw.random.int(1, 4);
        const rank = dims + (mode === 'circular' ? 2 : draw.random.int(1, 3));
        return [draw.tensor(sizes(draw, rank, 1, 5)), sizes(draw, 2 * dims, 0, draw.mishap() ? 7 : 3)];
      },
      FLOATS,
    ),
  ),
];
