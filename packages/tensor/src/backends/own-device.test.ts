/** @file What tensors say of where they are under a backend with a device of its own: a stand-in for WebGPU's, without an adapter. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { backendName, devices, memory, ones, setBackend, tensor, type Tensor } from '../index.ts';
import type { Backend, DeviceBuffer, DeviceDType, DeviceTensor } from './backend.ts';

/** Bytes of the device that are not freed, and those that were read back. */
const device = { bytes: 0, downloads: 0 };

class Held implements DeviceBuffer {
  readonly dataId = {};
  readonly dtype: DeviceDType;
  readonly content: Uint8Array;
  constructor(dtype: DeviceDType, content: Uint8Array) {
    this.dtype = dtype;
    this.content = content;
    device.bytes += content.length;
  }
  get nbytes(): number {
    return this.content.length;
  }
}

/** Multiplies matrices in memory that nobody else can address; has no other kernel. */
const standIn: Backend = {
  name: 'webgpu',
  device: 'webgpu:0',
  aliasesUploads: false,
  worth: {
    elementwise: Infinity,
    broadcast: Infinity,
    reduce: Infinity,
    transpose: Infinity,
    gather: Infinity,
    matmul: 1_000,
    update: Infinity,
  },
  upload: (bytes, dtype) => new Held(dtype, bytes.slice()),
  view: () => undefined,
  renew: () => {
    throw new TypeError('this memory cannot be addressed');
  },
  download: (buffer) => {
    device.downloads++;
    return (buffer as Held).content.slice();
  },
  free: (buffer) => void (device.bytes -= buffer.nbytes),
  has: (kernel) => kernel === 'BatchMatMul',
  run: (_kernel, { a, b }, { transposeA, transposeB }) =>
    product(a as DeviceTensor, b as DeviceTensor, transposeA === true, transposeB === true),
};

function product(a: DeviceTensor, b: DeviceTensor, turnA: boolean, turnB: boolean): Held {
  const floats = ({ buffer }: DeviceTensor): Float32Array => new Float32Array((buffer as Held).content.slice().buffer);
  const [x, y] = [floats(a), floats(b)];
  const [rowsA = 0, colsA = 0] = a.shape.slice(-2);
  const [rowsB = 0, colsB = 0] = b.shape.slice(-2);
  const [m, k, n] = [turnA ? colsA : rowsA, turnA ? rowsA : colsA, turnB ? rowsB : colsB];
  const out = new Float32Array(m * n);
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++)
      for (let l = 0; l < k; l++)
        out[i * n + j]! += x[turnA ? l * colsA + i : i * colsA + l]! * y[turnB ? j * colsB + l : l * colsB + j]!;
  return new Held('float32', new Uint8Array(out.buffer));
}

vi.mock('./webgpu.ts', () => ({
  WEBGPU_WORTH: { elementwise: 1, broadcast: 1, reduce: 1, transpose: 1, gather: 1, matmul: 1, update: 1 },
  openWebgpu: () => standIn,
}));

beforeAll(() => setBackend('webgpu'));
afterAll(() => setBackend('auto'));

/** [20, 20], whose products are worth a kernel. */
const square = (value: number, requiresGrad = false): Tensor => {
  const t = tensor(new Float32Array(400).fill(value), { shape: [20, 20] });
  t.requiresGrad = requiresGrad;
  return t;
};

describe('under a backend with a device of its own', () => {
  it('what a kernel made is on that device, what came before is not, and operations follow', () => {
    expect([backendName(), devices().includes('webgpu:0')]).toEqual(['webgpu', true]);
    const [a, b] = [square(1), square(2)];
    const made = a.matmul(b);
    expect([a.device, b.device, made.device]).toEqual(['cpu', 'cpu', 'webgpu:0']);
    for (const t of [made.add(1), made.narrow(0, 0, 5), made.transpose(0, 1), made.sum(), made.mul(b), made.clone()])
      expect(t.device).toBe('webgpu:0');
    expect(made.add(1).sum().item()).toBe(400 * 41);
    // A product that is not worth a kernel is made here.
    expect(ones([2, 2]).matmul(ones([2, 2])).device).toBe('cpu');
  });

  it('to() moves both ways, and gradients lie where their leaves do', () => {
    const there = square(3).to('webgpu:0');
    expect([there.device, there.to('cpu').device, there.to('cpu').sum().item()]).toEqual(['webgpu:0', 'cpu', 1_200]);
    there.requiresGrad = true;
    const here = square(1, true);
    const loss = there.matmul(here).sum();
    expect(loss.device).toBe('webgpu:0');
    loss.backward();
    expect([there.grad?.device, here.grad?.device]).toEqual(['webgpu:0', 'cpu']);
    expect([there.grad?.sum().item(), here.grad?.sum().item()]).toEqual([400 * 20, 400 * 60]);
  });

  it('the bytes are there until they are asked for, and freed with the tensor', () => {
    const before = { ...device, held: memory().bytes };
    const [a, b] = [square(1), square(2)];
    const made = a.matmul(b);
    expect(device.downloads).toBe(before.downloads);
    expect(device.bytes).toBeGreaterThan(before.bytes);
    expect((made.toArray() as number[][])[19]?.[19]).toBe(40);
    expect(device.downloads).toBe(before.downloads + 1);
    for (const t of [a, b, made]) t.dispose();
    expect([device.bytes, memory().bytes]).toEqual([before.bytes, before.held]);
  });

  it('what was made there stays valid under another backend', async () => {
    const made = square(1).matmul(square(2));
    await setBackend('cpu');
    try {
      expect(made.sum().item()).toBe(400 * 40);
      expect(made.to('cpu').device).toBe('cpu');
    } finally {
      await setBackend('webgpu');
    }
  });
});
