/** @file Layers and workers that have nothing to do: batches, shards and sequences without elements, both ways. */
import { describe, expect, it } from 'vitest';
import {
  crossEntropy,
  grad,
  manualSeed,
  mseLoss,
  nn,
  noGrad,
  ones,
  optim,
  rand,
  zeros,
  type Tensor,
} from '../src/index.ts';

const ids = (shape: number[]): Tensor => zeros(shape, { dtype: 'int64' });
const sizes = (m: nn.Module): number[] => m.parameters().map((p) => p.grad?.toDense().abs().sum().item() ?? NaN);

describe('a batch of none', () => {
  it.each<[name: string, layer: nn.Module, x: Tensor, shape: number[]]>([
    ['Linear', new nn.Linear(3, 4), zeros([0, 3]), [0, 4]],
    ['Linear without inputs', new nn.Linear(0, 4, { bias: false }), zeros([2, 0]), [2, 4]],
    ['Linear without outputs', new nn.Linear(3, 0), zeros([2, 3]), [2, 0]],
    ['Conv2d', new nn.Conv2d(2, 3, 2), zeros([0, 2, 4, 4]), [0, 3, 3, 3]],
    ['Embedding', new nn.Embedding(4, 3), ids([0]), [0, 3]],
    ['Embedding, sparse', new nn.Embedding(4, 3, { sparse: true }), ids([0, 2]), [0, 2, 3]],
    ['EmbeddingBag', new nn.EmbeddingBag(4, 3), ids([0, 2]), [0, 3]],
    ['EmbeddingBag of empty bags', new nn.EmbeddingBag(4, 3), ids([2, 0]), [2, 3]],
    ['BatchNorm2d', new nn.BatchNorm2d(3), zeros([0, 3, 2, 2]), [0, 3, 2, 2]],
    ['LayerNorm', new nn.LayerNorm([3]), zeros([0, 3]), [0, 3]],
    ['GroupNorm', new nn.GroupNorm(2, 4), zeros([0, 4, 2]), [0, 4, 2]],
  ])('goes through %s, and leaves gradients of zero', (_, layer, x, shape) => {
    const y = (layer as unknown as { forward(x: Tensor): Tensor }).forward(x);
    expect(y.shape).toEqual(shape);
    y.sum().backward();
    expect(sizes(layer)).toEqual(layer.parameters().map(() => 0));
  });

  it('goes through an LSTM', () => {
    const layer = new nn.LSTM(3, 4, { layers: 2 });
    const [output, [h, c]] = layer.forward(zeros([5, 0, 3]));
    expect([output.shape, h.shape, c.shape]).toEqual([
      [5, 0, 4],
      [2, 0, 4],
      [2, 0, 4],
    ]);
    output.sum().add(h.sum()).add(c.sum()).backward();
    expect(sizes(layer)).toEqual(layer.parameters().map(() => 0));
  });

  it('leaves running statistics as they are', () => {
    const layer = new nn.BatchNorm2d(2);
    noGrad(() => layer.forward(rand([4, 2, 2, 2])));
    const running = (): unknown[] =>
      ['running_mean', 'running_var'].map((name) => layer.stateDict().get(name)?.toArray());
    const before = running();
    layer.forward(zeros([0, 2, 2, 2]));
    expect(running()).toEqual(before);
    expect(before[0]).not.toEqual([0, 0]);
  });
});

describe('a worker with an empty shard', () => {
  const model = () => {
    manualSeed(3);
    return new nn.Sequential(
      new nn.Conv2d(1, 2, 3),
      new nn.ReLU(),
      new nn.MaxPool2d(2),
      new nn.Flatten(),
      new nn.Linear(8, 3),
    );
  };
  const images = rand([5, 1, 6, 6]);
  const labels = zeros([5], { dtype: 'int64' });
  const step = (net: ReturnType<typeof model>, from: number, count: number): (Tensor | null)[] => {
    const shard = net.forward(images.narrow(0, from, count));
    const loss = crossEntropy(shard, labels.narrow(0, from, count), { reduction: 'sum' });
    return grad([loss], net.parameters());
  };

  it.each([
    ['at the end', 5],
    ['at the start', 0],
  ])('%s adds nothing to the sum of gradients', (_, from) => {
    const net = model();
    const whole = step(net, 0, 5);
    const parts = [step(net, 0, 2), step(net, from, 0), step(net, 2, 3)];
    whole.forEach((g, i) => {
      const sum = parts.map((part) => part[i] as Tensor).reduce((a, b) => a.add(b));
      expect(sum.allClose(g as Tensor, { rtol: 1e-5, atol: 1e-6 })).toBe(true);
      expect((parts[1]?.[i] as Tensor).abs().sum().item()).toBe(0);
    });
  });

  it('takes a step with the others, also through select, split and chunk', () => {
    const net = new nn.Linear(2, 1);
    const before = net.weight.detach().clone();
    const opt = new optim.SGD(net.parameters(), { lr: 0.1 });
    const x = ones([4, 2]).chunk(2)[1]?.split([2, 0])[1] as Tensor;
    mseLoss(net.forward(x), zeros([0, 1]), { reduction: 'sum' }).backward();
    net
      .forward(zeros([0, 3, 2]))
      .select(1, 2)
      .sum()
      .backward();
    opt.step();
    expect(net.weight.equal(before)).toBe(true);
  });
});
