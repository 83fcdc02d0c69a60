/** @file What is wrong with an argument is said where it is given, and what PyTorch allows is allowed. */
import { describe, expect, it } from 'vitest';
import {
  adaptiveAvgPool2d,
  avgPool2d,
  backendName,
  bincount,
  bmm,
  complex,
  concat,
  conv2d,
  convTranspose2d,
  crossEntropy,
  det,
  diagEmbed,
  DTypeError,
  fromBytes,
  groupNorm,
  indexFill,
  loadSafetensors,
  matmul,
  maxPool2d,
  mseLoss,
  nn,
  noGrad,
  oneHot,
  ones,
  scope,
  setBackend,
  ShapeError,
  tensor,
  zeros,
} from '../src/index.ts';
import { storageFromBytes, tensorFromParts } from '../src/internal.ts';

describe('a tensor as one number', () => {
  it.each([
    ['several elements', () => tensor([1, 2]), 'a Tensor with 2 elements cannot be converted to Scalar'],
    ['no element', () => zeros([0]), 'a Tensor with 0 elements cannot be converted to Scalar'],
  ])('is not one of %s, which are to be read otherwise', async (_, make, says) => {
    const text = `${says}: item() is for one; use toArray() or data()`;
    expect(() => make().item()).toThrow(text);
    await expect(make().itemAsync()).rejects.toThrow(text);
  });

  it.each([
    [2n ** 53n + 1n, 'the int64 value 9007199254740993 is none that a number can hold: use toArray() or data()'],
    [-(2n ** 63n) + 1n, 'the int64 value -9223372036854775807 is none that a number can hold: use toArray() or data()'],
  ])('is not one of %s, which would be rounded', (value, says) => {
    expect(() => tensor([value], { dtype: 'int64' }).item()).toThrow(says);
    expect(tensor([2n ** 53n], { dtype: 'int64' }).item()).toBe(2 ** 53);
  });
});

describe('shapes and dtypes that do not fit', () => {
  const [two, three, matrix] = [() => ones([2]), () => ones([3]), () => ones([2, 3])];
  it.each<[run: () => unknown, says: string]>([
    [() => two().add(three()), 'add(): The size of tensor a (2) must match the size of tensor b (3)'],
    [() => two().add_(three()), 'add_(): The size of tensor a (2) must match'],
    [() => matmul(matrix(), matrix()), 'matmul(): mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)'],
    [() => new nn.Linear(3, 2).forward(ones([2, 2])), 'nn.Linear(3, 2) takes x [..., 3], got [2, 2]'],
    [() => matrix().sort(5), 'sort(): Dimension out of range'],
    [() => matrix().sum(5), 'sum(): Dimension out of range (expected to be in range of [-2, 1], but got 5)'],
    [() => two().view([3]), "view(): shape '[3]' is invalid for input of size 2"],
    [() => two().transpose(0, 1), 'transpose(): Dimension out of range'],
    [() => concat([two(), matrix()]), 'concat(): '],
    // Those that name themselves are named once.
    [() => nn.utils.vectorToParameters(three(), [two()]), 'vectorToParameters: expected a vector of 2 elements'],
    [() => mseLoss(two(), matrix()), 'mseLoss'],
  ])('%s names the operation, in the message and in the stack', (run, says) => {
    let thrown = new Error('nothing was thrown');
    try {
      run();
    } catch (error) {
      thrown = error as Error;
    }
    expect(thrown.message.slice(0, says.length)).toBe(says);
    expect(thrown.message).not.toMatch(/^[\w.]+\(\): [\w.]+\(\): /);
    expect(thrown.stack).toContain(thrown.message);
  });

  it('keeps what a program throws of these classes as it is', () => {
    const own = new ShapeError('mine');
    const fails = () => {
      throw own;
    };
    expect(() => noGrad(() => scope(fails))).toThrow(own);
    expect(own.message).toBe('mine');
  });
});

