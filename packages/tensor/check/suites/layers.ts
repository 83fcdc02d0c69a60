/** @file Layers with what their callers may give them beside a batch: masks, states, weights of samples, classes that do not count. */
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import { some } from '../operations/ported/rows.ts';
import type { Arg, Ref } from '../program.ts';
import type { Suite } from './suite.ts';

/** A kind of call: it draws what it needs, and answers what was computed. */
type Call = (draw: Draw) => Ref;

const PLAIN = { style: 'plain' } as const;
/** Of keys that are alike, gradients are exactly zero, which rounding leaves as little as it can. */
const OWN = { ...PLAIN, views: false } as const;

/** A layer with weights that both sides know. Its arguments are $0 to $4 of both texts. */
function made(draw: Draw, ts: string, py: string, args: readonly Arg[]): Ref {
  const rest = Array<undefined>(5 - args.length).fill(undefined);
  return draw.call(
    'made',
    `filled(${ts}, $5)`,
    `filled(${py}, $5)`,
    [...args, ...rest, draw.random.int(0, 50)],
    'sums',
  );
}

/** Running statistics of several batches, whose momentum may be null, and what is made of a further one. */
const statistics: Call = (draw) => {
  const { random } = draw;
  const dims = random.int(1, 4);
  const kind = random.pick(['BatchNorm', 'BatchNorm', 'InstanceNorm']);
  const none = random.chance(0.5);
  const options = some(draw, { affine: [false, true], trackRunningStats: [true, true, false], eps: [1e-3] }, 0.4);
  if (!none && random.chance(0.6)) options.options['momentum'] = random.pick([0, 0.3, 1]);
  const [ts, py] = none ? ['{ momentum: null, ...$1 }', 'momentum=None, **$1'] : ['$1', '**$1'];
  const layer = made(draw, `new nn.${kind}${dims}d($0, ${ts})`, `nn.${kind}${dims}d($0, ${py})`, [2, options]);
  const batch = (): Ref =>
    draw.tensor([random.int(1, 4), 2, ...Array.from({ length: dims }, () => random.int(1, 4))], PLAIN);
  const run = (): Ref => draw.call(kind, '$0.forward($1)', '$0($1)', [layer, batch()], 'sums');
  for (let i = random.int(0, 4); i > 0; i--) run();
  if (random.chance(0.5)) draw.call('eval', '$0.eval()', '$0.eval()', [layer], 'never');
  if (random.chance(0.7)) return run();
  // Of what was evaluated before, PyTorch takes the statistics as they are now: its gradients come first.
  draw.backward(run());
  draw.call('train', '$0.train()', '$0.train()', [layer], 'never');
  return run();
};

/** A mask of truths or of numbers; of some, none, or all. */
function mask(draw: Draw, shape: readonly number[]): Ref {
  const { random } = draw;
  const drawn = draw.leaf(shape, { grad: false, ...PLAIN });
  if (random.chance(0.4)) return drawn;
  const truths = draw.call('gt', '$0.gt($1)', '$0 > $1', [drawn, random.pick([0, 1, 1, 3])], 'never');
  if (random.chance(0.6)) return truths;
  return draw.call(
    'mask',
    'bw.zeros($0.shape, { dtype: $1 }).maskedFill($0, -Infinity)',
    'torch.zeros($0.shape, dtype=$1).masked_fill($0, -INF)',
    [truths, { dtype: draw.dtype }],
    'never',
  );
}

/** Attention with masks for each head, of truths and of numbers. */
const attention: Call = (draw) => {
  const { random } = draw;
  const heads = random.pick([1, 2, 4]);
  const options = some(
    draw,
    { bias: [false], addBiasKv: [true], addZeroAttn: [true], batchFirst: [true], kdim: [3], vdim: [5] },
    0.25,
  );
  const layer = made(draw, 'new nn.MultiheadAttention($0, $1, $2)', 'nn.MultiheadAttention($0, $1, **$2)', [
    4,
    heads,
    options,
  ]);
  const { batchFirst, kdim = 4, vdim = 4 } = options.options;
  const [q, k, b] = [random.int(1, 4), random.int(1, 5), random.int(1, 4)];
  const single = random.chance(0.2);
  const shape = (n: number, c: Arg): number[] =>
    single ? [n, c as number] : batchFirst === true ? [b, n, c as number] : [n, b, c as number];
  const call: Record<string, Arg> = {};
  if (random.chance(0.6)) call['attnMask'] = mask(draw, random.chance(0.5) ? [q, k] : [(single ? 1 : b) * heads, q, k]);
  if (random.chance(0.5)) call['keyPaddingMask'] = mask(draw, single ? [k] : [b, k]);
  if (random.chance(0.5)) call['needWeights'] = random.chance(0.3);
  if (random.chance(0.3)) call['averageAttnWeights'] = false;
  const part = call['needWeights'] === false ? 0 : random.int(0, 2);
  const inputs = [
    draw.tensor(shape(q, 4), PLAIN),
    draw.tensor(shape(k, kdim), PLAIN),
    draw.tensor(shape(k, vdim), PLAIN),
  ];
  return draw.call(
    'MultiheadAttention',
    `$0.forward($1, $2, $3, $4)[${part}]`,
    `$0($1, $2, $3, **$4)[${part}]`,
    [layer, ...inputs, { options: call }],
    'sums',
  );
};

