/** @file Products of a BLAS library: operands stay where they lie, on the host or on the heap, whichever way round they are. */
import { describe, expect, it } from 'vitest';
import { backendName, fromBytes, matmul, tensor, type Tensor } from '../index.ts';
import { currentBackend } from './current.ts';

const [M, K, N] = [19, 23, 17];

let seed = 7;
/** Whole numbers from -8 to 8: their products have the same bits whoever adds them up. */
const whole = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) >> 27) % 9);

const exact = (a: Float32Array, b: Float32Array, m: number, k: number, n: number): number[] =>
  Array.from({ length: m * n }, (_, at) => {
    const [i, j] = [Math.floor(at / n), at % n];
    let sum = 0;
    for (let p = 0; p < k; p++) sum += (a[i * k + p] as number) * (b[p * n + j] as number);
    return sum;
  });

const flat = (t: Tensor): number[] => [...(t.dataSync() as Float32Array)];

/** A matrix on the host whose memory starts in the middle of other memory, at any byte, as received tensors do. */
function received(values: Float32Array, shape: readonly number[], offset: number): Tensor {
  const memory = new Uint8Array(values.byteLength + offset + 8).fill(255);
  const bytes = memory.subarray(offset, offset + values.byteLength);
  bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  return fromBytes(bytes, shape, 'float32');
}

describe.runIf(backendName() === 'blas')('a product on blas', () => {
  it.each([0, 4, 64])('reads operands on the host where they lie, at byte %i of their memory', (offset) => {
    const [a, b] = [whole(M * K), whole(K * N)];
    const [x, y] = [received(a, [M, K], offset), received(b, [K, N], offset)];
    expect(flat(matmul(x, y))).toEqual(exact(a, b, M, K, N));
    expect([x.storage.onDevice, y.storage.onDevice]).toEqual([false, false]);
  });

  it('takes one that starts between two numbers', () => {
    const [a, b] = [whole(M * K), whole(K * N)];
    expect(flat(matmul(received(a, [M, K], 3), received(b, [K, N], 1)))).toEqual(exact(a, b, M, K, N));
  });

  it('reads transposed operands and batches on the host in place', () => {
    const [a, b] = [whole(3 * M * K), whole(3 * K * N)];
    const x = received(a, [3, M, K], 0);
    // Column by column: b is what the transpose of y reads.
    const turned = new Float32Array(3 * K * N);
    for (let i = 0; i < 3; i++)
      for (let p = 0; p < K; p++)
        for (let j = 0; j < N; j++) turned[i * K * N + j * K + p] = b[i * K * N + p * N + j] as number;
    const y = received(turned, [3, N, K], 4);
    const want = [0, 1, 2].flatMap((i) =>
      exact(a.subarray(i * M * K, (i + 1) * M * K), b.subarray(i * K * N, (i + 1) * K * N), M, K, N),
    );
    expect(flat(matmul(x, y.transpose(1, 2)))).toEqual(want);
    expect([x.storage.onDevice, y.storage.onDevice]).toEqual([false, false]);
  });

  it('reads rows of a matrix on the host in place, and nothing of the other rows', () => {
    const [a, b] = [whole(4 * M * K), whole(K * N)];
    const x = tensor(a, { shape: [4 * M, K] });
    expect(flat(matmul(x.narrow(0, M, M), tensor(b, { shape: [K, N] })))).toEqual(
      exact(a.subarray(M * K, 2 * M * K), b, M, K, N),
    );
    expect(x.storage.onDevice).toBe(false);
  });

  it('reads one on the heap beside one on the host, and a result of one product in the next', () => {
    const [a, b, c] = [whole(M * K), whole(K * N), whole(N * M)];
    const [x, y, z] = [tensor(a, { shape: [M, K] }), tensor(b, { shape: [K, N] }), tensor(c, { shape: [N, M] })];
    const product = matmul(x, y);
    expect(product.storage.onDevice).toBe(true);
    expect(flat(matmul(product, z))).toEqual(exact(Float32Array.from(exact(a, b, M, K, N)), c, M, N, M));
  });

  it('reads what is on the host as it is then, after changes in place', () => {
    const [a, b] = [whole(M * K), whole(K * N)];
    const [x, y] = [tensor(a.slice(), { shape: [M, K] }), tensor(b, { shape: [K, N] })];
    matmul(x, y);
    x.mul_(2);
    expect(flat(matmul(x, y))).toEqual(exact(a, b, M, K, N).map((value) => 2 * value));
  });

  it('has the same bits wherever an operand lies', () => {
    const [a, b] = [whole(M * K), whole(K * N)].map((values) => values.map((value) => value / 7)) as [
      Float32Array,
      Float32Array,
    ];
    const x = tensor(a, { shape: [M, K] });
    const y = tensor(b, { shape: [K, N] });
    const onHost = flat(matmul(x, y));
    for (const moved of [x, y]) {
      moved.storage.toDevice(currentBackend(), 'float32');
      expect(moved.storage.onDevice).toBe(true);
      expect(flat(matmul(x, y))).toEqual(onHost);
    }
  });

  it('reads one so small that the engine may move it', () => {
    const [a, b] = [whole(8), whole(2 * 2048)];
    const x = tensor(a, { shape: [4, 2] });
    const y = tensor(b, { shape: [2, 2048] });
    expect(flat(matmul(x, y))).toEqual(exact(a, b, 4, 2, 2048));
    expect(x.storage.onDevice).toBe(false);
  });

  it('gives gradients as before, also to an operand that stays on the host', () => {
    const [a, b] = [whole(M * K), whole(K * N)];
    const x = received(a, [M, K], 0);
    const w = tensor(b, { shape: [K, N], requiresGrad: true });
    matmul(x, w).sum().backward();
    const rows = Array.from({ length: K }, (_, p) =>
      Array.from({ length: M }, (_, i) => a[i * K + p] as number).reduce((sum, value) => sum + value, 0),
    );
    expect(flat(w.grad as Tensor)).toEqual(rows.flatMap((sum) => Array<number>(N).fill(sum)));
    expect(x.storage.onDevice).toBe(false);
  });
});
