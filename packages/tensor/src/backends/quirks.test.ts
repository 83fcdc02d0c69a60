/** @file The table of quirks: that it is used, and that what it says of this machine's backends is so. */
import * as tfc from '@tensorflow/tfjs-core';
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { backendName } from '../index.ts';
import { backendFor } from '../ops/kernels.ts';
import { QUIRKS, usable } from './quirks.ts';

describe('the table of quirks', () => {
  it('names files that exist', () => {
    for (const { answer } of QUIRKS) {
      if (answer === 'avoid') continue;
      for (const [file] of answer.at.matchAll(/[\w/-]+\.ts/g))
        expect(existsSync(new URL(`../${file}`, import.meta.url)), file).toBe(true);
    }
  });

  it('keeps avoided kernels from being used', () => {
    expect(usable('wasm', 'ClipByValue')).toBe(false);
    expect(usable('blas', 'ClipByValue')).toBe(false);
    expect(usable('tensorflow', 'ClipByValue')).toBe(false);
    expect(usable('webgpu', 'ClipByValue')).toBe(true);
    expect(usable('wasm', 'Add')).toBe(true);
    if (backendName() === 'wasm') {
      expect(backendFor('ClipByValue', 'elementwise', 2 ** 30)).toBeUndefined();
      expect(backendFor('Add', 'elementwise', 2 ** 30)?.name).toBe('wasm');
    }
  });

  it.runIf(backendName() === 'wasm')('is right about wasm', () => {
    const [nan, one] = [tfc.tensor([NaN]), tfc.tensor([1])];
    for (const lossy of [tfc.maximum(one, nan), tfc.minimum(one, nan), tfc.clipByValue(nan, 0, 1), tfc.relu6(nan)])
      expect(lossy.dataSync()[0]).not.toBeNaN();
    expect(tfc.relu(nan).dataSync()[0]).toBeNaN();
    for (const kernel of ['UnsortedSegmentSum', 'Conv2DBackpropFilter', 'Complex'])
      expect(tfc.getKernel(kernel, 'wasm')).toBeUndefined();
  });
});
