/** @file Layers: each made, filled with weights that both sides know, and run; the gradients of its weights are seen, too. */
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import type { Arg, Ref } from '../../program.ts';
import { row, some } from './rows.ts';

const F32 = ['float32'] as const;

/** A layer with known weights; `args` are $0 to $5 of both texts. */
function made(draw: Draw, name: string, ts: string, py: string, args: readonly Arg[]): Ref {
  const rest = Array<undefined>(6 - args.length).fill(undefined);
  const seed = draw.random.int(0, 50);
  return draw.call(name, `filled(${ts}, $6)`, `filled(${py}, $6)`, [...args, ...rest, seed], 'sums');
}

interface LayerRow {
  readonly name: string;
  readonly ts?: string;
  readonly py?: string;
  readonly args?: (draw: Draw) => readonly Arg[];
  readonly input: (draw: Draw, args: readonly Arg[]) => readonly Arg[];
  /** How it is called; by default with $1. */
  readonly call?: readonly [ts: string, py: string];
  readonly modes?: boolean;
}

function layer({
  name,
  args = () => [],
  input,
  call = ['$0.forward($1)', '$0($1)'],
  modes = false,
  ...texts
}: LayerRow): Operation {
  return row(
    `nn.${name}`,
    call[0],
    call[1],
    'sums',
    (draw) => {
      const given = args(draw);
      const list = given.map((_, i) => `$${i}`).join(', ');
      const ref = made(draw, name, texts.ts ?? `new nn.${name}(${list})`, texts.py ?? `nn.${name}(${list})`, given);
      if (modes && draw.random.chance(0.3)) draw.call('eval', '$0.eval()', '$0.eval()', [ref], 'never');
      return [ref, ...input(draw, given)];
    },
    F32,
  );
}

/** With the options as the last argument. */
const withOptions = (
  name: string,
  fixed: readonly Arg[],
  table: Readonly<Record<string, readonly Arg[]>>,
  more: Omit<LayerRow, 'name'>,
): Operation => {
  const list = fixed.map((_, i) => `$${i}`);
  const at = `$${fixed.length}`;
  return layer({
    name,
    ts: `new nn.${name}(${[...list, at].join(', ')})`,
    py: `nn.${name}(${[...list, `**${at}`].join(', ')})`,
    args: (draw) => [...fixed, some(draw, table)],
    ...more,
  });
};

const any = (draw: Draw): Arg[] => [draw.tensor(draw.shape(1, 3))];

const plain: Operation[] = [
  ...['Identity', 'SELU', 'Mish', 'ReLU6', 'Hardsigmoid', 'Hardswish', 'Tanhshrink', 'Softsign', 'LogSigmoid'].map(
    (name) => layer({ name, input: any }),
  ),
  layer({ name: 'ELU', args: (draw) => [draw.random.pick([1, 0.5])], input: any }),
  layer({ name: 'CELU', args: (draw) => [draw.random.pick([1, 0.5, 2])], input: any }),
  layer({ name: 'Hardtanh', args: () => [-1, 0.5], input: any }),
  layer({ name: 'Hardshrink', args: (draw) => [draw.random.pick([0.5, 1])], input: any }),
  layer({ name: 'Softshrink', args: (draw) => [draw.random.pick([0.5, 0])], input: any }),
  layer({ name: 'Threshold', args: () => [0.1, 20], input: any }),
  layer({ name: 'Softplus', args: (draw) => [draw.random.pick([1, 2, 0.5]), draw.random.pick([20, 1])], input: any }),
  layer({ name: 'Softmin', args: () => [-1], input: any }),
  layer({
    name: 'GLU',
    args: () => [-1],
    input: (draw) => [draw.tensor([...draw.shape(0, 2), draw.mishap() ? 3 : 4])],
  }),
  layer({ name: 'GELU', ts: "new nn.GELU({ approximate: 'tanh' })", py: "nn.GELU(approximate='tanh')", input: any }),
  layer({
    name: 'PReLU',
    ts: 'new nn.PReLU({ numParameters: $0, init: $1 })',
    py: 'nn.PReLU($0, $1)',
    args: (draw) => [draw.random.pick([1, 3]), 0.3],
    input: (draw) => [draw.tensor([draw.size(), 3, ...draw.shape(0, 1)])],
  }),
  layer({ name: 'Unflatten', args: () => [1, [2, -1]], input: (draw) => [draw.tensor([draw.size(), 6])] }),
  layer({ name: 'PixelShuffle', args: () => [2], input: (draw) => [draw.tensor([draw.size(), 8, draw.size(), 2])] }),
  layer({ name: 'PixelUnshuffle', args: () => [2], input: (draw) => [draw.tensor([draw.size(), 2, 4, 6])] }),
  layer({
    name: 'CosineSimilarity',
    args: () => [1],
    call: ['$0.forward($1, $2)', '$0($1, $2)'],
    input: (draw) => {
      const s = [draw.size(), draw.size()];
      return [draw.tensor(s, { style: 'plain' }), draw.tensor(s, { style: 'plain' })];
    },
  }),
  layer({
    name: 'PairwiseDistance',
    args: (draw) => [draw.random.pick([2, 1, 3])],
    call: ['$0.forward($1, $2)', '$0($1, $2)'],
    input: (draw) => {
      const s = [draw.size(), draw.size(1)];
      return [draw.tensor(s), draw.tensor(s)];
    },
  }),
];

