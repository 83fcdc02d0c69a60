/** @file What PyTorch answers (golden/*.json, made by golden/make.py) against what this package answers. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as bw from './index.ts';
import { grad, nn, optim, tensor, type DType, type Tensor } from './index.ts';

interface Packed {
  dtype: DType;
  shape: number[];
  data: (number | boolean | string)[];
}
interface Case {
  name: string;
  fn: string;
  inputs: Packed[];
  output: Packed;
  weights?: Packed;
  grads?: (Packed | null)[];
}

const load = <T>(file: string): T =>
  JSON.parse(readFileSync(new URL(`../golden/${file}`, import.meta.url), 'utf8')) as T;
const number = (v: number | boolean | string): number =>
  typeof v === 'string' ? { nan: NaN, inf: Infinity, '-inf': -Infinity }[v as 'nan'] : Number(v);

function unpack(p: Packed, requiresGrad = false): Tensor {
  const values = Float64Array.from(p.data, number);
  const float = p.dtype.includes('float');
  return tensor(values, { dtype: p.dtype, shape: p.shape, requiresGrad: requiresGrad && float });
}

/** Within 1e-6 of the result's own scale (1e-5 for sums over many elements); half precision within one step of its grid. */
function expectClose(got: Tensor, wanted: Packed, what: string, rtol = 1e-6): void {
  expect(got.dtype, `${what}: dtype`).toBe(wanted.dtype);
  expect([...got.shape], `${what}: shape`).toEqual(wanted.shape);
  const tolerance = { float16: 1e-3, bfloat16: 8e-3 }[wanted.dtype as 'float16'] ?? rtol;
  const values = got.to('float64').toDense().dataSync();
  const expected = wanted.data.map(number);
  const scale = expected.reduce((m, v) => (Number.isFinite(v) ? Math.max(m, Math.abs(v)) : m), 0);
  expected.forEach((w, i) => {
    const v = values[i] as number;
    if (Number.isNaN(w) || !Number.isFinite(w)) expect(v, `${what} [${i}]`).toBe(w);
    else
      expect(Math.abs(v - w), `${what} [${i}]: ${v} for ${w}`).toBeLessThanOrEqual(
        tolerance * Math.max(Math.abs(w), scale, 1e-3),
      );
  });
}

const int = (values: bw.Nested<number>): Tensor => tensor(values, { dtype: 'int64' });
const two = (t: Tensor): Tensor => t.mul(2);
const second = (f: (t: Tensor) => Tensor) => (t: Tensor) => grad([f(t).sum()], [t], { createGraph: true })[0] as Tensor;
const soft = (): Tensor => bw.arange(15).to('float32').reshape([3, 5]).softmax(1);
const target = (): Tensor => int([1, 0, -100, 4]);