const layerOptions = (draw: Draw): { options: Record<string, Arg> } => {
  const { options } = some(
    draw,
    { activation: ['gelu', 'relu'], normFirst: [true], bias: [false], layerNormEps: [1e-3] },
    0.4,
  );
  return { options: { dimFeedforward: 5, dropout: 0, ...options } };
};

/** Layers and stacks of transformers with every mask. */
const transformer: Call = (draw) => {
  const { random } = draw;
  const [s, t, b] = [random.int(1, 5), random.int(1, 4), random.int(1, 3)];
  const options = layerOptions(draw);
  const first = random.chance(0.4);
  if (first) options.options['batchFirst'] = true;
  const shape = (n: number): number[] => (first ? [b, n, 4] : [n, b, 4]);
  const masks = (table: Readonly<Record<string, readonly number[]>>): { options: Record<string, Arg> } => {
    const given: Record<string, Arg> = {};
    for (const [name, size] of Object.entries(table)) if (random.chance(0.4)) given[name] = mask(draw, size);
    return { options: given };
  };
  const [source, target] = [draw.tensor(shape(s), OWN), draw.tensor(shape(t), OWN)];
  const encoder = { srcMask: [s, s], srcKeyPaddingMask: [b, s] };
  const decoder = { tgtMask: [t, t], memoryMask: [t, s], tgtKeyPaddingMask: [b, t], memoryKeyPaddingMask: [b, s] };
  const layer = (name: string): [ts: string, py: string] => [`new nn.${name}($0, $1, $2)`, `nn.${name}($0, $1, **$2)`];
  const norm = random.chance(0.5) ? [', new nn.LayerNorm(4)', ', nn.LayerNorm(4)'] : ['', ''];
  const args = [4, random.pick([1, 2]), options];
  switch (random.int(0, 5)) {
    case 0: {
      const one = made(draw, ...layer('TransformerEncoderLayer'), args);
      return draw.call('encoder layer', '$0.forward($1, $2)', '$0($1, **$2)', [one, source, masks(encoder)], 'sums');
    }
    case 1: {
      const one = made(draw, ...layer('TransformerDecoderLayer'), args);
      return draw.call(
        'decoder layer',
        '$0.forward($1, $2, $3)',
        '$0($1, $2, **$3)',
        [one, target, source, masks(decoder)],
        'sums',
      );
    }
    case 2: {
      const [ts, py] = layer('TransformerEncoderLayer');
      const one = made(
        draw,
        `new nn.TransformerEncoder(${ts}, 2${norm[0] ?? ''})`,
        `nn.TransformerEncoder(${py}, 2${norm[1] ?? ''}, enable_nested_tensor=False)`,
        args,
      );
      const given = masks({ mask: [s, s], srcKeyPaddingMask: [b, s] });
      const mine = Object.fromEntries(Object.entries(given.options).map(([k, v]) => [k, v]));
      return draw.call(
        'encoder',
        '$0.forward($1, $2)',
        '$0($1, **encoding($2))',
        [one, source, { options: mine }],
        'sums',
      );
    }
    case 3: {
      const [ts, py] = layer('TransformerDecoderLayer');
      const one = made(
        draw,
        `new nn.TransformerDecoder(${ts}, 2${norm[0] ?? ''})`,
        `nn.TransformerDecoder(${py}, 2${norm[1] ?? ''})`,
        args,
      );
      return draw.call(
        'decoder',
        '$0.forward($1, $2, $3)',
        '$0($1, $2, **$3)',
        [one, target, source, masks(decoder)],
        'sums',
      );
    }
    default: {
      const both = { numEncoderLayers: 1, numDecoderLayers: 2 };
      const one = made(draw, 'new nn.Transformer($0, $1, $2)', 'nn.Transformer($0, $1, **$2)', [
        4,
        args[1],
        { options: { ...options.options, ...both } },
      ]);
      return draw.call(
        'transformer',
        '$0.forward($1, $2, $3)',
        '$0($1, $2, **$3)',
        [one, source, target, masks({ ...encoder, ...decoder })],
        'sums',
      );
    }
  }
};