const norms: Operation[] = [
  withOptions(
    'LayerNorm',
    [[4]],
    { elementwiseAffine: [false], bias: [false], eps: [1e-3] },
    { input: (draw) => [draw.tensor([draw.size(), 4])] },
  ),
  withOptions(
    'RMSNorm',
    [[4]],
    { elementwiseAffine: [false], eps: [1e-3] },
    { input: (draw) => [draw.tensor([draw.size(), 2, 4])] },
  ),
  withOptions('GroupNorm', [2, 4], { affine: [false] }, { input: (draw) => [draw.tensor([draw.size(), 4, 3])] }),
  ...[1, 2, 3].flatMap((d) => {
    const image = (draw: Draw): Arg[] => [
      draw.tensor([draw.random.int(1, 4), 3, ...Array.from({ length: d }, () => draw.random.int(1, 4))]),
    ];
    const options = {
      affine: [false, true],
      trackRunningStats: [false, true],
      momentum: [0.3, undefined],
      eps: [1e-3],
    };
    return [
      withOptions(`BatchNorm${d}d`, [3], { ...options, momentum: [0.3] }, { input: image, modes: true }),
      withOptions(`InstanceNorm${d}d`, [3], { ...options, momentum: [0.3] }, { input: image, modes: true }),
    ];
  }),
];

const RECURRENT = { bias: [false], batchFirst: [true], bidirectional: [true], numLayers: [2, 3] } as const;

function sequence(draw: Draw): Arg[] {
  const shape = draw.random.chance(0.2)
    ? [draw.random.int(1, 4), 3]
    : [draw.random.int(1, 4), draw.random.pick([1, 2, 3, 0]), 3];
  return [draw.tensor(shape)];
}

/** Under autocast, where LSTM and RNN compute in bfloat16, LSTM of packed sequences and GRU in what they get. */
function lowered(name: string, part: string, input: LayerRow['input']): Operation {
  const options = { bias: [false], bidirectional: [true], numLayers: [2] };
  const under = [
    `bw.autocast(() => $0.forward($1)${part})`,
    `torch.autocast('cpu', dtype=torch.bfloat16)(lambda: $0($1)${part})()`,
  ] as const;
  return { ...withOptions(name, [3, 2], options, { input, call: under }), name: `autocast nn.${name}${part}` };
}
const steps: LayerRow['input'] = (draw) => [draw.tensor([draw.random.int(1, 4), draw.random.int(1, 4), 3])];

