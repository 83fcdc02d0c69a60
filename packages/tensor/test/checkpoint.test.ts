/** @file Activation checkpointing: the gradients of an uncheckpointed run to the bit, with less memory in between. */
import { describe, expect, it } from 'vitest';
import {
  checkpoint,
  customFunction,
  dropout,
  grad,
  manualSeed,
  memory,
  nn,
  noGrad,
  ones,
  rand,
  randn,
  scope,
  tensor,
  type Tensor,
} from '../src/index.ts';

/** The elements of gradients as bits. */
const bits = (list: readonly (Tensor | null)[]): unknown[] =>
  list.map((g) => (g === null ? null : [...new Uint8Array(g.contiguous().dataSync().slice().buffer)]));

const block = (width: number): nn.Module & { forward(x: Tensor): Tensor } =>
  new nn.Sequential(new nn.Linear(width, 4 * width), new nn.GELU(), new nn.Linear(4 * width, width));

/** Gradients of x and of the parameters, and the next random number. */
function gradients(
  run: (fn: (x: Tensor) => Tensor, x: Tensor) => Tensor,
  make: () => { fn: (x: Tensor) => Tensor; parameters: readonly Tensor[] },
): unknown[] {
  manualSeed(11);
  const { fn, parameters } = make();
  const x = randn([3, 8], { requiresGrad: true });
  const y = run(fn, x);
  y.mul(y).sum().backward();
  return [bits([y.detach(), x.grad, ...parameters.map((p) => p.grad)]), rand([4]).toArray()];
}

const functions: Record<string, () => { fn: (x: Tensor) => Tensor; parameters: readonly Tensor[] }> = {
  'a multilayer perceptron': () => {
    const net = block(8);
    return { fn: (x) => net.forward(x), parameters: net.parameters() };
  },
  'dropout, with the same mask': () => {
    const net = block(8);
    return { fn: (x) => dropout(net.forward(dropout(x, 0.4)), 0.5), parameters: net.parameters() };
  },
  'what saves its result, and changes in place': () => {
    const w = randn([8, 8], { requiresGrad: true });
    return { fn: (x) => x.matmul(w).sigmoid().mul(2).add_(1).exp().log().softmax(-1), parameters: [w] };
  },
  attention: () => {
    const layer = new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 16, dropout: 0.3 });
    return { fn: (x) => layer.forward(x.unsqueeze(0)).squeeze(0), parameters: layer.parameters() };
  },
  'a recurrent layer': () => {
    const layer = new nn.GRU(8, 8);
    return { fn: (x) => layer.forward(x)[0], parameters: layer.parameters() };
  },
  'a function with a derivative of its own': () => {
    const cube = customFunction({
      forward(ctx, x) {
        ctx.saveForBackward(x);
        return x.pow(3);
      },
      backward: (ctx, g) => [g.mul((ctx.saved[0] as Tensor).square()).mul(3)],
    });
    return { fn: (x) => cube(x.tanh()), parameters: [] };
  },
  'checkpoints inside': () => {
    const [a, b] = [block(8), block(8)];
    return {
      fn: (x) =>
        checkpoint((h: Tensor) => dropout(b.forward(h), 0.3), checkpoint((h: Tensor) => a.forward(h).tanh(), x).relu()),
      parameters: [...a.parameters(), ...b.parameters()],
    };
  },
};

describe('gradients are those of an uncheckpointed run, to the bit', () => {
  it.each(Object.entries(functions))('of %s', (_name, make) => {
    const plain = gradients((fn, x) => fn(x), make);
    expect(gradients((fn, x) => checkpoint(fn, x), make)).toEqual(plain);
  });

  it('of second derivatives', () => {
    const second = (run: (fn: (x: Tensor) => Tensor, x: Tensor) => Tensor): unknown[] => {
      const x = tensor([0.3, -1.2, 2], { requiresGrad: true });
      const y = run((t) => t.sin().mul(t.exp()), x);
      const [first] = grad([y.sum()], [x], { createGraph: true });
      const [next] = grad([(first as Tensor).square().sum()], [x]);
      return bits([first as Tensor, next as Tensor]);
    };
    expect(second((fn, x) => checkpoint(fn, x))).toEqual(second((fn, x) => fn(x)));
  });

  it('with several inputs and results, and what is no tensor', () => {
    const [a, b] = [tensor([1, 2], { requiresGrad: true }), tensor([3, 4], { requiresGrad: true })];
    const { product, power } = checkpoint(
      (x: Tensor, y: Tensor, n: number) => ({ product: x.mul(y), power: x.pow(n) }),
      a,
      b,
      3,
    );
    product.add(power).sum().backward();
    expect(a.grad?.toArray()).toEqual([6, 16]);
    expect(b.grad?.toArray()).toEqual([1, 2]);
  });

  it('of parameters alone, where no input wants one', () => {
    const net = block(4);
    const x = ones([2, 4]);
    net.forward(x).sum().backward();
    const plain = bits(net.parameters().map((p) => p.grad));
    net.zeroGrad();
    checkpoint((t: Tensor) => net.forward(t), x)
      .sum()
      .backward();
    expect(bits(net.parameters().map((p) => p.grad))).toEqual(plain);
  });
});

