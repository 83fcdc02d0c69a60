/** @file Modules: parameters, modes, state dicts, Sequential, data parallel training. */
import { describe, expect, it } from 'vitest';
import {
  crossEntropy,
  manualSeed,
  memory,
  nn,
  noGrad,
  ones,
  optim,
  rand,
  randn,
  tensor,
  zeros,
  type Tensor,
} from '../index.ts';

class Doubler extends nn.Module {
  async forward(x: Tensor): Promise<Tensor> {
    await Promise.resolve();
    return x.mul(2);
  }
}

class Net extends nn.Module {
  readonly first = new nn.Linear(2, 3);
  readonly rest = [new nn.Linear(3, 3, { bias: false }), new nn.Dropout(0.5)];
  readonly tied = this.first;
  forward(x: Tensor): Tensor {
    return this.rest.reduce((y: Tensor, layer) => layer.forward(y), this.first.forward(x));
  }
}

describe('Module', () => {
  it('finds parameters by path, each once', () => {
    const net = new Net();
    expect(net.namedParameters().map(([name]) => name)).toEqual(['first.weight', 'first.bias', 'rest.0.weight']);
    expect(net.parameters(false)).toEqual([]);
  });

  it('passes the mode on', () => {
    const net = new Net();
    expect([net.eval().rest[1]?.training, net.train().rest[1]?.training]).toEqual([false, true]);
    const x = ones([1, 2]);
    net.eval();
    expect(net.forward(x).equal(net.forward(x))).toBe(true);
  });

  it('loads a state dict whole or not at all', () => {
    const [a, b] = [new Net(), new Net()];
    b.loadStateDict(a.stateDict());
    const x = rand([4, 2]);
    expect(b.eval().forward(x).equal(a.eval().forward(x))).toBe(true);
    const state = new Map(new Net().stateDict());
    state.set('first.bias', zeros([4]));
    state.set('extra', zeros([1]));
    state.delete('rest.0.weight');
    expect(() => b.loadStateDict(state)).toThrow(
      /missing 'rest.0.weight'; unexpected 'extra'; size mismatch for 'first.bias': \[4\] instead of \[3\]/,
    );
    expect(b.forward(x).equal(a.forward(x))).toBe(true);
  });

  it('keeps running statistics in the state dict', () => {
    const norm = new nn.BatchNorm1d(2);
    norm.forward(
      tensor([
        [1, 2],
        [3, 6],
      ]),
    );
    expect([...norm.stateDict().keys()]).toEqual([
      'weight',
      'bias',
      'running_mean',
      'running_var',
      'num_batches_tracked',
    ]);
    expect(
      norm
        .stateDict()
        .get('running_mean')
        ?.allClose(tensor([0.2, 0.4])),
    ).toBe(true);
    expect(
      norm
        .stateDict()
        .get('running_var')
        ?.allClose(tensor([1.1, 1.7])),
    ).toBe(true);
    norm.eval();
    expect(norm.forward(tensor([[0.2, 0.4]])).allClose(zeros([1, 2]), { atol: 1e-6 })).toBe(true);
  });
});

describe('Sequential', () => {
  it('leaves its input and what a layer of the program keeps alone', () => {
    class Keeper extends nn.ReLU {
      last: Tensor | undefined;
      override forward(x: Tensor): Tensor {
        return (this.last = super.forward(x));
      }
    }
    const keeper = new Keeper();
    const model = new nn.Sequential(new nn.Linear(3, 4), new nn.ReLU(), keeper, new nn.Linear(4, 2), new nn.Dropout(0));
    const x = tensor([[1, 2, 3]]);
    const y = model.forward(x);
    expect(keeper.last?.disposed).toBe(false);
    expect(keeper.last?.shape).toEqual([1, 4]);
    expect(x.disposed).toBe(false);
    y.sum().backward();
    expect(model.layers[0].weight.grad?.shape).toEqual([4, 3]);
  });

  it('is synchronous unless a layer is not', async () => {
    const x = ones([1, 2]);
    const sync: Tensor = new nn.Sequential(new nn.Linear(2, 3), new nn.ReLU()).forward(x);
    expect(sync.shape).toEqual([1, 3]);
    const later: Promise<Tensor> = new nn.Sequential(new nn.Linear(2, 3), new Doubler(), new nn.Linear(3, 1)).forward(
      x,
    );
    expect(later).toBeInstanceOf(Promise);
    expect((await later).shape).toEqual([1, 1]);
    expect(new nn.Sequential(new nn.Linear(2, 3)).namedParameters().map(([name]) => name)).toEqual([
      '0.weight',
      '0.bias',
    ]);
  });
});

