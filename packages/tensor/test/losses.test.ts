/** @file Losses at the edge of what they are for: probabilities that are none, distances that are nearly nothing. */
import { describe, expect, it } from 'vitest';
import {
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  complex,
  crossEntropy,
  DTypeError,
  gaussianNllLoss,
  grad,
  imag,
  multilabelSoftMarginLoss,
  marginRankingLoss,
  nn,
  poissonNllLoss,
  real,
  softMarginLoss,
  tensor,
  tripletMarginLoss,
  zeros,
  type Tensor,
} from '../src/index.ts';

describe('binaryCrossEntropy', () => {
  const half = tensor([0.5, 0.5]);
  it.each([-0.25, 1.0009765625, Infinity, NaN])(
    'refuses %d as a probability, and names the loss of logits',
    (wrong) => {
      const given = tensor([0.5, wrong]);
      const text = (what: string) =>
        `all elements of ${what} should be between 0 and 1, but got ${wrong}; for logits there is binaryCrossEntropyWithLogits`;
      expect(() => binaryCrossEntropy(given, half)).toThrow(text('input'));
      expect(() => binaryCrossEntropy(half, given)).toThrow(text('target'));
      expect(() => new nn.BCELoss().forward(given, half)).toThrow(text('input'));
    },
  );

  it('takes both ends', () => {
    expect(binaryCrossEntropy(tensor([0, 1]), tensor([0, 1])).item()).toBe(0);
    expect(binaryCrossEntropy(tensor([0, 1]), tensor([1, 0])).item()).toBe(100);
    expect(binaryCrossEntropy(zeros([0]), zeros([0]), { reduction: 'sum' }).item()).toBe(0);
  });
});

describe('tensors among the options of a loss', () => {
  it('are those of its state: they move with it, and what is loaded counts', () => {
    const loss = new nn.CrossEntropyLoss({ weight: tensor([1, 2]), ignoreIndex: 0, reduction: 'sum' });
    const logits = tensor([[0, 0]], { dtype: 'float64' });
    expect(
      loss
        .double()
        .forward(logits, tensor([1n]))
        .item(),
    ).toBeCloseTo(2 * Math.LN2, 12);
    loss.loadStateDict(new Map([['weight', tensor([1, 5])]]));
    expect(loss.forward(logits, tensor([1n])).item()).toBeCloseTo(5 * Math.LN2, 12);
    expect(loss.forward(logits, tensor([0n])).item()).toBe(0);
    const logit = new nn.BCEWithLogitsLoss({ posWeight: tensor([3]) });
    expect([...logit.stateDict().keys()]).toEqual(['pos_weight']);
    expect(logit.forward(tensor([0]), tensor([1])).item()).toBeCloseTo(3 * Math.LN2, 6);
  });

  it('are its own where the module is copied', () => {
    class Layer extends nn.TransformerEncoderLayer {
      readonly loss = new nn.CrossEntropyLoss({ weight: tensor([1, 2]) });
    }
    const layer = new Layer(2, 1);
    const stack = new nn.TransformerEncoder(layer, 2).double();
    const losses = stack.modules().filter((one) => one instanceof nn.CrossEntropyLoss);
    expect(losses.map((one) => one.forward(tensor([[0, 0]], { dtype: 'float64' }), tensor([1n])).dtype)).toEqual([
      'float64',
      'float64',
    ]);
    expect(layer.loss.forward(tensor([[0, 0]]), tensor([1n])).dtype).toBe('float32');
  });
});

