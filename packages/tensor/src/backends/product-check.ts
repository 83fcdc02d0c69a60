/** @file Whether a library's products are right, before anybody relies on them. */
import type { Product } from './products.ts';

const [M, N, K] = [3, 2, 5];
/** Elements that the check works in. */
export const CHECK_SIZE = M * K + K * N + M * N;

/** Whether [3, 5] times [5, 2] has the right elements, each operand both ways; `memory` lies at `start` for `multiply`. */
export function productsAreRight(memory: Float32Array, start: number, multiply: (product: Product) => void): boolean {
  for (const [turnA, turnB] of [
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ] as const) {
    const a = (i: number, p: number): number => (turnA ? p * M + i : i * K + p);
    const b = (p: number, j: number): number => M * K + (turnB ? j * K + p : p * N + j);
    for (let i = 0; i < M; i++) for (let p = 0; p < K; p++) memory[a(i, p)] = i + 2 * p;
    for (let p = 0; p < K; p++) for (let j = 0; j < N; j++) memory[b(p, j)] = 3 * p - j;
    memory.fill(NaN, M * K + K * N);
    multiply({ m: M, n: N, k: K, a: start, turnA, b: start + 4 * M * K, turnB, out: start + 4 * (M * K + K * N) });
    for (let i = 0; i < M; i++) {
      for (let j = 0; j < N; j++) {
        let exact = 0;
        for (let p = 0; p < K; p++) exact += (i + 2 * p) * (3 * p - j);
        if (memory[M * K + K * N + i * N + j] !== exact) return false;
      }
    }
  }
  return true;
}