describe('zeroGrad', () => {
  it('leaves gradients that the program asked for alone, and frees the others', () => {
    const [a, b] = [new nn.Linear(2, 2), new nn.Linear(2, 2)];
    const opt = new optim.SGD([a.weight, b.weight], { lr: 0.1 });
    b.forward(a.forward(ones([1, 2])))
      .sum()
      .backward();
    const held = a.weight.grad as Tensor;
    const before = memory().storages;
    opt.step();
    opt.zeroGrad();
    expect([a.weight.grad, b.weight.grad, held.disposed]).toEqual([null, null, false]);
    expect(memory().storages).toBe(before - 1);
  });
});

describe('training', () => {
  it('gives the same bits for the same seed', () => {
    const train = (): number[] => {
      manualSeed(3);
      const model = new nn.Sequential(new nn.Linear(64, 96), new nn.ReLU(), new nn.Dropout(0.1), new nn.Linear(96, 10));
      const opt = new optim.Adam(model.parameters(), { lr: 0.01 });
      const [x, y] = [randn([64, 64]), randn([64, 10]).argMax(1)];
      return Array.from({ length: 10 }, () => {
        opt.zeroGrad();
        const loss = crossEntropy(model.forward(x), y);
        loss.backward();
        opt.step();
        return loss.item();
      });
    };
    const first = train();
    expect(train()).toEqual(first);
    expect(first[9]).toBeLessThan(first[0] as number);
  });

  it('learns with convolutions', () => {
    manualSeed(4);
    const model = new nn.Sequential(
      new nn.Conv2d(1, 4, 3, { padding: 1 }),
      new nn.BatchNorm2d(4),
      new nn.ReLU(),
      new nn.MaxPool2d(2),
      new nn.Flatten(),
      new nn.Linear(4 * 4 * 4, 2),
    );
    const opt = new optim.AdamW(model.parameters(), { lr: 0.02 });
    const x = randn([16, 1, 8, 8]);
    const y = x
      .narrow(2, 0, 4)
      .mean([1, 2, 3])
      .gt(x.narrow(2, 4, 4).mean([1, 2, 3]))
      .to('int64');
    let loss: Tensor = zeros([]);
    for (let i = 0; i < 25; i++) {
      opt.zeroGrad();
      loss = crossEntropy(model.forward(x), y);
      loss.backward();
      opt.step();
    }
    expect(loss.item()).toBeLessThan(0.1);
  });
});

/** Members of a group in one process: the nth call of each member meets the nth of the others. */
function group(size: number): nn.ProcessGroup[] {
  const rounds: { all: Tensor[]; done: ((t: Tensor) => void)[] }[] = [];
  return Array.from({ length: size }, (_, rank) => {
    let calls = 0;
    const meet = (t: Tensor, combine: (all: Tensor[]) => Tensor): Promise<Tensor> => {
      const round = (rounds[calls++] ??= { all: [], done: [] });
      round.all[rank] = t;
      return new Promise((done) => {
        if (round.done.push(done) < size) return;
        const result = combine(round.all);
        for (const give of round.done) give(result);
      });
    };
    return {
      rank,
      size,
      allReduce: (t, op = 'sum') => meet(t, (all) => all.reduce((a, b) => a.add(b)).div(op === 'mean' ? size : 1)),
      broadcast: (t, from) => meet(t, (all) => all[from] as Tensor),
    };
  });
}

