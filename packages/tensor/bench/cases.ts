/** @file What is timed, case by case; peer.py has the same cases under the same names. */
import {
  crossEntropy,
  layerNorm,
  manualSeed,
  nn,
  optim,
  rand,
  randint,
  randn,
  scaledDotProductAttention,
  type Tensor,
} from '../src/index.ts';

export interface Case {
  readonly name: string;
  /** Makes everything ready and answers what one call does. */
  readonly make: () => () => void;
  /** How many times PyTorch's time it may take, by backend: where nothing is said, the row is for information. */
  readonly goals?: Readonly<Record<string, number>>;
  /** Backends on which it would only cost time. */
  readonly except?: readonly string[];
}

/** Leaves of four elements, and a gradient for the result. */
const small = (step: (w: Tensor, v: Tensor, b: Tensor, g: Tensor) => void) => (): (() => void) => {
  const w = rand([4], { requiresGrad: true });
  const v = rand([4], { requiresGrad: true });
  const b = rand([4]);
  const g = rand([4]);
  return () => step(w, v, b, g);
};

const product = (n: number) => (): (() => void) => {
  const [a, b] = [rand([n, n]), rand([n, n])];
  return () => a.matmul(b).dispose();
};

const large = (step: (x: Tensor, y: Tensor) => Tensor) => (): (() => void) => {
  const [x, y] = [rand([1000, 1000]), rand([1000, 1000])];
  return () => step(x, y).dispose();
};

function chain(w: Tensor, v: Tensor, b: Tensor, g: Tensor): void {
  let x = w;
  for (let i = 0; i < 10; i++) x = x.mul(v).add(b);
  x.backward(g);
}

function training(model: nn.Module & { forward(x: Tensor): Tensor }, x: Tensor): () => void {
  const y = randint(0, 10, [64]);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.01 });
  return () => {
    optimizer.zeroGrad();
    crossEntropy(model.forward(x), y).backward();
    optimizer.step();
  };
}

/** Batch 64, 784-256-256-10. */
function mlpStep(): () => void {
  manualSeed(1);
  const layers = [
    new nn.Linear(784, 256),
    new nn.ReLU(),
    new nn.Linear(256, 256),
    new nn.ReLU(),
    new nn.Linear(256, 10),
  ];
  return training(new nn.Sequential(...layers), randn([64, 784]));
}

function lenetStep(): () => void {
  manualSeed(1);
  const model = new nn.Sequential(
    ...[new nn.Conv2d(1, 6, 5, { padding: 2 }), new nn.ReLU(), new nn.MaxPool2d(2)],
    ...[new nn.Conv2d(6, 16, 5), new nn.ReLU(), new nn.MaxPool2d(2), new nn.Flatten()],
    ...[new nn.Linear(400, 120), new nn.ReLU(), new nn.Linear(120, 10)],
  );
  return training(model, randn([64, 1, 28, 28]));
}

function embeddingStep(): () => void {
  manualSeed(1);
  const table = new nn.EmbeddingBag(10_000, 64, { mode: 'sum', sparse: true });
  const ids = randint(0, 10_000, [64, 32]);
  const optimizer = new optim.SGD(table.parameters(), { lr: 0.01 });
  return () => {
    optimizer.zeroGrad();
    table.forward(ids).sum().backward();
    optimizer.step();
  };
}

/** One block of a transformer: attention of 4 heads, then two layers of four times the width, each after its own norm. */
class Block extends nn.Module {
  readonly before = new nn.LayerNorm([GPT.width]);
  readonly after = new nn.LayerNorm([GPT.width]);
  readonly qkv = new nn.Linear(GPT.width, 3 * GPT.width);
  readonly mix = new nn.Linear(GPT.width, GPT.width);
  readonly wide = new nn.Linear(GPT.width, 4 * GPT.width);
  readonly narrow = new nn.Linear(4 * GPT.width, GPT.width);

  forward(x: Tensor): Tensor {
    const [b, t, c] = x.shape as [number, number, number];
    const heads = this.qkv.forward(this.before.forward(x)).reshape([b, t, 3, GPT.heads, c / GPT.heads]);
    const [q, k, v] = [0, 1, 2].map((i) => heads.select(2, i).transpose(1, 2)) as [Tensor, Tensor, Tensor];
    const seen = scaledDotProductAttention(q, k, v, { causal: true }).transpose(1, 2).reshape([b, t, c]);
    const y = x.add(this.mix.forward(seen));
    return y.add(this.narrow.forward(this.wide.forward(this.after.forward(y)).relu()));
  }
}

