/** @file Losses at the edge of what they are for: probabilities that are none, distances that are nearly nothing. */
import { describe, expect, it } from 'vitest';
import {
  binaryCrossEntropy,
  complex,
  DTypeError,
  imag,
  nn,
  poissonNllLoss,
  real,
  tensor,
  tripletMarginLoss,
  zeros,
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

describe('tripletMarginLoss', () => {
  it('adds the margin before it takes the distance away, as PyTorch does, to the bit', () => {
    const loss = tripletMarginLoss(tensor([[0]]), tensor([[0]]), tensor([[1]]));
    expect(loss.item()).toBe(0.0000019669532775878906);
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
