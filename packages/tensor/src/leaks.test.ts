/** @file Leak reports and the budget of device memory. */
import { afterEach, describe, expect, it } from 'vitest';
import {
  backendName,
  findLeaks,
  memory,
  nn,
  optim,
  rand,
  scope,
  setMemoryBudget,
  tensor,
  type Tensor,
} from './index.ts';
import { deviceBytes } from './device-memory.ts';
import { limits } from './limits.ts';

const cache: Tensor[] = [];
afterEach(() => {
  for (const t of cache.splice(0)) t.dispose();
});

function remember(t: Tensor): void {
  cache.push(t.mul(2));
}

describe('findLeaks', () => {
  it('names what is still held and where it was made', async () => {
    const report = await findLeaks(() => {
      for (let i = 0; i < 3; i++) remember(rand([100]));
      return 'done';
    });
    expect(report.value).toBe('done');
    expect(report.leaks).toHaveLength(1);
    const [leak] = report.leaks;
    expect([leak?.count, leak?.bytes, leak?.example]).toEqual([3, 1200, 'float32 [100]']);
    expect(leak?.stack.split('\n')[0]).toMatch(/remember.*leaks\.test/);
    expect(String(report)).toMatch(
      /^3 tensors leaked\n3 of 1200 bytes, such as float32 \[100\], made at\n +at remember/,
    );
  });

  it('finds nothing in what is returned, disposed, unreachable or swept away', async () => {
    const report = await findLeaks(async () => {
      const kept = rand([10]);
      rand([10]).add(kept).dispose();
      kept.mul(3);
      scope(() => kept.exp().sum());
      await Promise.resolve();
      return { kept };
    });
    expect(String(report)).toBe('no tensors leaked');
    expect(report.value.kept.disposed).toBe(false);
  });

  it('finds nothing in training steps after the first', async () => {
    const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
    const optimizer = new optim.Adam(model.parameters());
    const [x, y] = [rand([5, 4]), rand([5, 2])];
    const step = (): void => {
      optimizer.zeroGrad();
      model.forward(x).sub(y).square().mean().backward();
      optimizer.step();
    };
    step();
    const { leaks } = await findLeaks(() => {
      for (let i = 0; i < 5; i++) step();
      optimizer.zeroGrad();
    });
    expect(leaks).toEqual([]);
  });

  it('watches no longer when the program throws', async () => {
    await expect(findLeaks(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
    const before = memory().tensors;
    tensor([1]).dispose();
    expect(memory().tensors).toBe(before);
  });
});

describe('setMemoryBudget', () => {
  it('bounds device memory by moving the oldest results to the host', () => {
    try {
      setMemoryBudget(2 ** 20);
      const a = rand([256, 256]);
      const results = Array.from({ length: 20 }, (_, i) => a.add(i).mul(2));
      // One result may be above the budget before the next kernel makes room.
      expect(deviceBytes()).toBeLessThanOrEqual(2 ** 20 + 2 * a.storage.nbytes);
      if (['wasm', 'blas'].includes(backendName())) expect(deviceBytes()).toBeGreaterThan(0);
      results.forEach((t, i) => expect(t.sub(a.mul(2)).mean().item()).toBeCloseTo(2 * i, 3));
    } finally {
      setMemoryBudget(limits.deviceHighBytes);
    }
    expect(() => setMemoryBudget(0)).toThrow(RangeError);
    expect(() => setMemoryBudget(NaN)).toThrow('a memory budget must be positive, got NaN');
  });
});