const recurrent: Operation[] = [
  ...['[0]', '[1][0]', '[1][1]'].map((part) => lowered('LSTM', part, steps)),
  ...(['GRU', 'RNN'] as const).map((name) => lowered(name, '[0]', steps)),
  ...(['LSTM', 'GRU', 'RNN'] as const).flatMap((name) => {
    const state = name === 'LSTM' ? '[1][0]' : '[1]';
    return [['[0]'], [state]].map(([part]) => ({
      ...withOptions(name, [3, 2], name === 'RNN' ? { ...RECURRENT, nonlinearity: ['relu', 'tanh'] } : RECURRENT, {
        input: sequence,
        call: [`$0.forward($1)${part as string}`, `$0($1)${part as string}`],
      }),
      name: `nn.${name} ${part === '[0]' ? 'output' : 'state'}`,
    }));
  }),
  ...(['LSTM', 'GRU', 'RNN'] as const).map((name) => ({
    ...withOptions(
      name,
      [3, 2],
      { bias: [false], bidirectional: [true], numLayers: [2] },
      {
        input: (draw) => {
          const [steps, batch] = [draw.random.int(1, 5), draw.random.int(1, 4)];
          return [draw.tensor([steps, batch, 3]), Array.from({ length: batch }, () => draw.random.int(1, steps + 1))];
        },
        call: [
          'nn.utils.rnn.padPackedSequence($0.forward(nn.utils.rnn.packPaddedSequence($1, $2, { enforceSorted: false }))[0])[0]',
          'nn.utils.rnn.pad_packed_sequence($0(nn.utils.rnn.pack_padded_sequence($1, $2, enforce_sorted=False))[0])[0]',
        ],
      },
    ),
    name: `nn.${name} packed`,
  })),
  ...(['LSTMCell', 'GRUCell', 'RNNCell'] as const).map((name) =>
    withOptions(
      name,
      [3, 2],
      { bias: [false] },
      {
        input: (draw) => [draw.tensor(draw.random.chance(0.2) ? [3] : [draw.size(), 3])],
        call: name === 'LSTMCell' ? ['$0.forward($1)[1]', '$0($1)[1]'] : ['$0.forward($1)', '$0($1)'],
      },
    ),
  ),
  row(
    'nn.utils.rnn.padSequence',
    'nn.utils.rnn.padSequence([$0, $1, $2], { batchFirst: $3, paddingValue: 2 })',
    'nn.utils.rnn.pad_sequence([$0, $1, $2], batch_first=$3, padding_value=2)',
    'never',
    (draw) => {
      const rest = draw.shape(0, 2);
      const one = (): Ref => draw.tensor([draw.size(), ...rest]);
      return [one(), one(), one(), draw.random.chance(0.5)];
    },
  ),
];

/** Which keys are padding: some, or all there are. */
function padding(draw: Draw, batch: number, keys: number): Ref {
  const given = draw.leaf([batch, keys], { grad: false, style: 'plain' });
  return draw.call('gt', '$0.gt($1)', '$0 > $1', [given, draw.random.pick([0.5, -1000])], 'never');
}

