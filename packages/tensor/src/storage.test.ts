/** @file Storage: owners, pins, in-place changes while bytes are read, and memory on the device. */
import { describe, expect, it } from 'vitest';
import {
  arange,
  backendName,
  fromBytes,
  matmul,
  memory,
  noGrad,
  ones,
  optim,
  rand,
  tensor,
  zeros,
  type Tensor,
} from './index.ts';
import { type Storage, storageFromBytes, tensorFromParts } from './internal.ts';
import { deviceBytes, evictAll, setMemoryBudget } from './device-memory.ts';
import { limits } from './limits.ts';

function pooled(bytes: Uint8Array): { storage: Storage; freed: Uint8Array[] } {
  const freed: Uint8Array[] = [];
  return { storage: storageFromBytes(bytes, { onFree: (b) => freed.push(b) }), freed };
}

describe('Storage', () => {
  it('gives memory back once the last owner and the last message are gone', () => {
    const { storage, freed } = pooled(new Uint8Array(16));
    const t = tensorFromParts({ storage, dtype: 'float32', shape: [4], strides: [1], offset: 0 });
    const view = t.narrow(0, 1, 2);
    storage.pinIo();
    t.dispose();
    view.dispose();
    expect(freed).toHaveLength(0);
    storage.unpinIo();
    expect(freed).toHaveLength(1);
    expect(() => storage.hostBytes()).toThrow(/freed/);
  });

  it('lets go of memory of which it has a part, in a loop that never yields', () => {
    let most = 0;
    for (let i = 0; i < 400; i++) {
      fromBytes(new Uint8Array(4 * 2 ** 20).subarray(64, 128), [16], 'float32');
      most = Math.max(most, process.memoryUsage().arrayBuffers);
    }
    // 1.6 GiB in all.
    expect(most / 2 ** 20).toBeLessThan(800);
  });

  it('never gives back memory that an alias escaped from', () => {
    const { storage, freed } = pooled(new Uint8Array(16));
    const t = tensorFromParts({ storage, dtype: 'float32', shape: [4], strides: [1], offset: 0 });
    t.dataSync();
    t.dispose();
    expect(freed).toHaveLength(0);
  });

  it('reads bytes that lie in a Buffer as plain arrays, whose slices are copies', () => {
    const bytes = Buffer.from([1, 2, 3, 4]);
    const t = fromBytes(bytes, [4], 'uint8');
    const read = t.dataSync();
    expect(read.constructor).toBe(Uint8Array);
    const turned = t.reshape([2, 2]).clone();
    t.add_(1);
    expect([t.toArray(), turned.toArray()]).toEqual([
      [2, 3, 4, 5],
      [
        [1, 2],
        [3, 4],
      ],
    ]);
  });

  it('shows in the array that it was made of what its bytes were changed to, and the other way round', () => {
    const t = tensor([1, 2, 3]).mul(2);
    t.add_(1);
    expect(t.toArray()).toEqual([3, 5, 7]);
    expect([...new Float32Array(Uint8Array.from(t.storage.hostBytes()).buffer)]).toEqual([3, 5, 7]);
    t.mul_(2);
    expect(t.add(0).toArray()).toEqual([6, 10, 14]);
  });

  it('leaves the bytes of a message alone when the tensor changes before they are written', () => {
    const { storage, freed } = pooled(new Uint8Array(Float32Array.of(1, 2).buffer));
    const t = tensorFromParts({ storage, dtype: 'float32', shape: [2], strides: [1], offset: 0 });
    const sent = storage.hostBytes();
    storage.pinIo();
    t.add_(1);
    expect([...new Float32Array(sent.buffer)]).toEqual([1, 2]);
    expect(t.toArray()).toEqual([2, 3]);
    expect(freed).toHaveLength(0);
    storage.unpinIo();
    expect(freed).toEqual([sent]);
    t.dispose();
    expect(freed).toHaveLength(1);
  });

  it('keeps snapshots as they were', () => {
    const t = tensor([1, 2]);
    const before = t.dataSync();
    t.mul_(3);
    expect([...before]).toEqual([1, 2]);
    expect([...t.dataSync()]).toEqual([3, 6]);
  });

  it('counts a version for each in-place change, shared by views', () => {
    const t = zeros([4]);
    const view = t.narrow(0, 0, 2);
    view.fill_(1);
    expect([t.storage.version, view.storage.version]).toEqual([1, 1]);
    expect(t.toArray()).toEqual([1, 1, 0, 0]);
  });

  it('throws for a disposed tensor and says where it was disposed', () => {
    const t = zeros([2]);
    t.dispose();
    t.dispose();
    expect(() => t.add(1)).toThrow(/was disposed \(.*storage\.test/);
  });

  it('refuses parts that reach beyond the storage', () => {
    const storage = storageFromBytes(new Uint8Array(16));
    const at = { storage, dtype: 'float32', offset: 0 } as const;
    expect(() => tensorFromParts({ ...at, shape: [5], strides: [1] })).toThrow(/reach beyond/);
    expect(() => tensorFromParts({ ...at, shape: [2], strides: [4] })).toThrow(/reach beyond/);
    expect(() => tensorFromParts({ ...at, shape: [2], strides: [1], offset: 3 })).toThrow(/reach beyond/);
    expect(() => tensorFromParts({ ...at, shape: [2], strides: [-1] })).toThrow(/do not describe/);
    expect(() => tensorFromParts({ ...at, shape: [2, 2], strides: [1] })).toThrow(/do not describe/);
    expect(() => tensorFromParts({ ...at, shape: [1e12], strides: [0] })).toThrow(/too many elements/);
    expect(() => tensorFromParts({ ...at, dtype: '__proto__' as never, shape: [1], strides: [1] })).toThrow(
      /unknown dtype/,
    );
    expect(tensorFromParts({ ...at, shape: [0, 9], strides: [9, 1], offset: 4 }).toArray()).toEqual([]);
  });

  it('reads bytes that are not aligned for their dtype', () => {
    const bytes = new Uint8Array(17);
    bytes.set(new Uint8Array(Float64Array.of(1.5, -2).buffer), 1);
    const storage = storageFromBytes(bytes.subarray(1));
    expect(tensorFromParts({ storage, dtype: 'float64', shape: [2], strides: [1], offset: 0 }).toArray()).toEqual([
      1.5, -2,
    ]);
    const turned = tensorFromParts({ storage, dtype: 'float64', shape: [2, 1], strides: [1, 2], offset: 0 });
    expect(turned.transpose(0, 1).toArray()).toEqual([[1.5, -2]]);
  });
});

describe('device memory', () => {
  it('sees in-place changes of an operand it has used before', () => {
    const a = rand([64, 128]);
    const w = rand([128, 128]);
    const first = matmul(a, w);
    noGrad(() => w.add_(1));
    const second = matmul(a, w);
    const expected = first.add(a.sum(1, true));
    expect(second.allClose(expected, { rtol: 1e-4, atol: 1e-3 })).toBe(true);
  });

  it('sees the steps of an optimiser', () => {
    const a = rand([64, 128]);
    const w = rand([128, 128]);
    w.requiresGrad = true;
    const opt = new optim.SGD([w], { lr: 1 });
    const first = matmul(a, w).detach();
    opt.step([ones([128, 128])]);
    expect(matmul(a, w).allClose(first.sub(a.sum(1, true)), { rtol: 1e-4, atol: 1e-3 })).toBe(true);
  });

  it('keeps values when memory moves to the host', () => {
    const a = rand([64, 128]);
    const product = matmul(a, rand([128, 64]));
    const before = product.sum().item();
    if (backendName() !== 'cpu') expect(product.storage.onDevice).toBe(true);
    evictAll();
    expect(product.storage.onDevice).toBe(false);
    expect(product.sum().item()).toBe(before);
    expect(matmul(product, a).shape).toEqual([64, 128]);
  });

  it('comes to the host in memory of a pool, which has it back when it is old, written or freed, but never an alias', () => {
    const given: Uint8Array[] = [];
    const pool = {
      take: (nbytes: number) => new Uint8Array(nbytes),
      give: (bytes: Uint8Array) => void given.push(bytes),
    };
    const made = (): Tensor => matmul(ones([64, 128]), ones([128, 64]));
    const t = made();
    if (!t.storage.onDevice) return;
    const first = t.storage.hostBytes(pool);
    expect(new Set(new Float32Array(first.buffer))).toEqual(new Set([128]));
    expect(t.storage.hostBytes(pool)).toBe(first);
    noGrad(() => t.add_(1));
    expect(given).toEqual([first]);

    const second = t.storage.hostBytes(pool);
    t.storage.pinIo();
    noGrad(() => t.add_(1));
    expect([given.length, new Float32Array(second.buffer)[0], t.sum().item()]).toEqual([1, 129, 130 * 64 * 64]);
    t.storage.unpinIo();
    expect(given).toEqual([first, second]);

    // Written by two messages, it is old when the last of them is out: the device has it.
    const third = t.storage.hostBytes(pool);
    t.storage.pinIo();
    t.storage.pinIo();
    t.storage.unpinIo();
    expect([given.length, t.storage.hostBytes(pool)]).toEqual([2, third]);
    t.storage.unpinIo();
    expect([given.length, given[2], t.storage.onHost, t.sum().item()]).toEqual([3, third, false, 130 * 64 * 64]);

    const fourth = t.storage.hostBytes(pool);
    t.dispose();
    expect(given).toEqual([first, second, third, fourth]);

    const other = made();
    other.storage.hostBytes(pool);
    const alias = other.dataSync();
    other.dispose();
    expect([given.length, alias[0]]).toEqual([4, 128]);
  });

  it('stays bounded in a loop that never yields', () => {
    setMemoryBudget(32 * 2 ** 20);
    try {
      const a = rand([512, 512]);
      let last: Tensor = a;
      for (let i = 0; i < 100; i++) last = a.add(i);
      expect(last.select(0, 0).select(0, 0).item()).toBeGreaterThanOrEqual(99);
      expect(deviceBytes()).toBeLessThanOrEqual(34 * 2 ** 20);
    } finally {
      setMemoryBudget(limits.deviceHighBytes);
    }
  });
});

describe('memory()', () => {
  it('counts handles, storages and bytes', () => {
    const before = memory();
    const t = arange(10);
    const view = t.narrow(0, 0, 5);
    const held = memory();
    expect(held.tensors - before.tensors).toBe(2);
    expect(held.storages - before.storages).toBe(1);
    expect(held.bytes - before.bytes).toBe(80);
    t.dispose();
    view.dispose();
    expect(memory()).toEqual(before);
  });
});