describe('positions and sizes', () => {
  const t = tensor([1, 2, 3, 4]);

  it.each<[name: string, run: () => unknown, says: string]>([
    ['slice from a fraction', () => t.slice(0, 0.5), 'slice indices must be whole numbers, but got 0.5'],
    ['slice to a fraction', () => t.slice(0, 0, 2.5), '2.5'],
    ['slice from NaN', () => t.slice(0, NaN), 'NaN'],
    ['slice by a fraction', () => t.slice(0, 0, 4, 1.5), 'slice step must be a positive whole number, but got 1.5'],
    ['expand to a fraction', () => tensor([1]).expand([1.5]), 'shape [1.5] has an invalid dimension'],
    ['expand to a negative size', () => tensor([1]).expand([-2]), 'shape [-2] has an invalid dimension'],
    ['tile a fraction of times', () => t.tile([1.5]), '1.5'],
    ['pad by a fraction', () => t.pad([0.5, 0.5]), 'pad: [0.5, 0.5] are not whole numbers'],
    ['roll by a fraction', () => t.roll(1.5), 'roll: the shift must be a whole number, but got 1.5'],
    ['topK of a fraction', () => t.topK(1.5), 'topK: k must be a whole number, but got 1.5'],
    ['oneHot of a fraction', () => oneHot(tensor([0n]), 1.5), 'shape [1.5] has an invalid dimension'],
    ['flip one dimension twice', () => t.flip([0, -1]), 'dim 0 appears multiple times in the list of dims'],
  ])('%s', (_, run, says) => {
    expect(run).toThrow(ShapeError);
    expect(run).toThrow(says);
  });

  it.each<[name: string, run: () => unknown, says: string]>([
    ['a size that is no number', () => zeros([2, undefined as never]), 'shape [2, undefined] has an invalid dimension'],
    ['two sizes to infer', () => t.reshape([-1, -1]), 'only one dimension can be inferred, but the shape is [-1, -1]'],
    [
      'sizes of nothing',
      () => t.split(undefined as never),
      'split expects a size or a list of sizes, but got undefined',
    ],
    [
      'more elements than can be',
      () =>
        ones([1])
          .expand([2 ** 20])
          .unsqueeze(1)
          .add(ones([1]).expand([2 ** 20])),
      'shape [1048576, 1048576] has too many elements',
    ],
    [
      'a product of too many',
      () =>
        ones([1, 1])
          .expand([2 ** 20, 1])
          .matmul(ones([1, 1]).expand([1, 2 ** 20])),
      'shape [1048576, 1048576] has too many elements',
    ],
    [
      'a count beyond all bounds',
      () => bincount(tensor([2n ** 50n])),
      'shape [1125899906842625] has too many elements',
    ],
    [
      'counts with too few weights',
      () => bincount(tensor([1n, 2n]), tensor([1])),
      'weights should be 1-d and have the same length as input, but got shapes [1] and [2]',
    ],
    ['a matrix of one dimension', () => det(t), 'det: A must have at least 2 dimensions, but has shape [4]'],
    ['a diagonal of nothing', () => diagEmbed(tensor(1)), 'diagEmbed: input tensor must have at least 1 dimension'],
    ['channels of nothing', () => groupNorm(t, 2), 'groupNorm expects [N, C, ...], got [4]'],
    [
      'images of one dimension',
      () => conv2d(t, ones([1, 1, 1, 1])),
      'conv2d: expected images [N, C, H, W] or [C, H, W], got [4]',
    ],
    [
      'a bias of another size',
      () => conv2d(ones([1, 1, 2, 2]), ones([3, 1, 1, 1]), { bias: t }),
      'expected a bias of 3 elements, got [4]',
    ],
    [
      'weights of some classes',
      () => crossEntropy(ones([1, 3]), tensor([0n]), { weight: t }),
      'the weight should be defined for all 3 classes, but has shape [4]',
    ],
    [
      'several indices into one element',
      () => tensor(1).indexSelect(0, tensor([0n, 0n])),
      'Index to scalar can have only 1 value, got 2 values',
    ],
    ['batches of other counts', () => bmm(ones([2, 1, 1]), ones([1, 1, 1])), 'to be: [2, 1] but got: [1, 1].'],
  ])('%s', (_, run, says) => {
    expect(run).toThrow(ShapeError);
    expect(run).toThrow(says);
  });

  it('are no bytes in an index, which PyTorch would take for a mask', () => {
    const bytes = tensor([1, 0, 1, 0], { dtype: 'uint8' });
    const says = "an index takes no uint8, which may be a mask or positions: convert it, a mask by to('bool')";
    for (const item of [bytes, bytes.select(0, 0)]) {
      expect(() => t.index([item])).toThrow(says);
      expect(() => t.clone().indexPut_([item], 5)).toThrow(says);
    }
    expect(t.index([bytes.to('bool')]).toArray()).toEqual([1, 3]);
    expect(t.index([bytes.to('int64')]).toArray()).toEqual([2, 1, 2, 1]);
  });

  it('of a tensor without dimensions are filled as often as they are given', () => {
    for (const places of [[], [0], [0, -1, 0]])
      for (const dim of [0, -1]) {
        const at = tensor(places, { dtype: 'int64', shape: [places.length] });
        const wanted = places.length === 0 ? 7 : 3;
        expect(indexFill(tensor(7), dim, at, 3).item()).toBe(wanted);
        expect(tensor(7).indexFill_(dim, at, 3).item()).toBe(wanted);
      }
    expect(() => tensor(7).indexFill_(0, tensor([1], { dtype: 'int64' }), 3)).toThrow(/out of bounds/);
  });

  it('windows', () => {
    const [image, weight] = [ones([1, 1, 4, 4]), ones([1, 1, 2, 2])];
    for (const run of [
      () => conv2d(image, weight, { stride: 0 }),
      () => conv2d(image, weight, { stride: [1, 1.5] }),
      () => convTranspose2d(image, weight, { stride: 0 }),
    ])
      expect(run).toThrow('stride must be whole numbers of at least 1');
    expect(() => conv2d(image, weight, { dilation: 0 })).toThrow('dilation must be whole numbers of at least 1');
    expect(() => conv2d(image, weight, { padding: -1 })).toThrow('padding must be whole numbers of at least 0');
    for (const kernel of [0, 1.5]) {
      expect(() => maxPool2d(image, kernel)).toThrow('kernel must be whole numbers of at least 1');
      expect(() => avgPool2d(image, kernel)).toThrow(`got [${kernel}, ${kernel}]`);
    }
    expect(() => maxPool2d(image, 2, { padding: 2 })).toThrow('pad should be at most half of effective kernel size');
    expect(() => adaptiveAvgPool2d(image, 1.5)).toThrow('shape [1.5, 1.5] has an invalid dimension');
  });
});

