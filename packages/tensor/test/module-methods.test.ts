/** @file What programs do with whole modules: conversions, visits, hooks, copies, and weights to begin with. */
import { describe, expect, it } from 'vitest';
import { manualSeed, nn, ones, optim, randn, tensor, type Tensor } from '../src/index.ts';

const model = (): nn.Sequential<[nn.Linear, nn.BatchNorm1d]> =>
  new nn.Sequential(new nn.Linear(3, 2), new nn.BatchNorm1d(2));

describe('a module', () => {
  it('is converted in place, with its buffers and gradients, and the optimiser goes on', () => {
    const net = model();
    const optimizer = new optim.SGD(net.parameters(), { lr: 0.1 });
    net
      .forward(randn([4, 3]))
      .sum()
      .backward();
    net.double();
    expect(new Set([...net.stateDict().values()].map((t) => t.dtype))).toEqual(new Set(['float64', 'int64']));
    expect(net.parameters().every((p) => p.grad?.dtype === 'float64' && p.isLeaf && p.requiresGrad)).toBe(true);
    const before = net.parameters()[0]?.clone() as Tensor;
    optimizer.zeroGrad();
    net
      .forward(randn([4, 3], { dtype: 'float64' }))
      .square()
      .sum()
      .backward();
    optimizer.step();
    expect(net.parameters()[0]?.equal(before)).toBe(false);
  });

  it('lists what is inside, and visits children before their parents', () => {
    const net = model();
    expect(net.namedModules().map(([path]) => path)).toEqual(['', '0', '1']);
    expect(net.namedBuffers().map(([path]) => path)).toEqual([
      '1.running_mean',
      '1.running_var',
      '1.num_batches_tracked',
    ]);
    const seen: string[] = [];
    net.apply((one) => void seen.push(one.constructor.name));
    expect(seen).toEqual(['Linear', 'BatchNorm1d', 'Sequential']);
    net.requiresGrad_(false);
    expect(net.parameters().some((p) => p.requiresGrad)).toBe(false);
  });

  it('calls hooks around forward until they are removed', () => {
    const layer = new nn.Linear(2, 2);
    const x = ones([1, 2]);
    const plain = layer.forward(x).toArray();
    const names = [...layer.stateDict().keys()];
    const removeBefore = layer.registerForwardPreHook((_, [t]) => [(t as Tensor).mul(0)]);
    const removeAfter = layer.registerForwardHook((_, __, out) => (out as Tensor).add(1));
    expect(layer.forward(x).toArray()).toEqual([layer.bias?.add(1).toArray()]);
    removeBefore();
    removeAfter();
    expect(layer.forward(x).toArray()).toEqual(plain);
    expect([...layer.stateDict().keys()]).toEqual(names);
  });

  it('calls hooks in the order they came in, all of them with the arguments that forward got', async () => {
    const seen: string[] = [];
    class Later extends nn.Module {
      async forward(x: Tensor): Promise<Tensor> {
        return Promise.resolve(x.mul(10));
      }
    }
    for (const module of [new nn.Identity(), new Later()]) {
      const note = (name: string) => (_: nn.Module, args: readonly unknown[]) =>
        void seen.push(`${name} ${(args[0] as Tensor).item()}`);
      module.registerForwardHook(note('after'));
      module.registerForwardPreHook(note('first'));
      module.registerForwardPreHook((_, [x]) => [(x as Tensor).add(1)]);
      module.registerForwardPreHook((_, [x]) => [(x as Tensor).mul(2)]);
      module.registerForwardPreHook(note('last'));
      module.registerForwardHook((_, __, y) => (y as Tensor).add(100));
      module.registerForwardHook((_, __, y) => (y as Tensor).mul(2));
      const factor = module instanceof Later ? 10 : 1;
      expect((await module.forward(tensor([1]))).toArray()).toEqual([2 * (4 * factor + 100)]);
    }
    expect(seen).toEqual(['first 1', 'last 4', 'after 4', 'first 1', 'last 4', 'after 4']);
    const wrong = new nn.Identity();
    wrong.registerForwardPreHook((() => ones([1])) as never);
    expect(() => wrong.forward(ones([1]))).toThrow(
      'a hook before forward gives a list of arguments, or nothing; got an object of class Tensor',
    );
  });

  it('may hold modules and parameters by name and by number', () => {
    class Net extends nn.Module {
      readonly heads = new nn.ModuleDict({ a: new nn.Linear(1, 1), b: new nn.Identity() });
      readonly list = new nn.ModuleList([new nn.Linear(1, 1, { bias: false })]);
      readonly scales = new nn.ParameterList([ones([1])]);
    }
    const net = new Net();
    expect([...net.stateDict().keys()]).toEqual(['heads.a.weight', 'heads.a.bias', 'list.0.weight', 'scales.0']);
    expect(net.heads.get('a')).toBeInstanceOf(nn.Linear);
  });
});

describe('weights to begin with', () => {
  it('have the bounds and deviations that their names promise', () => {
    manualSeed(1);
    const w = ones([200, 100]);
    const bound = Math.sqrt(6 / 300);
    nn.init.xavierUniform_(w);
    expect(w.abs().amax().item()).toBeLessThanOrEqual(bound);
    expect(w.std().item()).toBeCloseTo(bound / Math.sqrt(3), 2);
    nn.init.kaimingNormal_(w, { nonlinearity: 'relu' });
    expect(w.std().item()).toBeCloseTo(Math.SQRT2 / 10, 2);
    nn.init.truncNormal_(w, 0, 1, -1, 1);
    expect(w.abs().amax().item()).toBeLessThanOrEqual(1);
    nn.init.orthogonal_(w);
    const product = w.transpose(0, 1).matmul(w);
    expect(
      product.allClose(
        tensor(Array.from({ length: 100 }, (_, i) => Array.from({ length: 100 }, (__, j) => Number(i === j)))),
        { atol: 1e-5 },
      ),
    ).toBe(true);
  });
});
