/** @file What cannot be packed or padded, in words. */
import { describe, expect, it } from 'vitest';
import { nn, ones, zeros } from '../index.ts';

const { packPaddedSequence, padSequence } = nn.utils.rnn;

describe('sequences', () => {
  it('are packed where there are some', () => {
    expect(() => packPaddedSequence(zeros([3, 0, 2]), [])).toThrow('Cannot pack empty tensors.');
  });

  it('are padded on one of two sides', () => {
    const parts = [ones([1]), ones([2])];
    expect(() => padSequence(parts, { paddingSide: 'LEFT' as 'left' })).toThrow(
      "paddingSide should be either 'right' or 'left', but got 'LEFT'",
    );
    expect(padSequence(parts, { paddingSide: 'left', batchFirst: true }).toArray()).toEqual([
      [0, 1],
      [1, 1],
    ]);
  });
});