describe('values and names', () => {
  it('refuses what no tensor holds', () => {
    expect(() => tensor([undefined] as never)).toThrow('a tensor holds numbers, bigints and booleans, not undefined');
    expect(() => tensor([null] as never)).toThrow('not null');
    expect(() => tensor(['a'] as never)).toThrow("not a string ('a')");
    for (const make of [
      () => tensor([1], { dtype: 'float8' as never }),
      () => zeros([1], { dtype: 'constructor' as never }),
    ])
      expect(make).toThrow(DTypeError);
    expect(() => tensor([1], { dtype: 'float8' as never })).toThrow("unknown dtype 'float8'");
  });

  it('refuses backends that there are not, and keeps the one there is', async () => {
    const before = backendName();
    for (const name of ['toString', 'constructor', 'x'])
      await expect(setBackend(name as never)).rejects.toThrow(`setBackend is '${name}'; expected auto, cpu`);
    expect(backendName()).toBe(before);
  });
});

describe('arguments of another kind', () => {
  const t = ones([2, 2]);
  const loose = (value: unknown): never => value as never;

  it.each<[name: string, run: () => unknown, says: string]>([
    ['null for a list', () => t.repeat(loose(null)), 'repeat(): counts is a list of numbers, got null'],
    ['nothing for a list', () => t.flip(loose(undefined)), 'flip(): dims is a list of numbers, got undefined'],
    ['a text', () => t.movedim(loose('x'), 0), "movedim(): from is a number or a list of numbers, got the text 'x'"],
    ['a number for a tensor', () => t.expandAs(loose(2)), 'expandAs(): other is a Tensor, got 2'],
    // eslint-disable-next-line no-sparse-arrays -- a list without an element is what is given
    ['a hole in a list', () => t.permute(loose([, 0])), 'permute(): dims[0] is a number, got undefined'],
    ['a number for a switch', () => t.sum(0, loose(1)), 'sum(): keepDim is true or false, got 1'],
    ['an option', () => t.add(t, { alpha: loose('2') }), "add(): options.alpha is a number, got the text '2'"],
    [
      'a list for options',
      () => t.variance(0, loose([1])),
      'variance(): options is an object with correction, keepDim',
    ],
    ['a bigint', () => zeros(loose([2n])), 'shape [2] has an invalid dimension'],
    ['a layer', () => new nn.Linear(2, loose('3')), "nn.Linear: outFeatures is a number, got the text '3'"],
    [
      'a derived layer',
      () => new (class Mine extends nn.Linear {})(2, loose('3')),
      'nn.Linear: outFeatures is a number',
    ],
    ['a layer among layers', () => new nn.Sequential(loose(null)), 'nn.Sequential takes modules; number 0 is null'],
    ['what is called later', () => new nn.ReLU().forward(loose(null)), 'ReLU.forward() takes a tensor as operand 1'],
    ['half a size', () => t.split(1.5), 'split expects a positive whole size, but got 1.5'],
    ['more than memory', () => t.repeatInterleave(2 ** 53), 'has too many elements'],
  ])('are refused: %s', (_, run, says) => {
    expect(run).toThrow(says);
  });
});

