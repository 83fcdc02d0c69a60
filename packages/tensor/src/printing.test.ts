/** @file What tensors and modules look like when they are printed. The layout of the elements is that of PyTorch 2.13, byte for byte. */
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { arange, complex, memory, nn, Parameter, tensor, zeros, type Tensor } from './index.ts';

/** So many zeros, as many in a line. */
function rows(count: number, perLine: number): string {
  const full = Array.from({ length: Math.floor(count / perLine) }, () => perLine);
  return [...full, count % perLine].map((n) => Array(n).fill('0.').join(', ')).join(',\n        ');
}

describe('a tensor is printed', () => {
  it.each<[string, () => Tensor, string]>([
    ['a number', () => tensor(3), 'tensor(3.)'],
    ['whole numbers', () => tensor([1, -20, 0]), 'tensor([  1., -20.,   0.])'],
    [
      'fractions in columns',
      () => tensor([[0.5, -2], [10.25, 3]]), // prettier-ignore
      'tensor([[ 0.5000, -2.0000],\n        [10.2500,  3.0000]])',
    ],
    ['halves rounded to even, as C does', () => tensor([0.03125, 0.09375]), 'tensor([0.0312, 0.0938])'],
    [
      'exponents where sizes differ much',
      () => tensor([1e-9, 1, -3e9], { dtype: 'float64' }),
      "tensor([ 1.0000e-09,  1.0000e+00, -3.0000e+09], { dtype: 'float64' })",
    ],
    ['halves in exponents', () => tensor([100005, 1]), 'tensor([1.0000e+05, 1.0000e+00])'],
    ['what is not finite', () => tensor([NaN, -Infinity, -0, 1]), 'tensor([NaN, -Infinity, -0., 1.])'],
    ['int64', () => tensor([1, 200], { dtype: 'int64' }), "tensor([  1, 200], { dtype: 'int64' })"],
    ['bool', () => tensor([true, false]), 'tensor([ true, false])'],
    ['half precision', () => tensor([0.1], { dtype: 'float16' }), "tensor([0.1000], { dtype: 'float16' })"],
    [
      'complex numbers',
      () => complex(tensor([1, -2.5]), tensor([0.5, -1])),
      "tensor([ 1.0000+0.5000j, -2.5000-1.0000j], { dtype: 'complex64' })",
    ],
    ['nothing', () => zeros([0]), 'tensor([])'],
    ['nothing of a shape', () => zeros([2, 0]), 'tensor([], { shape: [2, 0] })'],
    ['three dimensions', () => zeros([2, 1, 2]), 'tensor([[[0., 0.]],\n\n        [[0., 0.]]])'],
    [
      'more than a line holds',
      () => arange(0, 20).div(2),
      'tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000, 3.5000, 4.0000,\n        4.5000, 5.0000, 5.5000, 6.0000, 6.5000, 7.0000, 7.5000, 8.0000, 8.5000,\n        9.0000, 9.5000])',
    ],
    [
      'the edges of many',
      () => arange(0, 1001),
      "tensor([   0,    1,    2,  ...,  998,  999, 1000], { dtype: 'int64' })",
    ],
    ['a thousand in full', () => zeros([1000]), `tensor([${rows(1000, 24)}])`],
    [
      'a sparse one by its parts',
      () => tensor([[0, 3], [4, 0]]).toSparse(), // prettier-ignore
      "sparseCooTensor(\n  tensor([[0, 1],\n          [1, 0]], { dtype: 'int64' }),\n  tensor([3., 4.]),\n  [2, 2])",
    ],
    ['a leaf', () => tensor([1], { requiresGrad: true }), 'tensor([1.], { requiresGrad: true })'],
    ['a result', () => tensor([1], { requiresGrad: true }).mul(2), 'tensor([2.], { gradFn: <MulBackward0> })'],
    [
      'a parameter',
      () => new Parameter(tensor([0.5])),
      'Parameter containing:\ntensor([0.5000], { requiresGrad: true })',
    ],
  ])('with %s', (_, make, text) => {
    const t = make();
    expect(String(t)).toBe(text);
    expect(inspect(t)).toBe(text);
  });

  it('with a line of its own for what does not fit', () => {
    const t = zeros([17], { requiresGrad: true });
    expect(String(t)).toBe(`tensor([${Array(17).fill('0.').join(', ')}],\n       { requiresGrad: true })`);
  });

  it('when it is disposed of', () => {
    const t = zeros([2, 3]);
    t.dispose();
    expect(String(t)).toBe("Tensor(disposed, shape: [2, 3], dtype: 'float32')");
  });

  it('with the edges of both dimensions', () => {
    const lines = String(arange(0, 2500).reshape([50, 50])).split('\n');
    expect(lines[0]).toBe('tensor([[   0,    1,    2,  ...,   47,   48,   49],');
    expect(lines[3]).toBe('        ...,');
    expect(lines.slice(6)).toEqual(["        [2450, 2451, 2452,  ..., 2497, 2498, 2499]], { dtype: 'int64' })"]);
  });

  it('without leaving anything in memory, or in the graph', () => {
    const t = zeros([40, 40], { requiresGrad: true });
    const sparse = t.detach().toSparse();
    const waves = complex(t.detach(), t.detach());
    const before = memory();
    for (const one of [t, sparse, waves]) String(one);
    expect(memory()).toEqual(before);
    expect([t.disposed, t.isLeaf, t.grad]).toEqual([false, true, null]);
  });
});

