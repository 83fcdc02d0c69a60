/** @file What is timed, case by case; peer.py has the same cases under the same names. */
import { crossEntropy, manualSeed, nn, optim, rand, randint, randn, type Tensor } from '../src/index.ts';

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

function adam(): () => void {
  const p = rand([10_000_000], { requiresGrad: true });
  const g = rand([10_000_000]);
  const optimizer = new optim.Adam([p]);
  return () => optimizer.step([g]);
}

const dispatch = { cpu: 1.5, wasm: 2 };

export const cases: readonly Case[] = [
  { name: 'add [4]', make: small((_w, _v, b, g) => void b.add(g)) },
  { name: 'add [4], recorded', make: small((w, _v, b) => void w.add(b)) },
  { name: 'add [4], forward and backward', make: small((w, _v, b, g) => w.add(b).backward(g)), goals: dispatch },
  { name: 'mul [4], forward and backward', make: small((w, _v, b, g) => w.mul(b).backward(g)), goals: dispatch },
  { name: '20 operations on [4], forward and backward', make: small(chain), goals: dispatch },
  { name: 'matmul 64', make: product(64) },
  { name: 'matmul 256', make: product(256) },
  { name: 'matmul 1024', make: product(1024), goals: { tensorflow: 1 }, except: ['cpu'] },
  { name: 'add 1M', make: large((x, y) => x.add(y)) },
  { name: 'exp 1M', make: large((x) => x.exp()) },
  { name: 'sum 1M', make: large((x) => x.sum()) },
  { name: 'transpose 1M', make: large((x) => x.transpose(0, 1).contiguous()) },
  { name: 'MLP step, SGD', make: mlpStep, goals: { tensorflow: 1.5, wasm: 4 } },
  { name: 'LeNet step, SGD', make: lenetStep },
  { name: 'embedding bag step, SGD', make: embeddingStep },
  { name: 'Adam, 10M parameters', make: adam, goals: { wasm: 1 } },
];