describe('as PyTorch', () => {
  it('flips and finds in a tensor without dimensions', () => {
    expect(tensor(5).flip([0]).toArray()).toBe(5);
    expect(tensor([1, 2]).flip([]).toArray()).toEqual([1, 2]);
    const { values, indices } = tensor(5).topK(1);
    expect([values.toArray(), indices.toArray()]).toEqual([5, 0n]);
  });

  it('rolls the flattened tensor unless told a dimension', () => {
    const t = tensor([
      [1, 2],
      [3, 4],
    ]);
    expect(t.roll(1).toArray()).toEqual([
      [4, 1],
      [2, 3],
    ]);
    expect(t.roll(1, 0).toArray()).toEqual([
      [3, 4],
      [1, 2],
    ]);
    expect(tensor(5).roll(1).toArray()).toBe(5);
  });
});

describe('the determinant', () => {
  it.each<[values: number[][], gradient: number[][]]>([
    [[[0]], [[1]]],
    [
      [
        [1, 2],
        [2, 4],
      ],
      [
        [4, -2],
        [-2, 1],
      ],
    ],
    [
      [
        [0, 0, 0],
        [0, 2, 1],
        [0, 1, 3],
      ],
      [
        [5, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
      ],
    ],
    [
      [
        [1, 1, 1],
        [1, 1, 1],
        [1, 1, 1],
      ],
      [
        [0, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
      ],
    ],
  ])('has the cofactors of the singular matrix %j for its gradient', (values, gradient) => {
    const t = tensor(values, { requiresGrad: true });
    t.det().backward();
    expect(t.grad?.add(0).toArray()).toEqual(gradient);
  });

  it('has one for batches of which some are singular', () => {
    const t = tensor(
      [
        [
          [1, 2],
          [2, 4],
        ],
        [
          [2, 0],
          [0, 3],
        ],
      ],
      { requiresGrad: true, dtype: 'float64' },
    );
    t.det().sum().backward();
    expect(t.grad?.add(0).toArray()).toEqual([
      [
        [4, -2],
        [-2, 1],
      ],
      [
        [3, 0],
        [0, 2],
      ],
    ]);
  });
});

describe('bool bytes from elsewhere', () => {
  const odd = (): Uint8Array => Uint8Array.of(2, 255, 0);

  it('are zeros and ones', () => {
    const given = odd();
    const parts = { storage: storageFromBytes(odd()), dtype: 'bool', shape: [3], strides: [1], offset: 0 } as const;
    for (const t of [fromBytes(given, [3], 'bool'), tensorFromParts(parts)]) {
      expect(t.sum().toArray()).toBe(2n);
      expect([...t.dataSync()]).toEqual([1, 1, 0]);
      expect(t.eq(tensor([true, true, false])).toArray()).toEqual([true, true, true]);
    }
    // The caller's own bytes stay as they are.
    expect(given).toEqual(odd());
  });

  it('are so in files too', () => {
    const header = new TextEncoder().encode('{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}');
    const file = new Uint8Array(8 + header.length + 3);
    new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
    file.set(header, 8);
    file.set(odd(), 8 + header.length);
    expect([...(loadSafetensors(file).tensors.get('a')?.dataSync() ?? [])]).toEqual([1, 1, 0]);
  });
});

describe('complex numbers', () => {
  it('have a size where its square overflows, and quotients by zero', () => {
    const t = complex(tensor([1e30, 3, 0]), tensor([1e30, 4, 0]));
    expect([...t.abs().dataSync()]).toEqual([Math.fround(Math.hypot(Math.fround(1e30), Math.fround(1e30))), 5, 0]);
    const one = complex(tensor([1]), tensor([0]));
    expect([...one.div(complex(tensor([0]), tensor([0]))).dataSync()]).toEqual([Infinity, NaN]);
  });
});

describe('what is no mistake', () => {
  it('are arguments of layers that take none, as keywords of PyTorch are', () => {
    const made = nn.ReLU as unknown as new (...args: unknown[]) => nn.ReLU;
    for (const args of [[undefined], [true], [{ inplace: true }]])
      expect(new made(...args).forward(tensor([-1, 2])).toArray()).toEqual([0, 2]);
  });

  it('is what follows the parameters that a name tells of', () => {
    expect(new nn.Softplus(0.5, 20).forward(tensor([-1])).item()).toBeCloseTo(0.948154, 5);
    expect(new nn.Softplus().forward(tensor([-1])).item()).toBeCloseTo(0.313262, 5);
  });
});