describe('losses of logits', () => {
  const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
  const logits = [-90, -30, -15, -1, 0, 1, 15, 30, 90];
  /** The slope at each logit, one after the other. */
  const slopes = (loss: (x: Tensor) => Tensor): number[] =>
    logits.map((x) => {
      const at = tensor([x], { requiresGrad: true });
      return (grad([loss(at)], [at]) as [Tensor])[0].item();
    });
  const sum = { reduction: 'sum' } as const;
  const cases: [name: string, (x: Tensor) => Tensor, slope: (x: number) => number][] = [];
  for (const weight of [undefined, 3])
    for (const target of [0, 0.5, 1])
      cases.push([
        `binaryCrossEntropyWithLogits of ${target}, factor ${weight}`,
        (x) =>
          binaryCrossEntropyWithLogits(x, tensor([target]), {
            ...sum,
            ...(weight !== undefined && { posWeight: tensor([weight]) }),
          }),
        (x) => (1 - target) * sigmoid(x) - target * (weight ?? 1) * sigmoid(-x),
      ]);
  for (const sign of [-1, 1])
    cases.push([
      `softMarginLoss of ${sign}`,
      (x) => softMarginLoss(x, tensor([sign]), sum),
      (x) => -sign * sigmoid(-sign * x),
    ]);
  for (const target of [0, 1])
    cases.push([
      `multilabelSoftMarginLoss of ${target}`,
      (x) => multilabelSoftMarginLoss(x.reshape([1, 1]), tensor([[target]]), sum),
      (x) => (1 - target) * sigmoid(x) - target * sigmoid(-x),
    ]);

  it.each(cases)('%s: slopes are exact where the answer is certain', (_name, loss, slope) => {
    for (const [i, found] of slopes(loss).entries()) {
      const exact = slope(logits[i] as number);
      const about = `at ${logits[i]}: ${found}, not ${exact}`;
      expect(Math.abs(found - exact), about).toBeLessThanOrEqual(2e-6 * Math.abs(exact));
    }
  });

  /** How the slope of each case changes: as often as both answers count, sigmoid(x) sigmoid(-x). */
  const counts = new Map<string, number>();
  for (const weight of [undefined, 3])
    for (const target of [0, 0.5, 1])
      counts.set(`binaryCrossEntropyWithLogits of ${target}, factor ${weight}`, 1 - target + target * (weight ?? 1));
  const curves: typeof cases = [...cases, ['logSigmoid', (x) => x.logSigmoid().sum(), (x) => sigmoid(-x)]];

  it.each(curves)('%s: so are the slopes of the slopes', (name, loss) => {
    const count = name === 'logSigmoid' ? -1 : (counts.get(name) ?? 1);
    for (const x of logits) {
      const at = tensor([x], { requiresGrad: true });
      const [first] = grad([loss(at)], [at], { createGraph: true }) as [Tensor];
      const found = (grad([first.sum()], [at]) as [Tensor])[0].item();
      const exact = count * sigmoid(x) * sigmoid(-x);
      expect(Math.abs(found - exact), `at ${x}: ${found}, not ${exact}`).toBeLessThanOrEqual(2e-6 * Math.abs(exact));
    }
  });

  it('are smoothed by a share of the target', () => {
    const logits = tensor([[1, 2]]);
    for (const labelSmoothing of [-0.1, 1.5, NaN])
      expect(() => crossEntropy(logits, tensor([0n]), { labelSmoothing })).toThrow(
        `crossEntropy: labelSmoothing must be between 0 and 1, got ${labelSmoothing}`,
      );
    const evenly = crossEntropy(logits, tensor([[0.5, 0.5]])).item();
    expect(crossEntropy(logits, tensor([0n]), { labelSmoothing: 1 }).item()).toBeCloseTo(evenly, 6);
  });

  it('are as large as the logit where the answer is certain and wrong', () => {
    const wrong = tensor([-90]);
    for (const loss of [
      binaryCrossEntropyWithLogits(wrong, tensor([1])),
      softMarginLoss(wrong, tensor([1])),
      multilabelSoftMarginLoss(wrong.reshape([1, 1]), tensor([[1]])),
    ])
      expect(loss.item()).toBe(90);
  });
});