/** Recurrent layers from given states, of sequences of one length or packed. */
const recurrent: Call = (draw) => {
  const { random } = draw;
  const name = random.pick(['LSTM', 'LSTM', 'GRU', 'RNN']);
  const options = some(draw, { bias: [false], batchFirst: [true], bidirectional: [true], dropout: [0, 1] }, 0.35);
  const { bidirectional, batchFirst } = options.options;
  const layers = random.int(1, 4);
  options.options['numLayers'] = layers;
  if (name === 'LSTM' && random.chance(0.4)) options.options['projSize'] = random.pick([1, 2]);
  if (name === 'RNN' && random.chance(0.4)) options.options['nonlinearity'] = 'relu';
  const layer = made(draw, `new nn.${name}($0, $1, $2)`, `nn.${name}($0, $1, **$2)`, [3, 4, options]);
  const [steps, batch] = [random.int(1, 5), random.int(1, 4)];
  const kind = random.weighted({ batch: 5, single: 1, packed: 4 });
  const shape = kind === 'single' ? [steps, 3] : batchFirst === true ? [batch, steps, 3] : [steps, batch, 3];
  const x = draw.tensor(shape, PLAIN);
  const rows = layers * (bidirectional === true ? 2 : 1);
  const state = (size: number): Ref => draw.tensor(kind === 'single' ? [rows, size] : [rows, batch, size], PLAIN);
  const given = random.chance(0.6);
  const h = given ? state((options.options['projSize'] as number | undefined) ?? 4) : undefined;
  const c = given && name === 'LSTM' ? state(4) : undefined;
  const [mine, theirs] = !given ? ['', ''] : c === undefined ? [', $2', ', $2'] : [', [$2, $3]', ', ($2, $3)'];
  const part = name === 'LSTM' ? random.pick(['[0]', '[1][0]', '[1][1]']) : random.pick(['[0]', '[1]']);
  if (kind !== 'packed')
    return draw.call(name, `$0.forward($1${mine})${part}`, `$0($1${theirs})${part}`, [layer, x, h, c], 'sums');
  const lengths = Array.from({ length: batch }, () => random.int(1, steps + 1));
  const first = batchFirst === true;
  const pack = [
    `nn.utils.rnn.packPaddedSequence($1, $4, { enforceSorted: false, batchFirst: ${String(first)} })`,
    `nn.utils.rnn.pack_padded_sequence($1, $4, enforce_sorted=False, batch_first=${first ? 'True' : 'False'})`,
  ] as const;
  const [ts, py] = [`$0.forward(${pack[0]}${mine})${part}`, `$0(${pack[1]}${theirs})${part}`];
  const args = [layer, x, h, c, lengths];
  if (part !== '[0]') return draw.call(name, ts, py, args, 'sums');
  return draw.call(
    name,
    `nn.utils.rnn.padPackedSequence(${ts}, { batchFirst: ${String(first)} })[0]`,
    `nn.utils.rnn.pad_packed_sequence(${py}, batch_first=${first ? 'True' : 'False'})[0]`,
    args,
    'sums',
  );
};

const cell: Call = (draw) => {
  const { random } = draw;
  const name = random.pick(['LSTMCell', 'GRUCell', 'RNNCell']);
  const options = some(
    draw,
    name === 'RNNCell' ? { bias: [false], nonlinearity: ['relu', 'tanh'] } : { bias: [false] },
    0.4,
  );
  const layer = made(draw, `new nn.${name}($0, $1, $2)`, `nn.${name}($0, $1, **$2)`, [3, 4, options]);
  const lead = random.chance(0.2) ? [] : [random.int(1, 4)];
  const [x, h, c] = [
    draw.tensor([...lead, 3], PLAIN),
    draw.tensor([...lead, 4], PLAIN),
    draw.tensor([...lead, 4], PLAIN),
  ];
  if (name !== 'LSTMCell') return draw.call(name, '$0.forward($1, $2)', '$0($1, $2)', [layer, x, h], 'sums');
  const part = random.int(0, 2);
  return draw.call(name, `$0.forward($1, [$2, $3])[${part}]`, `$0($1, ($2, $3))[${part}]`, [layer, x, h, c], 'sums');
};

