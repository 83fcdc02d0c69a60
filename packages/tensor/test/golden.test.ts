/** @file What PyTorch answers (golden/*.json, made by golden/make.py) against what this package answers. */
import { afterAll, describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';
import { expectClose, load, number, unpack, words, type Packed } from '../golden/compare.ts';
import { backendName, grad, nn, optim, tensor, type Tensor } from '../src/index.ts';

interface Case {
  name: string;
  fn: string;
  inputs: Packed[];
  /** What follows the tensors in the call. */
  args?: unknown[];
  /** The operation gets a view of each input. */
  view?: keyof typeof views;
  /** A sum or product of many terms. */
  long?: boolean;
  output: Packed;
  weights?: Packed;
  grads?: (Packed | null)[];
}

const views = {
  transposed: (t: Tensor): Tensor => (t.rank > 1 ? t.transpose(-1, -2) : t),
  stepped: (t: Tensor): Tensor => (t.rank > 0 ? t.slice(0, 0, undefined, 2) : t),
  inner: (t: Tensor): Tensor => (t.rank > 0 ? t.narrow(0, 1, (t.shape[0] as number) - 2) : t),
  expanded: (t: Tensor): Tensor => t.expand([3, ...t.shape]),
};

/** JSON has no infinities and no undefined. */
const argument = (v: unknown): unknown =>
  v === 'undefined' || v === null ? undefined : typeof v === 'string' && v in words ? number(v) : v;

const int = (values: bw.Nested<number>): Tensor => tensor(values, { dtype: 'int64' });
const two = (t: Tensor): Tensor => t.mul(2);
const second = (f: (t: Tensor) => Tensor) => (t: Tensor) => grad([f(t).sum()], [t], { createGraph: true })[0] as Tensor;
const soft = (): Tensor => bw.arange(15).to('float32').reshape([3, 5]).softmax(1);
const target = (): Tensor => int([1, 0, -100, 4]);

/** Cases that are not simply the operation of that name. */
const special: Record<string, (...t: never[]) => Tensor> = {
  addAlpha: (a: Tensor, b: Tensor) => a.add(b, { alpha: 2.5 }),
  cube: (a: Tensor) => a.pow(3),
  clamp: (a: Tensor) => a.clamp(-1, 1),
  where: (a: Tensor, b: Tensor) => bw.where(tensor([true, false, true]), a, b),
  sum0: (t: Tensor) => t.sum(0),
  'sum-1': (t: Tensor) => t.sum(-1),
  mean0: (t: Tensor) => t.mean(0),
  'mean-1': (t: Tensor) => t.mean(-1),
  prod0: (t: Tensor) => t.prod(0),
  'prod-1': (t: Tensor) => t.prod(-1),
  amax1: (t: Tensor) => t.amax(1),
  amin1: (t: Tensor) => t.amin(1),
  maxValues1: (t: Tensor) => t.max(1).values,
  argMax1: (t: Tensor) => t.argMax(1),
  cumsum1: (t: Tensor) => t.cumsum(1),
  cumprod0: (t: Tensor) => t.cumprod(0),
  variance1: (t: Tensor) => t.variance(1),
  norm1: (t: Tensor) => t.norm(2, 1),
  normP1: (t: Tensor) => t.norm(1),
  softmax1: (t: Tensor) => t.softmax(1),
  logSoftmax0: (t: Tensor) => t.logSoftmax(0),
  logSumExp1: (t: Tensor) => t.logSumExp(1),
  indexSelect0: (t: Tensor) => t.indexSelect(0, int([2, 0, 2])),
  indexAdd0: (t: Tensor, s: Tensor) => t.indexAdd(0, int([2, 0, 2]), s),
  gather1: (t: Tensor) =>
    t.gather(
      1,
      int([
        [0, 2, 2],
        [1, 1, 0],
      ]),
    ),
  scatterAdd1: (t: Tensor, s: Tensor) =>
    t.scatterAdd(
      1,
      int([
        [0, 2, 2],
        [1, 1, 0],
      ]),
      s,
    ),
  sortDown1: (t: Tensor) => t.sort(1, true).values,
  topK2: (t: Tensor) => t.topK(2, 1).values,
  trilDown: (t: Tensor) => t.tril(-1),
  flip: (t: Tensor) => t.flip([0, 1]),
  roll2: (t: Tensor) => t.roll(2, 1),
  tile23: (t: Tensor) => t.tile([2, 3]),
  pad: (t: Tensor) => t.pad([1, 2, 0, 1], 0.5),
  geluTanh: (t: Tensor) => t.gelu('tanh'),
  layerNorm: (t: Tensor, w: Tensor, b: Tensor) => bw.layerNorm(t, [4], w, b),
  groupNorm: (t: Tensor, w: Tensor, b: Tensor) => bw.groupNorm(t, 2, w, b),
  batchNorm: (t: Tensor, weight: Tensor, bias: Tensor) => bw.batchNorm(t, { weight, bias }),
  conv2d: (x: Tensor, w: Tensor, bias: Tensor) => bw.conv2d(x, w, { bias, stride: 2, padding: 1 }),
  conv2dGroups: (x: Tensor, w: Tensor) => bw.conv2d(x, w, { dilation: 2, groups: 2 }),
  conv1d: (x: Tensor, w: Tensor) => bw.conv1d(x, w, { padding: 1 }),
  convTranspose2d: (x: Tensor, w: Tensor) => bw.convTranspose2d(x, w, { stride: 2, padding: 1, outputPadding: 1 }),
  maxPool2dStride1: (x: Tensor) => bw.maxPool2d(x, 2, { stride: 1 }),
  maxPool2dPadded: (x: Tensor) => bw.maxPool2d(x, 3, { stride: 2, padding: 1 }),
  avgPool2dPadded: (x: Tensor) => bw.avgPool2d(x, 3, { stride: 2, padding: 1 }),
  adaptiveAvgPool2d: (x: Tensor) => bw.adaptiveAvgPool2d(x, [2, 3]),
  attention: (q: Tensor, k: Tensor, v: Tensor) => bw.scaledDotProductAttention(q, k, v, { causal: true }),
  huberHalf: (a: Tensor, b: Tensor) => bw.huberLoss(a, b, { delta: 0.5 }),
  klDivSum: (a: Tensor, b: Tensor) => bw.klDiv(a, b, { reduction: 'sum' }),
  crossEntropyPlain: (t: Tensor) => bw.crossEntropy(t, int([1, 0, 2, 4])),
  crossEntropyIgnore: (t: Tensor) => bw.crossEntropy(t, target()),
  crossEntropyAll: (t: Tensor) =>
    bw.crossEntropy(t, target(), { weight: tensor([1, 2, 0.5, 1, 3]), labelSmoothing: 0.2 }),
  crossEntropyImages: (t: Tensor) =>
    bw.crossEntropy(
      t,
      int([
        [
          [0, 1],
          [2, 1],
        ],
      ]),
    ),
  crossEntropySoft: (t: Tensor) => bw.crossEntropy(t, soft()),
  throughView: (t: Tensor) => {
    const x = two(t);
    x.select(0, 1).mul_(5);
    return x.add(x.select(0, 1));
  },
  viewWritten: (t: Tensor) => {
    const x = two(t);
    const row = x.select(0, 0);
    x.mul_(t);
    row.add_(1);
    return x.mul(row);
  },
  copied: (t: Tensor) => {
    const x = bw.zeros([2, 3]);
    x.select(1, 1).copy_(t.select(1, 0).mul(3));
    return x.mul(t);
  },
  chained: (t: Tensor) => t.clone().mul_(t).sub_(0.5).sigmoid_(),
  transposedView: (t: Tensor) => {
    const x = t.mul(1);
    x.transpose(0, 1).slice(0, 1).mul_(3);
    return x;
  },
  'second:tanh': second((t) => t.tanh().mul(t)),
  'second:sigmoid': second((t) => t.sigmoid().mul(t)),
  'second:exp': second((t) => t.exp().mul(t)),
  'second:softmax': second((t) => t.softmax(1).pow(2)),
  'second:matmul': second((t) => t.matmul(t.transpose(0, 1)).square()),
};

const sparse = (values: Tensor, rows = false): Tensor =>
  rows
    ? bw.sparseCooTensor(int([[2, 0, 2]]), values, [3, 4])
    : bw.sparseCooTensor(
        int([
          [2, 0, 2],
          [1, 0, 1],
        ]),
        values,
        [3, 2],
      );
const labels = (): Tensor => int([1, -100, 4, 0]);
const bag = (weight: Tensor, mode: 'sum' | 'mean'): Tensor => {
  const layer = new nn.EmbeddingBag(6, 3, { mode });
  Object.assign(layer, { weight });
  return layer.forward(int([1, 2, 4, 5, 4]), int([0, 2, 2]));
};
type Reduced = bw.LossOptions;

/** Cases of golden/matrix.py that are not simply the operation of that name with the arguments given. */
const matrix: Record<string, (...t: never[]) => Tensor> = {
  maxValues: (t: Tensor, dim: number) => bw.max(t, dim).values,
  minValues: (t: Tensor, dim: number) => bw.min(t, dim).values,
  choleskyOfSquare: (t: Tensor) => bw.cholesky(t.matmul(t.transpose(-1, -2)).add(bw.eye(3).mul(4))),
  indexSelectBy: (t: Tensor, i: Tensor, dim: number) => bw.indexSelect(t, dim, i),
  indexSelectStepped: (t: Tensor, i: Tensor, dim: number) => bw.indexSelect(t, dim, i),
  indexAddBy: (t: Tensor, i: Tensor, s: Tensor, dim: number) => bw.indexAdd(t, dim, i, s),
  gatherBy: (t: Tensor, i: Tensor, dim: number) => bw.gather(t, dim, i),
  scatterBy: (t: Tensor, i: Tensor, s: Tensor, dim: number) => bw.scatter(t, dim, i, s),
  scatterAddBy: (t: Tensor, i: Tensor, s: Tensor, dim: number) => bw.scatterAdd(t, dim, i, s),
  sortValues: (t: Tensor, dim: number, descending?: boolean) => bw.sort(t, dim, descending).values,
  topKValues: (t: Tensor, k: number, dim?: number, largest?: boolean) => bw.topK(t, k, dim, largest).values,
  uniqueValues: (t: Tensor) => bw.unique(t).values,
  concatThree: (a: Tensor, b: Tensor, dim: number) => bw.concat([a, b, a], dim),
  stackThree: (a: Tensor, b: Tensor, dim: number) => bw.stack([a, b, a], dim),
  layerNormOver: (t: Tensor, ...rest: unknown[]) => {
    const shape = rest.pop() as number[];
    return bw.layerNorm(t, shape, ...(rest as Tensor[]));
  },
  batchNormPlain: (t: Tensor) => bw.batchNorm(t),
  batchNormRunning: (t: Tensor, runningMean: Tensor, runningVar: Tensor, weight: Tensor, bias: Tensor) =>
    bw.batchNorm(t, {
      runningMean: runningMean.detach(),
      runningVar: runningVar.detach(),
      weight,
      bias,
      training: false,
    }),
  binaryCrossEntropyTo: (a: Tensor, b: Tensor, o: Reduced) => bw.binaryCrossEntropy(a, b, o),
  binaryCrossEntropyWithLogitsTo: (a: Tensor, b: Tensor, o: Reduced) => bw.binaryCrossEntropyWithLogits(a, b, o),
  klDivTo: (a: Tensor, b: Tensor, o: Reduced) => bw.klDiv(a, b, o),
  crossEntropyWith: (t: Tensor, weight: Tensor, o: Reduced & { labelSmoothing: number }) =>
    bw.crossEntropy(t, labels(), { ...o, weight: weight.detach() }),
  crossEntropyFirst: (t: Tensor) => bw.crossEntropy(t, int([0, 1])),
  nllLossOf: (t: Tensor, o: Reduced) => bw.nllLoss(t, labels(), o),
  'sparse:dense': (v: Tensor) => sparse(v).toDense(),
  'sparse:rows': (v: Tensor) => sparse(v, true).toDense(),
  'sparse:coalesce': (v: Tensor) => sparse(v).coalesce().toDense(),
  'sparse:sum': (v: Tensor, w: Tensor) => sparse(v).add(sparse(w)).toDense(),
  'sparse:mixed': (d: Tensor, v: Tensor) => d.add(sparse(v)),
  'sparse:scaled': (v: Tensor) => sparse(v).mul(2.5).toDense(),
  'sparse:times': (v: Tensor, d: Tensor) => sparse(v).mul(d).toDense(),
  'sparse:matmul': (v: Tensor, d: Tensor) => sparse(v).matmul(d),
  'bag:sum': (w: Tensor) => bag(w, 'sum'),
  'bag:mean': (w: Tensor) => bag(w, 'mean'),
  embedding: (w: Tensor) => {
    const layer = new nn.Embedding(6, 3);
    Object.assign(layer, { weight: w });
    return layer.forward(
      int([
        [1, 1],
        [5, 0],
      ]),
    );
  },
};

const pairsOf = (z: Tensor): Tensor => bw.stack([bw.real(z), bw.imag(z)], -1);
for (const name of ['add', 'sub', 'mul', 'div', 'matmul'] as const) {
  matrix[`complex:${name}`] = (a: Tensor, b: Tensor, c: Tensor, d: Tensor) =>
    pairsOf(bw[name](bw.complex(a, b), bw.complex(c, d)));
}
for (const name of ['neg', 'exp', 'log', 'square', 'conj'] as const)
  matrix[`complex:${name}`] = (a: Tensor, b: Tensor) => pairsOf(bw[name](bw.complex(a, b)));
for (const name of ['sum', 'mean'] as const)
  matrix[`complex:${name}0`] = (a: Tensor, b: Tensor) => pairsOf(bw[name](bw.complex(a, b), 0));
for (const name of ['abs', 'angle'] as const)
  matrix[`complexTo:${name}`] = (a: Tensor, b: Tensor) => bw[name](bw.complex(a, b));

type Operation = (...inputs: unknown[]) => Tensor;
const functions = bw as unknown as Record<string, Operation>;

function operationOf(fn: string, table: Record<string, (...t: never[]) => Tensor>): Operation {
  if (fn.startsWith('.')) {
    return (t, ...args) => (t as Record<string, Operation>)[fn.slice(1)]?.call(t, ...args) as Tensor;
  }
  const run = (table[fn] ?? functions[fn]) as Operation | undefined;
  if (run === undefined) throw new Error(`no operation '${fn}'`);
  return run;
}

const operations = load<{ cases: Case[] }>('operations.json').cases;
const systematic = load<{ cases: Case[] }>('matrix.json').cases;

function compare({ fn, inputs, args = [], view, long, output, weights, grads }: Case, table: typeof matrix): void {
  const leaves = inputs.map((p) => unpack(p, grads !== undefined));
  const given = view === undefined ? leaves : leaves.map((t) => views[view](t));
  const result = operationOf(fn, table)(...given, ...args.map(argument));
  const rtol = long === true ? 1e-5 : 1e-6;
  expectClose(result, output, 'output', rtol);
  if (grads === undefined || weights === undefined) return;
  const used = leaves.filter((t) => t.requiresGrad);
  const got = grad([result], used, { gradOutputs: [unpack(weights)], allowUnused: true });
  const wanted = grads.filter((_, i) => leaves[i]?.requiresGrad);
  got.forEach((g, i) => {
    const w = wanted[i];
    if (w === null || w === undefined) expect(g === null || g.eq(0).all().item() === 1, `gradient ${i}`).toBe(true);
    else expectClose(g as Tensor, w, `gradient ${i}`, rtol);
  });
}

describe('operations give what PyTorch gives', () => {
  it.each(operations)('$name', (c) => compare(c, special));
});

describe('on extreme, tied, broadcast, empty and strided operands too', () => {
  it.each(systematic)('$name', (c) => compare(c, matrix));
});

afterAll(() => {
  const all = [...operations, ...systematic];
  const gradients = all.reduce((n, c) => n + (c.grads ?? []).filter((g) => g !== null).length, 0);
  console.info(`${backendName()}: ${all.length} golden cases and ${gradients} golden gradients compared with PyTorch`);
});

describe('layers give what PyTorch gives', () => {
  const { lstm, embeddingBag } = load<{
    lstm: {
      state: Record<string, Packed>;
      x: Packed;
      output: Packed;
      h: Packed;
      c: Packed;
      grads: Record<string, Packed>;
    };
    embeddingBag: { weight: Packed; ids: Packed; offsets: Packed; output: Packed; grad: Packed };
  }>('layers.json');

  it('LSTM', () => {
    const layer = new nn.LSTM(3, 4, { layers: 2 });
    layer.loadStateDict(new Map(Object.entries(lstm.state).map(([k, v]) => [k, unpack(v)])));
    const [output, [h, c]] = layer.forward(unpack(lstm.x));
    expectClose(output, lstm.output, 'output', 1e-5);
    expectClose(h, lstm.h, 'h', 1e-5);
    expectClose(c, lstm.c, 'c', 1e-5);
    output.sum().add(h.sum().mul(2)).add(c.sum().mul(3)).backward();
    for (const [name, p] of layer.namedParameters())
      expectClose(p.grad as Tensor, lstm.grads[name] as Packed, name, 1e-5);
  });

  it.each([false, true])('EmbeddingBag, sparse gradient %s', (sparse) => {
    const layer = new nn.EmbeddingBag(6, 3, { mode: 'mean', sparse });
    layer.loadStateDict(new Map([['weight', unpack(embeddingBag.weight)]]));
    const out = layer.forward(unpack(embeddingBag.ids), unpack(embeddingBag.offsets));
    expectClose(out, embeddingBag.output, 'output');
    out
      .mul(bw.arange(9).to('float32').reshape([3, 3]))
      .sum()
      .backward();
    expect(layer.weight.grad?.layout).toBe(sparse ? 'sparse_coo' : 'strided');
    expectClose((layer.weight.grad as Tensor).toDense(), embeddingBag.grad, 'gradient');
  });
});

describe('optimisers walk as PyTorch walks', () => {
  const { start, gradients, runs } = load<{
    start: Packed;
    gradients: Packed[];
    runs: { name: keyof typeof optim; options: Record<string, unknown>; values: Packed[] }[];
  }>('optimizers.json');
  const camel = (name: string): string => name.replaceAll(/_(.)/g, (_, c: string) => c.toUpperCase());

  it.each(runs)('$name $options', ({ name, options, values }) => {
    const p = unpack(start, true);
    const Type = optim[name] as unknown as new (params: Tensor[], o: object) => optim.Optimizer;
    const opt = new Type([p], Object.fromEntries(Object.entries(options).map(([k, v]) => [camel(k), v])));
    gradients.forEach((g, i) => {
      opt.step([unpack(g)]);
      expectClose(p, values[i] as Packed, `step ${i + 1}`, 1e-5);
    });
  });
});