describe('the second run', () => {
  const counting = (): { runs: () => number; fn: (x: Tensor) => Tensor } => {
    let runs = 0;
    return {
      runs: () => runs,
      fn: (x) => {
        runs++;
        return x.exp().mul(x).tanh();
      },
    };
  };

  it('is one, in the backward pass, and none without gradients', () => {
    const { fn, runs } = counting();
    const x = tensor([1, 2], { requiresGrad: true });
    const y = checkpoint(fn, x);
    expect(runs()).toBe(1);
    y.sum().backward();
    expect(runs()).toBe(2);
    noGrad(() => checkpoint(fn, x));
    expect(runs()).toBe(3);
  });

  it('serves the passes of a graph that is retained', () => {
    const { fn, runs } = counting();
    const x = tensor([1, 2], { requiresGrad: true });
    const y = checkpoint(fn, x).sum();
    y.backward(undefined, { retainGraph: true });
    const once = x.grad?.toArray() as number[];
    y.backward();
    expect(x.grad?.toArray()).toEqual(once.map((g) => 2 * g));
    expect(runs()).toBe(2);
    expect(() => y.backward()).toThrow('second time');
  });

  it('leaves the random numbers of the program alone', () => {
    const numbers = (run: boolean): unknown => {
      manualSeed(5);
      const y = checkpoint((t: Tensor) => dropout(t.exp(), 0.5), ones([4], { requiresGrad: true }));
      if (run) y.sum().backward();
      return rand([3]).toArray();
    };
    expect(numbers(true)).toEqual(numbers(false));
  });
});

describe('memory', () => {
  const LAYERS = 6;
  /** Bytes that live between the forward and the backward pass of a stack of blocks, without parameters and input. */
  function alive(run: (fn: (x: Tensor) => Tensor, x: Tensor) => Tensor): number {
    return scope(() => {
      const layers = Array.from({ length: LAYERS }, () => block(16));
      const x = randn([32, 16], { requiresGrad: true });
      const before = memory().bytes;
      const loss = scope(() => layers.reduce<Tensor>((h, layer) => run((t) => layer.forward(t), h), x).sum());
      const bytes = memory().bytes - before;
      loss.backward();
      return bytes;
    });
  }

  it('between the passes is that of the inputs of the blocks', () => {
    const plain = alive((fn, x) => scope(() => fn(x)));
    const own = alive((fn, x) => checkpoint(fn, x));
    // A block's input has 32 × 16 elements; of what it keeps, those inside have 32 × 64.
    expect(own).toBeLessThanOrEqual((LAYERS + 1) * 32 * 16 * 4);
    expect(plain).toBeGreaterThan(4 * own);
  });

  it('after the backward pass is that before the forward pass', () => {
    scope(() => {
      const net = block(16);
      const x = randn([32, 16], { requiresGrad: true });
      const step = (): void =>
        scope(() => {
          checkpoint((t: Tensor) => net.forward(t), x)
            .sum()
            .backward();
          for (const t of [x, ...net.parameters()]) {
            t.grad?.dispose();
            t.grad = null;
          }
        });
      step();
      const { bytes, storages } = memory();
      for (let i = 0; i < 3; i++) step();
      expect(memory()).toMatchObject({ bytes, storages });
    });
  });

  it('after a function that throws is that before it', () => {
    const x = randn([32, 16], { requiresGrad: true });
    const { bytes } = memory();
    expect(() =>
      checkpoint((t: Tensor) => {
        t.exp().tanh();
        throw new Error('no');
      }, x),
    ).toThrow('no');
    expect(memory().bytes).toBe(bytes);
  });
});

describe('refusals', () => {
  it('of a function that does something else the second time', () => {
    let runs = 0;
    const x = tensor([1, 2], { requiresGrad: true });
    const shapes = checkpoint((t: Tensor) => (runs++ === 0 ? t.exp() : t.repeat([2]).exp()), x);
    expect(() => shapes.sum().backward()).toThrow('float32 [2] when the function ran first and float32 [4]');
    runs = 0;
    const counts = checkpoint((t: Tensor) => (runs++ === 0 ? t.exp() : t.exp().tanh()), x);
    expect(() => counts.sum().backward()).toThrow('saved 1 tensors for the backward pass when it ran first and 2');
  });

  it('of an input that changed in between', () => {
    const x = tensor([1, 2], { requiresGrad: true }).mul(1);
    const y = checkpoint((t: Tensor) => t.exp(), x);
    noGrad(() => x.add_(1));
    expect(() => y.sum().backward()).toThrow('modified by an inplace operation');
  });

  it('of a value that its own function changes after it was saved', () => {
    const x = tensor([1, 2], { requiresGrad: true });
    const y = checkpoint((t: Tensor) => {
      const h = t.exp();
      const out = h.mul(1).add(1);
      h.add_(1);
      return out;
    }, x);
    expect(() => y.sum().backward()).toThrow('modified by an inplace operation');
  });

  it('of promises, and of a backward pass inside', () => {
    const x = tensor([1, 2], { requiresGrad: true });
    expect(() => checkpoint(async (t: Tensor) => Promise.resolve(t), x)).toThrow('must be synchronous');
    expect(() => checkpoint((t: Tensor) => grad([t.exp().sum()], [t])[0], x)).toThrow('runs a backward pass');
  });
});