describe('DistributedDataParallel', () => {
  const x = randn([4, 3]);
  const y = randn([4, 2]);
  const loss = (model: { forward(t: Tensor): Tensor }, rows: [number, number]): Tensor =>
    model
      .forward(x.narrow(0, ...rows))
      .sub(y.narrow(0, ...rows))
      .square()
      .mean();

  it('averages gradients over the group', async () => {
    const members = group(2).map(
      (g) => new nn.DistributedDataParallel(new nn.Linear(3, 2), { group: g, bucketBytes: 8 }),
    );
    await Promise.all(members.map((m) => m.synchronize()));
    const [a, b] = members as [(typeof members)[0], (typeof members)[0]];
    expect(a.module.weight.equal(b.module.weight)).toBe(true);
    await Promise.all([a.backward(loss(a, [0, 2])), b.backward(loss(b, [2, 2]))]);
    const whole = new nn.Linear(3, 2);
    whole.loadStateDict(a.module.stateDict());
    loss(whole, [0, 4]).backward();
    for (const m of members) {
      expect(m.module.weight.grad?.allClose(whole.weight.grad as Tensor, { atol: 1e-6 })).toBe(true);
      expect(m.module.bias?.grad?.allClose(whole.bias?.grad as Tensor, { atol: 1e-6 })).toBe(true);
    }
  });

  it('gives each bucket to the hook once, last layers first, and takes what it answers', async () => {
    const model = new nn.DistributedDataParallel(new nn.Sequential(new nn.Linear(3, 2), new nn.Linear(2, 2)), {
      bucketBytes: 30,
    });
    const seen: { index: number; isLast: boolean; sizes: number[] }[] = [];
    model.registerCommHook('state', async (state, bucket) => {
      expect(state).toBe('state');
      seen.push({ index: bucket.index, isLast: bucket.isLast, sizes: bucket.parameters().map((p) => p.size) });
      expect(bucket.gradients().map((g) => g.size)).toEqual(bucket.parameters().map((p) => p.size));
      await Promise.resolve();
      return bucket.buffer().mul(0).add(bucket.index);
    });
    expect(() => model.registerCommHook(0, (_s, b) => b.buffer())).toThrow(/already registered/);
    await model.backward(loss(model, [0, 4]));
    expect(seen.map((s) => s.sizes)).toEqual([[2, 4], [2], [6]]);
    expect(seen.map((s) => [s.index, s.isLast])).toEqual([
      [0, false],
      [1, false],
      [2, true],
    ]);
    expect(model.module.parameters().map((p) => p.grad?.flatten().select(0, 0).item())).toEqual([2, 1, 0, 0]);
  });

  it('gives sparse gradients to the hook as they are', async () => {
    const model = new nn.DistributedDataParallel(new nn.Embedding(5, 2, { sparse: true }));
    model.registerCommHook(null, (_s, bucket) => {
      expect(bucket.buffer().layout).toBe('sparse_coo');
      return bucket.buffer().mul(2);
    });
    await model.backward(model.forward(tensor([1, 3])).sum());
    expect(model.module.weight.grad?.toDense().sum(1).toArray()).toEqual([0, 4, 0, 4, 0]);
  });

  it('combines gradients that were collected elsewhere', async () => {
    const members = group(2).map((g) => new nn.DistributedDataParallel(new nn.Linear(3, 2), { group: g }));
    const [a, b] = members as [(typeof members)[0], (typeof members)[0]];
    const one = new Map([[a.module.weight, zeros([2, 3]).add(1)]]);
    const none = new Map<Tensor, Tensor>();
    const [left, right] = await Promise.all([a.reduceGradients(one), b.reduceGradients(none)]);
    expect(left.get(a.module.weight)?.toArray()).toEqual([
      [0.5, 0.5, 0.5],
      [0.5, 0.5, 0.5],
    ]);
    expect(right.get(b.module.weight)?.equal(left.get(a.module.weight) as Tensor)).toBe(true);
    expect(a.module.weight.grad).toBeNull();
  });

  it('agrees on sparse gradients that only some workers have', async () => {
    const members = group(2).map(
      (g) =>
        new nn.DistributedDataParallel(
          new nn.Sequential(new nn.Embedding(4, 2, { sparse: true }), new nn.Linear(2, 1)),
          { group: g },
        ),
    );
    await Promise.all(members.map((m) => m.synchronize()));
    const [a, b] = members as [(typeof members)[0], (typeof members)[0]];
    const [, top] = b.module.parameters() as [Tensor, Tensor];
    const bias = b.module.parameters()[2] as Tensor;
    await Promise.all([a.backward(a.forward(tensor([1, 3])).sum()), b.backward(top.sum().add(bias.sum()))]);
    for (const [i, p] of a.module.parameters().entries())
      expect(p.grad?.allClose(b.module.parameters()[i]?.grad as Tensor)).toBe(true);
    expect((b.module.parameters()[0]?.grad as Tensor).toDense().ne(0).sum(1).toArray()).toEqual([0n, 2n, 0n, 2n]);
  });

  it('joins workers with unequal numbers of batches', async () => {
    const members = group(3).map(
      (g) => new nn.DistributedDataParallel(new nn.Linear(3, 2), { group: g, bucketBytes: 8 }),
    );
    await Promise.all(members.map((m) => m.synchronize()));
    const reference = new nn.Linear(3, 2);
    reference.loadStateDict((members[0] as (typeof members)[0]).module.stateDict());
    const batches = [3, 1, 2];
    const work = members.map((m, rank) =>
      m.join(async () => {
        const optimizer = new optim.SGD(m.module.parameters(), { lr: 0.1 });
        for (let i = 0; i < (batches[rank] as number); i++) {
          optimizer.zeroGrad();
          await m.backward(loss(m, [i, 1]));
          optimizer.step();
        }
        return rank;
      }),
    );
    expect(await Promise.all(work)).toEqual([0, 1, 2]);
    const optimizer = new optim.SGD(reference.parameters(), { lr: 0.1 });
    for (let i = 0; i < 3; i++) {
      optimizer.zeroGrad();
      // All see batch i, those that have one; the others count as zeros in a mean over three.
      loss(reference, [i, 1])
        .mul(batches.filter((n) => n > i).length / 3)
        .backward();
      optimizer.step();
    }
    for (const m of members) {
      expect(m.module.weight.allClose(reference.weight, { atol: 1e-6 })).toBe(true);
      expect(m.module.bias?.allClose(reference.bias as Tensor, { atol: 1e-6 })).toBe(true);
    }
  });

  it('refuses passes that nothing would combine: every worker would train alone and none would know', async () => {
    const model = new nn.DistributedDataParallel(new nn.Linear(3, 2));
    await expect(model.backward(loss(model, [0, 4]))).rejects.toThrow(/nothing combines.*group: processGroup\(\)/);
    await expect(model.reduceGradients(new Map())).rejects.toThrow(TypeError);
    await expect(model.synchronize()).rejects.toThrow(/nobody to copy from/);
    expect(model.module.weight.grad).toBeNull();
    model.registerCommHook(null, (_s, bucket) => bucket.buffer());
    await model.backward(loss(model, [0, 4]));
  });

  it('refuses a step by gradients that one worker alone has', async () => {
    const members = group(2).map((g) => new nn.DistributedDataParallel(new nn.Linear(3, 2), { group: g }));
    const steps = members.map((m) => new optim.SGD(m.parameters(), { lr: 0.1 }));
    const weights = (): unknown[] => members.map((m) => m.module.weight.toArray());
    await Promise.all(members.map((m) => m.synchronize()));
    const before = weights();
    for (const [i, m] of members.entries()) {
      loss(m, [i, 1]).backward();
      expect(() => (steps[i] as optim.SGD).step()).toThrow(/this worker alone has .*await model.backward\(loss\)/);
    }
    expect(weights()).toEqual(before);
    // Of several batches, the last of which sends them; with others of the next pass before the step.
    await Promise.all(members.map((m, i) => m.backward(loss(m, [i, 2]))));
    noGrad(() => members.map((m) => loss(m, [0, 1])));
    for (const m of members) loss(m, [1, 1]);
    for (const optimizer of steps) optimizer.step();
    const [one, other] = weights();
    expect(one).toEqual(other);
    expect(one).not.toEqual(before[0]);
    // What is stepped apart on purpose, gradients that are given, and replicas with nobody beside them.
    const [first] = members as [(typeof members)[0]];
    const [optimizer] = steps as [optim.SGD];
    optimizer.step(first.parameters().map((p) => p.grad));
    const alone = new nn.DistributedDataParallel(new nn.Linear(3, 2));
    loss(alone, [0, 4]).backward();
    new optim.SGD(alone.parameters(), { lr: 0.1 }).step();
    await Promise.all(members.map((m, i) => m.backward(loss(m, [i, 2]))));
    optimizer.zeroGrad();
    loss(first.module, [0, 1]).backward();
    optimizer.step();
    // What the program has combined by itself, and a worker that goes on alone after a pass that failed.
    loss(first, [0, 1]).backward();
    for (const p of first.parameters()) p.grad = (p.grad as Tensor).mul(0.5);
    optimizer.step();
    first.fail(new Error('the group is gone'));
    await expect(first.backward(loss(first, [0, 1]))).rejects.toThrow('the group is gone');
    optimizer.zeroGrad();
    loss(first.module, [0, 1]).backward();
    optimizer.step();
  });

  it('rejects what does not fit, and keeps the local gradients', async () => {
    const model = new nn.DistributedDataParallel(new nn.Linear(3, 2));
    model.registerCommHook(null, () => zeros([1]));
    await expect(model.backward(loss(model, [0, 4]))).rejects.toThrow(/communication hook returned/);
    expect(model.module.weight.grad?.shape).toEqual([2, 3]);
  });
});