const attention: Operation[] = [
  ...[0, 1].map((part) => ({
    ...withOptions(
      'MultiheadAttention',
      [4, 2],
      { bias: [false], addBiasKv: [true], addZeroAttn: [true], batchFirst: [true], kdim: [3], vdim: [5] },
      {
        input: (draw, args) => {
          const { options } = args[2] as { options: Record<string, Arg> };
          const [q, k, b] = [draw.random.int(1, 4), draw.random.int(1, 4), draw.random.int(1, 3)];
          const first = options['batchFirst'] === true;
          const shape = (n: number, c: Arg = 4): number[] => (first ? [b, n, c as number] : [n, b, c as number]);
          const masks: Record<string, Arg> = {};
          if (draw.random.chance(0.3))
            masks['attnMask'] = draw.random.chance(0.5)
              ? draw.leaf([q, k], { grad: false, style: 'plain' })
              : draw.index([q, k], ([i, j]) => ((i as number) + (j as number)) % 2);
          if (draw.random.chance(0.4)) masks['averageAttnWeights'] = false;
          const given = masks['attnMask'];
          if (given !== undefined && typeof given === 'object' && 'ref' in given && draw.random.chance(0.5)) {
            masks['attnMask'] = draw.call(
              'triu',
              'bw.ones($0).triu(1).to("bool")',
              'torch.ones($0).triu(1).to(torch.bool)',
              [[q, k]],
              'never',
            );
          } else if (given !== undefined) delete masks['attnMask'];
          if (draw.random.chance(0.4)) masks['keyPaddingMask'] = padding(draw, b, k);
          // Weights that nobody asks for are null here, and None there.
          if (part === 0 && draw.random.chance(0.4)) masks['needWeights'] = false;
          return [
            draw.tensor(shape(q), { style: 'plain' }),
            draw.tensor(shape(k, options['kdim']), { style: 'plain' }),
            draw.tensor(shape(k, options['vdim']), { style: 'plain' }),
            { options: masks },
          ];
        },
        call: [`$0.forward($1, $2, $3, $4)[${part}]`, `$0($1, $2, $3, **attention($4))[${part}]`],
      },
    ),
    name: `nn.MultiheadAttention ${part === 0 ? 'output' : 'weights'}`,
  })),
  withOptions(
    'TransformerEncoderLayer',
    [4, 2],
    { activation: ['gelu', 'relu'], batchFirst: [true], normFirst: [true], bias: [false], layerNormEps: [1e-3] },
    {
      args: (draw) => [
        4,
        2,
        {
          options: {
            dimFeedforward: 8,
            dropout: 0,
            ...some(draw, { activation: ['gelu', 'relu'], batchFirst: [true], normFirst: [true], bias: [false] })
              .options,
          },
        },
      ],
      input: (draw) => [draw.tensor([3, 3, 4], { style: 'plain' })],
    },
  ),
  withOptions(
    'TransformerDecoderLayer',
    [4, 2],
    {},
    {
      args: (draw) => [
        4,
        2,
        {
          options: {
            dimFeedforward: 8,
            dropout: 0,
            ...some(draw, { activation: ['gelu', 'relu'], normFirst: [true], bias: [false] }).options,
          },
        },
      ],
      input: (draw) => [draw.tensor([3, 2, 4], { style: 'plain' }), draw.tensor([2, 2, 4], { style: 'plain' })],
      call: ['$0.forward($1, $2)', '$0($1, $2)'],
    },
  ),
  layer({
    name: 'TransformerEncoder',
    ts: 'new nn.TransformerEncoder(new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 6, dropout: 0 }), 2, new nn.LayerNorm(4))',
    py: 'nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0), 2, nn.LayerNorm(4), enable_nested_tensor=False)',
    input: (draw) => [
      draw.tensor([3, 2, 4], { style: 'plain' }),
      draw.call(
        'mask',
        'nn.Transformer.generateSquareSubsequentMask($0)',
        'nn.Transformer.generate_square_subsequent_mask($0)',
        [3],
        'never',
      ),
    ],
    call: ['$0.forward($1, { mask: $2 })', '$0($1, mask=$2)'],
  }),
  layer({
    name: 'Transformer',
    ts: 'new nn.Transformer(4, 2, { numEncoderLayers: 1, numDecoderLayers: 2, dimFeedforward: 6, dropout: 0 })',
    py: 'nn.Transformer(4, 2, 1, 2, 6, 0)',
    input: (draw) => [draw.tensor([3, 2, 4], { style: 'plain' }), draw.tensor([2, 2, 4], { style: 'plain' })],
    call: ['$0.forward($1, $2)', '$0($1, $2)'],
  }),
];

const embeddings: Operation[] = [
  withOptions(
    'Embedding',
    [5, 3],
    { paddingIdx: [0, 2, -1], maxNorm: [0.5, 2], normType: [1, 2], scaleGradByFreq: [true], sparse: [true] },
    {
      args: (draw) => {
        const { options } = some(draw, { paddingIdx: [0, 2, -1], maxNorm: [0.5, 2], scaleGradByFreq: [true] }, 0.4);
        return [5, 3, { options }];
      },
      input: (draw) => [draw.integers(draw.shape(0, 2), 0, 5)],
    },
  ),
  row(
    'nn.Embedding ids',
    'nn.Embedding.fromPretrained($0).forward($1)',
    'nn.Embedding.from_pretrained($0)($1)',
    'never',
    (draw) => {
      const ids = draw.integers(draw.shape(0, 2), 0, 4, draw.random.pick(['int64', 'int32', 'int8', 'uint8', 'int16']));
      return [draw.leaf([4, 2], { grad: false, dtype: 'float32' }), ids];
    },
  ),
  row(
    'nn.Embedding.fromPretrained',
    'nn.Embedding.fromPretrained($0, { freeze: $2, paddingIdx: 1 }).forward($1)',
    'nn.Embedding.from_pretrained($0, freeze=$2, padding_idx=1)($1)',
    'never',
    (draw) => [draw.leaf([4, 2], { grad: false, dtype: 'float32' }), draw.integers(draw.shape(0, 2), 0, 4), true],
  ),
];

export const layers: readonly Operation[] = [...plain, ...norms, ...recurrent, ...attention, ...embeddings];
