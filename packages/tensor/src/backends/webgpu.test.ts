/** @file WebGPU: computes where there is an adapter, and says why where there is none. */
import { describe, expect, it } from 'vitest';
import { backendName, memory, setBackend, randn, TensorError } from '../index.ts';
import { openWebgpu } from './webgpu.ts';

const reason = reasonAgainst();

function reasonAgainst(): unknown {
  try {
    openWebgpu();
    return undefined;
  } catch (error) {
    return error;
  }
}

describe.skipIf(reason !== undefined)('with an adapter', { timeout: 300_000 }, () => {
  it('multiplies, adds and turns large tensors, in place too, and gives them back', async () => {
    const before = backendName();
    await setBackend('webgpu');
    expect(backendName()).toBe('webgpu');
    const [a, b] = [randn([100, 90]), randn([90, 80])];
    const product = a.matmul(b);
    const exact = a.to('float64').matmul(b.to('float64'));
    expect(product.to('float64').allClose(exact, { rtol: 1e-4, atol: 1e-4 })).toBe(true);
    expect(a.matmul(b.transpose(0, 1).contiguous().transpose(0, 1)).allClose(product, { atol: 1e-5 })).toBe(true);
    product.add_(1);
    expect(product.to('float64').allClose(exact.add(1), { rtol: 1e-4, atol: 1e-4 })).toBe(true);
    await setBackend(before as 'cpu');
    expect(product.to('float64').allClose(exact.add(1), { rtol: 1e-4, atol: 1e-4 })).toBe(true);
  });

  it('keeps nothing', async () => {
    const before = backendName();
    await setBackend('webgpu');
    const { bytes } = memory();
    for (let i = 0; i < 5; i++) {
      const [a, b] = [randn([100, 90]), randn([90, 80])];
      const product = a.matmul(b);
      product.dataSync();
      for (const t of [a, b, product]) t.dispose();
    }
    expect(memory().bytes).toBe(bytes);
    await setBackend(before as 'cpu');
  });
});

describe.skipIf(reason === undefined)('without an adapter', () => {
  it('says why, and leaves the backend as it was', async () => {
    const before = backendName();
    expect(reason).toBeInstanceOf(TensorError);
    await expect(setBackend('webgpu')).rejects.toThrow(
      /^the webgpu backend did not start: (no adapter: this machine|not installed: )/,
    );
    expect(backendName()).toBe(before);
    expect(randn([2, 2]).matmul(randn([2, 2])).shape).toEqual([2, 2]);
  });
});