describe('errors', () => {
  it('name what is wrong', () => {
    expect(() => new nn.Linear(3, 2).forward(ones([4, 2]))).toThrow(
      /^nn\.Linear\(3, 2\) takes x \[\.\.\., 3\], got \[4, 2\]: mat1 and mat2 shapes cannot be multiplied \(4x2 and 3x2\)$/,
    );
    expect(() => new nn.Embedding(3, 2).forward(tensor([3]))).toThrow(/index 3 is out of bounds/);
    expect(() => new nn.Conv2d(2, 2, 3).forward(ones([1, 1, 5, 5]))).toThrow(/to have 2 channels, but got 1/);
    expect(() => new nn.Conv2d(1, 2, 7).forward(ones([1, 1, 5, 5]))).toThrow(/Kernel size can't be greater/);
    expect(() => new optim.SGD([], { lr: 1 })).toThrow(/empty parameter list/);
    expect(() => new optim.SGD([zeros([1])], { lr: -1 })).toThrow(/Invalid learning rate/);
    expect(() => new optim.SGD([zeros([1])], { lr: 1 }).step([])).toThrow(/was given 0 gradients/);
  });
});

describe('names that are none', () => {
  it('are refused, not taken for the default', () => {
    const names = { padding: 'foo' } as never;
    for (const Layer of [nn.Conv1d, nn.Conv2d, nn.Conv3d])
      expect(() => new Layer(1, 1, 3, names)).toThrow(
        /^nn\.Conv\dd: options\.padding is .*'same' or 'valid', got the text 'foo'$/,
      );
    expect(() => new nn.GELU({ approximate: 'foo' as 'tanh' })).toThrow(
      "nn.GELU: options.approximate is 'none' or 'tanh', got the text 'foo'",
    );
    expect(() => new nn.EmbeddingBag(3, 2, { mode: 'most' as 'max' })).toThrow(/^nn.EmbeddingBag: options.mode is /);
  });
});