describe('tripletMarginLoss', () => {
  it('adds the margin before it takes the distance away, as PyTorch does, to the bit', () => {
    const loss = tripletMarginLoss(tensor([[0]]), tensor([[0]]), tensor([[1]]));
    expect(loss.item()).toBe(0.0000019669532775878906);
  });

  it('of complex numbers is real, with the values and slopes of PyTorch', () => {
    const a = complex(tensor([[1, 0.5]]), tensor([[2, -1]])).detach();
    a.requiresGrad = true;
    const b = complex(tensor([[0, 1]]), tensor([[0.5, 0]]));
    const c = complex(tensor([[1.5, -0.5]]), tensor([[-1, 0.25]]));
    const loss = tripletMarginLoss(a, b, c, { margin: 2 });
    expect([loss.dtype, loss.item()]).toEqual(['float32', expect.closeTo(0.6843888759613037, 5)]);
    loss.backward();
    const slope = a.grad as Tensor;
    for (const [part, values] of [
      [real(slope), [0.6169, -0.5267]],
      [imag(slope), [-0.1658, -0.1077]],
    ] as const)
      expect((part.toArray() as number[][])[0]).toEqual(values.map((value) => expect.closeTo(value, 3) as number));
    expect(tripletMarginLoss(a, b, c, { margin: 2, swap: true, p: 1 }).item()).toBeCloseTo(1.2787985801696777, 5);
  });
});

describe('marginRankingLoss', () => {
  const integers = ['uint8', 'int8', 'int16', 'int32', 'int64'] as const;
  it.each(integers)('of %s is float32, also with a whole margin and without a mean', (dtype) => {
    const [a, b, target] = [
      [7, 2],
      [3, 4],
      [1, 1],
    ].map((one) => tensor(one, { dtype })) as [Tensor, Tensor, Tensor];
    for (const options of [{}, { margin: 1 }, { margin: 0.5 }])
      for (const reduction of ['none', 'sum', 'mean'] as const)
        expect(marginRankingLoss(a, b, target, { ...options, reduction }).dtype).toBe('float32');
  });
});

describe('poissonNllLoss', () => {
  it('of complex numbers is complex, unless it has to tell which targets are large', () => {
    const [z, counts] = [complex(tensor([1, 2]), tensor([0, 0])), tensor([1, 3])];
    for (const target of [counts, complex(counts, zeros([2]))]) {
      const loss = poissonNllLoss(z, target);
      expect(loss.dtype).toBe('complex64');
      expect(real(loss).item()).toBeCloseTo((Math.exp(1) - 1 + Math.exp(2) - 6) / 2, 6);
    }
    expect(() => poissonNllLoss(z, complex(counts, zeros([2])), { full: true })).toThrow(DTypeError);
  });
});

describe('complex', () => {
  it('puts parts together whose shapes broadcast', () => {
    const z = complex(tensor([[1], [2]]), tensor([3, 4]));
    expect(z.shape).toEqual([2, 2]);
    expect(real(z).toArray()).toEqual([
      [1, 1],
      [2, 2],
    ]);
    expect(imag(z).toArray()).toEqual([
      [3, 4],
      [3, 4],
    ]);
    expect(complex(zeros([5, 0, 3]), tensor(0)).shape).toEqual([5, 0, 3]);
    expect(() => complex(zeros([2]), zeros([3]))).toThrow('must match the size');
  });
});

describe('gaussianNllLoss', () => {
  const input = (): Tensor =>
    tensor(
      [
        [
          [1, 2],
          [3, 4],
          [5, 6],
        ],
      ],
      { requiresGrad: true },
    );
  const target = tensor([
    [
      [0, 2.5],
      [3.5, 2],
      [5, 8],
    ],
  ]);

  it('takes one variance for all along any one dimension, with the numbers of PyTorch', () => {
    const [x, variance] = [input(), tensor([[[0.5, 2]]], { requiresGrad: true })];
    const loss = gaussianNllLoss(x, target, variance);
    expect(loss.item()).toBeCloseTo(0.5520833134651184, 6);
    const [, slope] = grad([loss], [x, variance]);
    const [first, second] = slope?.reshape([2]).toArray() as number[];
    expect(first).toBeCloseTo(0.08333331346511841, 6);
    expect(second).toBeCloseTo(-0.046875, 6);
  });

  it.each([[[1, 1, 1]], [[3, 2]], [[1, 3, 3]]])('refuses variances %j', (shape) => {
    expect(() => gaussianNllLoss(input(), target, zeros(shape).add(1))).toThrow(
      `gaussianNllLoss: var is of incorrect size: [${shape.join(', ')}]`,
    );
  });
});