/** Cases that are not simply the operation of that name. */
const special: Record<string, (...t: Tensor[]) => Tensor> = {
  addAlpha: (a, b) => a.add(b, { alpha: 2.5 }),
  cube: (a) => a.pow(3),
  clamp: (a) => a.clamp(-1, 1),
  where: (a, b) => bw.where(tensor([true, false, true]), a, b),
  sum0: (t) => t.sum(0),
  'sum-1': (t) => t.sum(-1),
  mean0: (t) => t.mean(0),
  'mean-1': (t) => t.mean(-1),
  prod0: (t) => t.prod(0),
  'prod-1': (t) => t.prod(-1),
  amax1: (t) => t.amax(1),
  amin1: (t) => t.amin(1),
  maxValues1: (t) => t.max(1).values,
  argMax1: (t) => t.argMax(1),
  cumsum1: (t) => t.cumsum(1),
  cumprod0: (t) => t.cumprod(0),
  variance1: (t) => t.variance(1),
  norm1: (t) => t.norm(2, 1),
  normP1: (t) => t.norm(1),
  softmax1: (t) => t.softmax(1),
  logSoftmax0: (t) => t.logSoftmax(0),
  logSumExp1: (t) => t.logSumExp(1),
  indexSelect0: (t) => t.indexSelect(0, int([2, 0, 2])),
  indexAdd0: (t, s) => t.indexAdd(0, int([2, 0, 2]), s),
  gather1: (t) =>
    t.gather(
      1,
      int([
        [0, 2, 2],
        [1, 1, 0],
      ]),
    ),
  scatterAdd1: (t, s) =>
    t.scatterAdd(
      1,
      int([
        [0, 2, 2],
        [1, 1, 0],
      ]),
      s,
    ),
  sortDown1: (t) => t.sort(1, true).values,
  topK2: (t) => t.topK(2, 1).values,
  trilDown: (t) => t.tril(-1),
  flip: (t) => t.flip([0, 1]),
  roll2: (t) => t.roll(2, 1),
  tile23: (t) => t.tile([2, 3]),
  pad: (t) => t.pad([1, 2, 0, 1], 0.5),
  geluTanh: (t) => t.gelu('tanh'),
  layerNorm: (t, w, b) => bw.layerNorm(t, [4], w, b),
  groupNorm: (t, w, b) => bw.groupNorm(t, 2, w, b),
  batchNorm: (t, weight, bias) => bw.batchNorm(t, { weight, bias }),
  conv2d: (x, w, bias) => bw.conv2d(x, w, { bias, stride: 2, padding: 1 }),
  conv2dGroups: (x, w) => bw.conv2d(x, w, { dilation: 2, groups: 2 }),
  conv1d: (x, w) => bw.conv1d(x, w, { padding: 1 }),
  convTranspose2d: (x, w) => bw.convTranspose2d(x, w, { stride: 2, padding: 1, outputPadding: 1 }),
  maxPool2dStride1: (x) => bw.maxPool2d(x, 2, { stride: 1 }),
  maxPool2dPadded: (x) => bw.maxPool2d(x, 3, { stride: 2, padding: 1 }),
  avgPool2dPadded: (x) => bw.avgPool2d(x, 3, { stride: 2, padding: 1 }),
  adaptiveAvgPool2d: (x) => bw.adaptiveAvgPool2d(x, [2, 3]),
  attention: (q, k, v) => bw.scaledDotProductAttention(q, k, v, { causal: true }),
  huberHalf: (a, b) => bw.huberLoss(a, b, { delta: 0.5 }),
  klDivSum: (a, b) => bw.klDiv(a, b, { reduction: 'sum' }),
  crossEntropyPlain: (t) => bw.crossEntropy(t, int([1, 0, 2, 4])),
  crossEntropyIgnore: (t) => bw.crossEntropy(t, target()),
  crossEntropyAll: (t) => bw.crossEntropy(t, target(), { weight: tensor([1, 2, 0.5, 1, 3]), labelSmoothing: 0.2 }),
  crossEntropyImages: (t) =>
    bw.crossEntropy(
      t,
      int([
        [
          [0, 1],
          [2, 1],
        ],
      ]),
    ),
  crossEntropySoft: (t) => bw.crossEntropy(t, soft()),
  throughView: (t) => {
    const x = two(t);
    x.select(0, 1).mul_(5);
    return x.add(x.select(0, 1));
  },
  viewWritten: (t) => {
    const x = two(t);
    const row = x.select(0, 0);
    x.mul_(t);
    row.add_(1);
    return x.mul(row);
  },
  copied: (t) => {
    const x = bw.zeros([2, 3]);
    x.select(1, 1).copy_(t.select(1, 0).mul(3));
    return x.mul(t);
  },
  chained: (t) => t.clone().mul_(t).sub_(0.5).sigmoid_(),
  transposedView: (t) => {
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

const functions = bw as unknown as Record<string, (...t: Tensor[]) => Tensor>;

describe('operations give what PyTorch gives', () => {
  const { cases } = load<{ cases: Case[] }>('operations.json');
  it.each(cases)('$name', ({ fn, inputs, output, weights, grads }) => {
    const run = special[fn] ?? functions[fn];
    if (run === undefined) throw new Error(`no operation '${fn}'`);
    const leaves = inputs.map((p) => unpack(p, grads !== undefined));
    const result = run(...leaves);
    const long =
      inputs.some((p) => p.data.length > 1000) ||
      (output.dtype === 'float32' && /conv|inverse|solve|det|cholesky|norm|Norm|attention|erf|gelu|second/.test(fn));
    const rtol = long ? 1e-5 : 2e-6;
    expectClose(result, output, 'output', rtol);
    if (grads === undefined || weights === undefined) return;
    const used = leaves.filter((t) => t.requiresGrad);
    const got = grad([result], used, { gradOutputs: [unpack(weights)], allowUnused: true });
    const wanted = grads.filter((_, i) => leaves[i]?.requiresGrad);
    got.forEach((g, i) => {
      const w = wanted[i];
      if (w === null || w === undefined) expect(g).toBeNull();
      else expectClose(g as Tensor, w, `gradient ${i}`, Math.max(rtol, 4e-6));
    });
  });
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