/** Bags with weights of their samples, and tables whose rows are shortened. */
const bags: Call = (draw) => {
  const { random } = draw;
  const mode = random.pick(['sum', 'sum', 'mean', 'max']);
  const options = some(draw, { paddingIdx: [0, -1, 3], maxNorm: [0.5, 1], normType: [1, 3] }, 0.3);
  options.options['mode'] = mode;
  if (mode !== 'max' && random.chance(0.3)) options.options['sparse'] = true;
  const layer = made(draw, 'new nn.EmbeddingBag($0, $1, $2)', 'nn.EmbeddingBag($0, $1, **$2)', [5, 3, options]);
  const flat = random.chance(0.5);
  const shape = flat ? [random.int(0, 7)] : [random.int(0, 4), random.int(0, 4)];
  const closed = flat && random.chance(0.3);
  if (closed) options.options['includeLastOffset'] = true;
  const ids = draw.integers(shape, 0, 5);
  const size = shape[0] as number;
  const starts = [0, ...Array.from({ length: random.int(0, 3) }, () => random.int(0, size + 1)).sort((a, b) => a - b)];
  if (closed) starts.push(size);
  const offsets = flat ? draw.index([starts.length], ([i]) => starts[i as number] as number) : undefined;
  const weighted = mode === 'sum' && random.chance(0.6);
  const weights = weighted ? draw.tensor(shape, PLAIN) : undefined;
  return draw.call('EmbeddingBag', '$0.forward($1, $2, $3)', '$0($1, $2, $3)', [layer, ids, offsets, weights], 'sums');
};

/** Classes some or all of which do not count, as by default those of -100. */
const classes: Call = (draw) => {
  const { random } = draw;
  const count = random.int(1, 5);
  const lead = random.chance(0.1) ? [] : [random.int(0, 4)];
  const rest = lead.length === 0 ? [] : random.pick([[], [], [2], [2, 0], [1, 3]]);
  const options = some(draw, { reduction: ['mean', 'sum', 'none'] });
  const ignored = random.pick([-100, -100, -1, 0, 7]);
  if (ignored !== -100) options.options['ignoreIndex'] = ignored;
  if (random.chance(0.4))
    options.options['weight'] = draw.tensor([count], { style: random.pick(['positive', 'zero']), grad: false });
  const entropy = random.chance(0.6);
  if (entropy && random.chance(0.5)) options.options['labelSmoothing'] = random.pick([0.1, 0.5, 1]);
  const share = random.pick([0, 0.3, 0.6, 1]);
  const target = draw.index([...lead, ...rest], () => (random.chance(share) ? ignored : random.int(0, count)));
  const x = draw.tensor([...lead, count, ...rest], random.chance(0.8) ? PLAIN : {});
  const name = entropy ? 'CrossEntropyLoss' : 'NLLLoss';
  if (random.chance(0.5))
    return draw.call(
      name,
      `new nn.${name}($2).forward($0, $1)`,
      `nn.${name}(**$2)($0, $1)`,
      [x, target, options],
      'sums',
    );
  const [ts, py] = entropy ? ['crossEntropy', 'cross_entropy'] : ['nllLoss', 'nll_loss'];
  return draw.call(name, `bw.${ts}($0, $1, $2)`, `F.${py}($0, $1, **$2)`, [x, target, options], 'sums');
};

/** Norms of one element each, some of which are beyond any power, beside what is not finite. */
const single: Call = (draw) => {
  const parts = ['special', 'extreme', 'plain'] as const;
  const all = parts.map((style) => draw.leaf([draw.random.int(1, 4), 1], { style }));
  const together = draw.call('concat', 'bw.concat($0)', 'torch.cat($0)', [all], 'never');
  const p = draw.random.pick([2, 3, 0.5, 1, Infinity, 1.5]);
  return draw.call('norms', '$0.norm($1, -1)', 'torch.linalg.vector_norm($0, $1, -1)', [together, p], 'sums');
};

