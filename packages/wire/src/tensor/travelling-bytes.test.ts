/** @file What tensors of a message weigh, told without planning it, is what the plan then sends. */
import { describe, expect, it } from 'vitest';
import { ones, tensor, type Tensor } from '@backwire/tensor';
import { planTensors } from './plan.ts';
import { travellingBytes } from './travelling-bytes.ts';

/** What is sent, as the plan has it. */
function planned(tensors: readonly Tensor[]): number {
  const plan = planTensors(tensors);
  const bytes = plan.storages.reduce((sum, storage) => sum + storage.bytes.length, 0);
  plan.release();
  return bytes;
}

/** A reproducible source of numbers from 0 to 1. */
function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

describe('the bytes of tensors that travel', () => {
  it('are those of a view alone where only it travels, and of a shared storage once', () => {
    const table = ones([1_000, 100]);
    expect(travellingBytes([table])).toBe(400_000);
    expect(travellingBytes([table.select(0, 3)])).toBe(400);
    expect(travellingBytes([table.select(1, 3)])).toBe(4_000);
    expect(travellingBytes([table, table.view([100, 1_000])])).toBe(400_000);
    expect(travellingBytes([table.narrow(0, 0, 501)])).toBe(400_000);
    expect(travellingBytes([])).toBe(0);
  });

  it('are those of the parts of a sparse tensor', () => {
    const sparse = tensor([
      [0, 1],
      [2, 0],
    ]).toSparse();
    // Two values of four bytes, and two indices of eight for each.
    expect(travellingBytes([sparse])).toBe(planned([sparse]));
    expect(travellingBytes([sparse])).toBe(2 * 4 + 2 * 2 * 8);
  });

  it('are what the plan sends, whatever is drawn', () => {
    const next = random(5);
    for (let round = 0; round < 300; round++) {
      const tables = Array.from({ length: 3 }, () => ones([1 + Math.floor(next() * 60), 1 + Math.floor(next() * 60)]));
      const drawn = Array.from({ length: Math.floor(next() * 24) }, (): Tensor => {
        const table = tables[Math.floor(next() * tables.length)] as Tensor;
        const dim = next() < 0.5 ? 0 : 1;
        const size = table.shape[dim] as number;
        const from = Math.floor(next() * size);
        if (next() < 0.1) return table.toSparse();
        if (next() < 0.3) return table.select(dim, from);
        return next() < 0.5 ? table : table.narrow(dim, from, Math.floor(next() * (size - from + 1)));
      });
      expect(travellingBytes(drawn), `round ${round}`).toBe(planned(drawn));
    }
  });
});