it('what methods are found in is printed, too', () => {
  const { prototype } = Object.getPrototypeOf(zeros([1])).constructor as { prototype: object };
  expect([prototype, nn.Linear.prototype, nn.Module.prototype].map(String)).toEqual(['[object Object]', 'Linear()', 'Module()']); // prettier-ignore
});

describe('a module is printed', () => {
  it('without what has no end, also where a field throws, and as its class lists it, as it is saved', () => {
    class Odd extends nn.Module {
      readonly long = Array.from({ length: 1000 }, (_, i) => i);
      readonly text = 'x'.repeat(1000);
      readonly parts: nn.Module[] = [new nn.ReLU()];
      override namedChildren(): [string, nn.Module][] {
        return this.parts.map((part, i) => [`part${i}`, part]);
      }
    }
    expect(String(new Odd())).toBe(`Odd(\n  text: '${'x'.repeat(40)}…'\n  (part0): ReLU()\n)`);
    const listed = new Odd();
    listed.parts.push(new nn.Linear(1, 1));
    expect([...listed.stateDict().keys()]).toEqual(['part1.weight', 'part1.bias']);
    const broken = new Odd();
    Object.defineProperty(broken, 'field', {
      enumerable: true,
      get: () => {
        throw new Error('not to be looked at');
      },
    });
    expect(String(broken)).toBe('Odd(…)');
  });

  it('with the shapes of its tensors, its settings and what is inside', () => {
    class Net extends nn.Module {
      readonly layers = new nn.Sequential(
        new nn.Conv2d(1, 4, 3, { stride: 2 }),
        new nn.LeakyReLU(0.2),
        new nn.Dropout(),
      );
      readonly rate = 0.1;
      readonly outer = this;
      readonly count = this.registerBuffer('count', zeros([]));
    }
    const text = [
      'Net(',
      '  count: [], rate: 0.1',
      '  (layers): Sequential(',
      '    (0): Conv2d(weight: [4, 1, 3, 3], bias: [4], stride: 2)',
      '    (1): LeakyReLU(0.2)',
      '    (2): Dropout(p: 0.5)',
      '  )',
      '  (outer): Net(…)',
      ')',
    ].join('\n');
    expect(String(new Net())).toBe(text);
    expect(inspect(new Net())).toBe(text);
  });

  it.each<[nn.Module, string]>([
    [new nn.ReLU(), 'ReLU()'],
    [new nn.BatchNorm1d(2, { affine: false }), 'BatchNorm1d(running_mean: [2], running_var: [2], num_batches_tracked: [], momentum: 0.1, eps: 0.00001)'], // prettier-ignore
    [new nn.Embedding(3, 2, { paddingIdx: 1 }), 'Embedding(weight: [3, 2], paddingIdx: 1)'],
    [new nn.GRU(1, 1, { bias: false, bidirectional: true }), 'GRU(weight_ih_l0: [3, 1], weight_hh_l0: [3, 1], weight_ih_l0_reverse: [3, 1], weight_hh_l0_reverse: [3, 1], numLayers: 1, batchFirst: false, dropout: 0, bidirectional: true)'], // prettier-ignore
  ])('%s', (module, text) => {
    expect(String(module)).toBe(text);
  });
});
