import { processorMs } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { BufferPool, IncomingTensors } from '../internal.ts';

const MIB = 1024 * 1024;
const PIECE = MIB;

/** Lets a storage of `nbytes` arrive in pieces; what memory was taken for it, in MiB, and the storage. */
function arrive(nbytes: number, pool: BufferPool = new BufferPool()): { taken: number[]; bytes: Uint8Array } {
  const taken: number[] = [];
  const take = pool.take.bind(pool);
  pool.take = (size) => {
    taken.push(size / MIB);
    return take(size);
  };
  const strides = [1];
  const about = { dtype: 'uint8', shape: [nbytes], strides, offset: 0, storage: 0, requiresGrad: false };
  const table = {
    storages: [{ nbytes, placement: 'body' }],
    tensors: [{ ...about, device: 'cpu' }],
  } as const;
  const incoming = new IncomingTensors(table, new Uint8Array(0), 0, 0, pool);
  expect(taken).toEqual([]);
  for (let at = 0; at < nbytes; at += PIECE) {
    const piece = incoming.place(0, at, Math.min(PIECE, nbytes - at));
    // The first and last byte of each piece tell it from the others; the rest stays untouched, and so takes no memory.
    piece[0] = mark(at);
    piece[piece.length - 1] = mark(at + 7);
  }
  const [tensor] = incoming.tensors();
  const bytes = tensor?.dataSync() as Uint8Array;
  return { taken, bytes };
}

function mark(at: number): number {
  return (Math.floor(at / PIECE) % 240) + (at % PIECE);
}

describe('memory of a storage that arrives', () => {
  it.each([
    [1, [1 / MIB]],
    [8 * MIB - 1, [8 - 1 / MIB]],
    [8 * MIB, [8]],
    [8 * MIB + 1, [8, 8 + 1 / MIB]],
    [256 * MIB, [8, 256]],
    [512 * MIB, [8, 512]],
    [513 * MIB, [8, 513 / 4, 513]],
    [900 * MIB, [8, 225, 900]],
  ])('of %i bytes is taken as it comes, and hardly any twice', (nbytes, sizes) => {
    const { taken, bytes } = arrive(nbytes);
    expect(taken).toEqual(sizes);
    expect(taken.reduce((a, b) => a + b)).toBeLessThanOrEqual((nbytes / MIB) * 1.3 + 8);
    for (let at = 0; at < nbytes; at += PIECE) {
      const last = Math.min(at + PIECE, nbytes) - 1;
      if (last > at) expect(bytes[at]).toBe(mark(at));
      expect(bytes[last]).toBe(mark(at + 7));
    }
  });

  it('is a warm buffer at once where one is free', () => {
    const pool = new BufferPool();
    pool.give(pool.take(64 * MIB));
    expect(arrive(64 * MIB, pool).taken).toEqual([64]);
  });
});

describe('sparse indices that one number stands for', () => {
  /** A sparse tensor of `count` values, all of them at the one index that is in the message. */
  const arrives = (count: number, index: number): IncomingTensors => {
    const about = { offset: 0, storage: 0, requiresGrad: false, device: 'cpu' } as const;
    const indices = { ...about, dtype: 'int64', shape: [1, count], strides: [0, 0] };
    const values = { ...about, dtype: 'uint8', shape: [count], strides: [0] };
    const sparse = { indices, values, coalesced: false };
    const tensor = { ...about, dtype: 'uint8', shape: [5], strides: [], storage: -1, sparse };
    const bytes = new Uint8Array(BigInt64Array.of(BigInt(index)).buffer);
    return new IncomingTensors({ storages: [{ nbytes: 8, placement: 'inline' }], tensors: [tensor] }, bytes, 0, 8);
  };

  it('are looked at once, however many they are said to be', () => {
    let shape: readonly number[] | undefined;
    expect(processorMs(() => (shape = arrives(800_000_000, 4).tensors()[0]?.shape))).toBeLessThan(1_000);
    expect(shape).toEqual([5]);
  });

  it('are looked at all the same', () => {
    const incoming = arrives(1_000, 5);
    expect(() => incoming.tensors()).toThrow('a sparse index is outside dimension 0 of size 5');
    incoming.release();
  });
});