/** Of several gradients: norms, and what is clipped by them. */
const norms: Call = (draw) => {
  const { random } = draw;
  const [a, b] = [draw.leaf(draw.shape(0, 2), { grad: false }), draw.leaf(draw.shape(0, 2), { grad: false, ...PLAIN })];
  const type = random.pick([2, 1, 0, 3, 0.5, Infinity, -1, -Infinity]);
  if (random.chance(0.5))
    return draw.call(
      'getTotalNorm',
      'nn.utils.getTotalNorm([$0, $1], { normType: $2, errorIfNonfinite: $3 })',
      'nn.utils.get_total_norm([$0, $1], $2, $3)',
      [a, b, type, random.chance(0.3)],
      'sums',
    );
  const norm = draw.call(
    'norm',
    'nn.utils.getTotalNorm([$0, $1], { normType: $2 })',
    'nn.utils.get_total_norm([$0, $1], $2)',
    [a, b, type],
    'sums',
  );
  const own = [a, b].map((one) => draw.call('leaf', 'bw.onesLike($0)', 'torch.ones_like($0)', [one], 'never'));
  for (const [i, one] of own.entries())
    draw.call('grad', '!$0.grad = $1.clone()', '!$0.grad = $1.clone()', [one, [a, b][i]], 'never');
  draw.call(
    'clip',
    '!nn.utils.clipGradsWithNorm_([$0.grad, $1.grad], $2, $3.item())',
    '!nn.utils.clip_grads_with_norm_([$0, $1], $2, $3)',
    [own[0], own[1], random.pick([0.5, 1, 100]), norm],
    'sums',
  );
  return draw.call(
    'clipped',
    'bw.concat([$0.grad.flatten(), $1.grad.flatten()])',
    'torch.cat([$0.grad.flatten(), $1.grad.flatten()])',
    [own[0], own[1]],
    'sums',
  );
};

/** What sets a weight to known numbers, and weights as one vector. */
const weights: Call = (draw) => {
  const { random } = draw;
  switch (random.int(0, 4)) {
    case 0: {
      const shape = [
        random.int(1, 7),
        random.int(1, 5),
        ...Array.from({ length: random.int(1, 4) }, () => random.int(1, 5)),
      ];
      return draw.call(
        'dirac_',
        'nn.init.dirac_($0.detach().clone(), $1)',
        'nn.init.dirac_($0.detach().clone(), $1)',
        [draw.leaf(shape), random.pick([1, 1, 2, 3])],
        'never',
      );
    }
    case 1:
      return draw.call(
        'eye_',
        'nn.init.eye_($0.detach().clone())',
        'nn.init.eye_($0.detach().clone())',
        [draw.leaf([random.int(0, 5), random.int(0, 5)])],
        'never',
      );
    case 2: {
      const name = random.pick([
        'linear',
        'conv1d',
        'conv2d',
        'conv3d',
        'sigmoid',
        'tanh',
        'relu',
        'selu',
        'leakyRelu',
      ]);
      return draw.call(
        'gain',
        'nn.init.calculateGain($0, $1)',
        `nn.init.calculate_gain($2, $1)`,
        [name, name === 'leakyRelu' ? random.pick([0.2, 1]) : undefined, name === 'leakyRelu' ? 'leaky_relu' : name],
        'never',
      );
    }
    default: {
      const [a, b] = [draw.leaf(draw.shape(0, 3), { grad: false }), draw.leaf(draw.shape(0, 3), { grad: false })];
      const vector = draw.call(
        'vector',
        'nn.utils.parametersToVector([$0, $1])',
        'nn.utils.parameters_to_vector([$0, $1])',
        [a, b],
        'never',
      );
      draw.call(
        'back',
        '!nn.utils.vectorToParameters($0.detach().mul(2), [$1, $2])',
        '!nn.utils.vector_to_parameters($0.detach() * 2, [$1, $2])',
        [vector, a, b],
        'once',
      );
      return vector;
    }
  }
};

/** Those whose results have a curvature to speak of. */
export const CURVED: readonly Call[] = [statistics, attention, transformer, recurrent, cell, bags, classes];
const CALLS: readonly Call[] = [...CURVED, norms, single, weights];

export const layerSuite: Suite = {
  name: 'layers',
  perSeed: 300,
  draw(random: Random, seed) {
    const draw = new Draw(random, { dtype: 'float32', mishaps: 0, views: 0.15 });
    draw.backward(random.pick(CALLS)(draw));
    return draw.program('layers', seed);
  },
};