const GPT = { width: 128, heads: 4, tokens: 64, batch: 8, words: 256 } as const;

function gptStep(): () => void {
  manualSeed(1);
  const words = new nn.Embedding(GPT.words, GPT.width);
  const blocks = [new Block(), new Block()];
  const out = new nn.Linear(GPT.width, GPT.words);
  const [x, y] = [randint(0, GPT.words, [GPT.batch, GPT.tokens]), randint(0, GPT.words, [GPT.batch * GPT.tokens])];
  const optimizer = new optim.AdamW([words, ...blocks, out].flatMap((part) => [...part.parameters()]));
  return () => {
    optimizer.zeroGrad();
    let h = words.forward(x);
    for (const block of blocks) h = block.forward(h);
    crossEntropy(out.forward(h).reshape([GPT.batch * GPT.tokens, GPT.words]), y).backward();
    optimizer.step();
  };
}

/** Forward and backward over 16 steps of 16 sequences, 128 to 128. */
function sequence<L extends nn.Module>(make: () => L, output: (layer: L, x: Tensor) => Tensor): () => () => void {
  return () => {
    manualSeed(1);
    const layer = make();
    const x = randn([16, 16, 128]);
    return () => {
      layer.zeroGrad();
      output(layer, x).sum().backward();
    };
  };
}

function adam(): () => void {
  const p = rand([10_000_000], { requiresGrad: true });
  const g = rand([10_000_000]);
  const optimizer = new optim.Adam([p]);
  return () => optimizer.step([g]);
}

const every = (goal: number): Readonly<Record<string, number>> => ({ blas: goal, wasm: goal, tensorflow: goal });
const dispatch = { cpu: 1.5, wasm: 2 };
const chained = { cpu: 0.8, ...every(0.8) };
const products = { blas: 1, wasm: 2.5, tensorflow: 1 };

const lstm = sequence(
  () => new nn.LSTM(128, 128),
  (layer, x) => layer.forward(x)[0],
);
const gru = sequence(
  () => new nn.GRU(128, 128),
  (layer, x) => layer.forward(x)[0],
);
const rnn = sequence(
  () => new nn.RNN(128, 128),
  (layer, x) => layer.forward(x)[0],
);

export const cases: readonly Case[] = [
  { name: 'add [4]', make: small((_w, _v, b, g) => void b.add(g)) },
  { name: 'add [4], recorded', make: small((w, _v, b) => void w.add(b)) },
  { name: 'add [4], forward and backward', make: small((w, _v, b, g) => w.add(b).backward(g)), goals: dispatch },
  { name: 'mul [4], forward and backward', make: small((w, _v, b, g) => w.mul(b).backward(g)), goals: dispatch },
  { name: '20 operations on [4], forward and backward', make: small(chain), goals: chained },
  { name: 'matmul 64', make: product(64), goals: { ...products, tensorflow: 2 } },
  { name: 'matmul 256', make: product(256), goals: products },
  { name: 'matmul 1024', make: product(1024), goals: products, except: ['cpu'] },
  { name: 'add 1M', make: large((x, y) => x.add(y)), goals: every(2) },
  { name: 'exp 1M', make: large((x) => x.exp()), goals: every(3) },
  { name: 'sum 1M', make: large((x) => x.sum()), goals: every(2) },
  { name: 'softmax 1M', make: large((x) => x.softmax(1)), goals: every(2) },
  { name: 'layer norm 1M', make: large((x) => layerNorm(x, [1000])), goals: every(2) },
  { name: 'transpose 1M', make: large((x) => x.transpose(0, 1).contiguous()), goals: every(2) },
  { name: 'MLP step, SGD', make: mlpStep, goals: { blas: 1.2, wasm: 3, tensorflow: 1.2 } },
  { name: 'LeNet step, SGD', make: lenetStep, goals: { blas: 1.8, wasm: 4, tensorflow: 1.3 } },
  { name: 'embedding bag step, SGD', make: embeddingStep, goals: every(2) },
  { name: 'small GPT step, AdamW', make: gptStep, goals: { blas: 1.5, wasm: 4, tensorflow: 1.5 } },
  { name: 'LSTM, forward and backward', make: lstm },
  { name: 'GRU, forward and backward', make: gru },
  { name: 'RNN, forward and backward', make: rnn },
  { name: 'Adam, 10M parameters', make: adam, goals: every(0.5) },
];
