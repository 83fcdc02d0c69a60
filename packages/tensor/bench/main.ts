/** @file Times the tensor layer: dispatch, kernels, training steps. `npm run bench`; BACKWIRE_BACKEND chooses the backend. */
import { backendName, crossEntropy, manualSeed, nn, optim, rand, randint, randn, type Tensor } from '../src/index.ts';

const rows: { what: string; time: string; note: string }[] = [];

/** Median of several runs, each of `inner` calls, after a warm-up. */
function time(what: string, fn: () => void, inner: number, note: (seconds: number) => string = () => ''): void {
  for (let i = 0; i < inner; i++) fn();
  const runs = Array.from({ length: 7 }, () => {
    const start = performance.now();
    for (let i = 0; i < inner; i++) fn();
    return (performance.now() - start) / inner;
  }).sort((a, b) => a - b);
  const ms = runs[3] as number;
  rows.push({ what, time: ms < 1 ? `${(ms * 1000).toFixed(2)} us` : `${ms.toFixed(2)} ms`, note: note(ms / 1000) });
}

function dispatch(): void {
  const [a, b] = [rand([4]), rand([4])];
  const w = rand([4], { requiresGrad: true });
  time('mul [4]', () => void a.mul(b), 5000);
  time('mul [4], recorded', () => void w.mul(b), 5000);
  time('mul [4], forward and backward', () => w.mul(b).backward(a), 2000);
}

function kernels(): void {
  const slow = backendName() === 'cpu';
  for (const n of [64, 256, 512]) {
    const [a, b] = [rand([n, n]), rand([n, n])];
    const flops = 2 * n ** 3;
    time(
      `matmul ${n}`,
      () => a.matmul(b).dispose(),
      slow ? 2 : 20,
      (s) => `${(flops / s / 1e9).toFixed(1)} GFLOP/s`,
    );
  }
  const [x, y] = [rand([1000, 1000]), rand([1000, 1000])];
  const bandwidth = (s: number): string => `${(12e6 / s / 2 ** 30).toFixed(1)} GiB/s`;
  time('add 1M', () => x.add(y).dispose(), 10, bandwidth);
  time('exp 1M', () => x.exp().dispose(), 5);
  time('sum 1M', () => x.sum().dispose(), 10);
  time('transpose 1M', () => x.transpose(0, 1).contiguous().dispose(), 5);
}

class Classifier extends nn.Module {
  readonly hidden = new nn.Linear(784, 256);
  readonly out = new nn.Linear(256, 10);
  forward(x: Tensor): Tensor {
    return this.out.forward(this.hidden.forward(x).relu());
  }
}

/** A digit classifier on random digits: only the time counts. */
function training(): void {
  const batch = 128;
  for (const name of ['SGD', 'Adam'] as const) {
    manualSeed(1);
    const model = new Classifier();
    const opt =
      name === 'SGD'
        ? new optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9 })
        : new optim.Adam(model.parameters());
    const [x, y] = [randn([batch, 784]), randint(0, 10, [batch])];
    const step = (): void => {
      opt.zeroGrad();
      crossEntropy(model.forward(x), y).backward();
      opt.step();
    };
    const epoch = (s: number): string => `${((60_000 / batch) * s).toFixed(1)} s for 60 000 samples`;
    time(`MLP 784-256-10, ${name}, batch ${batch}`, step, backendName() === 'cpu' ? 3 : 20, epoch);
  }
}

function optimiser(): void {
  const p = rand([10_000_000], { requiresGrad: true });
  const g = rand([10_000_000]);
  const opt = new optim.Adam([p]);
  time('Adam, 10M parameters', () => opt.step([g]), 1);
}

for (const part of [dispatch, kernels, training, optimiser]) part();
console.log(`backend ${backendName()}, Node ${process.versions.node}`);
for (const { what, time: t, note } of rows) console.log(`${what.padEnd(40)} ${t.padStart(12)}  ${note}`);
