/** @file Our product of matrices against the plain loop: every shape that has a loop of its own, every layout, unaligned, NaN and infinities. */
import { expect, it } from 'vitest';
import { call, describeKernels, memory, put, written } from '../../test/kernel-modules.ts';

const BASE = { a: 0, b: 400_000, o: 1_200_000 } as const;
const space = 3_200_000;

let seed = 1;
/** Numbers from -3 to 3. */
const numbers = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) / 2 ** 31) * 3);

describeKernels('products', () => {
  /** Every way in which an operand may lie: by rows, by columns, a part of a wider matrix, every other element. */
  const LAYOUTS: readonly ((rows: number, columns: number) => [number, number])[] = [
    (_rows, columns) => [columns, 1],
    (rows) => [1, rows],
    (_rows, columns) => [columns + 3, 1],
    (_rows, columns) => [2 * columns + 1, 2],
  ];
  /** An operand's elements at its place, and a function that reads one. */
  const operand = (at: number, values: Float32Array, [s0, s1]: readonly [number, number]) => {
    put(at, values);
    return (i: number, j: number): number => values[i * s0 + j * s1] as number;
  };

  /** Both sides of a tile, of the strips that are packed at once, and the shapes that have loops of their own. */
  const SHAPES: readonly [number, number, number][] = [
    [1, 1, 1],
    [4, 8, 4],
    [5, 9, 3],
    [3, 7, 0],
    [1, 37, 50],
    [1, 16, 17],
    [37, 1, 50],
    [2, 3, 300],
    [4, 8, 256],
    [4, 8, 257],
    [131, 17, 9],
    [3, 515, 5],
    [33, 40, 66],
  ];

  it.each(SHAPES)('of [%i, %i] over %i', (m, n, k) => {
    expect(space + (call('productSpace') as number)).toBeLessThan(memory.buffer.byteLength);
    for (const [x, layoutA] of LAYOUTS.entries()) {
      for (const [y, layoutB] of LAYOUTS.entries()) {
        const [sa, sb] = [layoutA(m, k), layoutB(k, n)];
        const room = ([s0, s1]: readonly [number, number], p: number, q: number): number =>
          p * q === 0 ? 0 : (p - 1) * s0 + (q - 1) * s1 + 1;
        const [at, from, to] = [BASE.a + 4 * x, BASE.b + 4 * y, BASE.o + 4 * (x + y)];
        const a = operand(at, numbers(room(sa, m, k)), sa);
        const b = operand(from, numbers(room(sb, k, n)), sb);
        const out = written(to, m * n, () => call('product', at, ...sa, from, ...sb, to, m, n, k, space));
        let worst = 0;
        for (let i = 0; i < m; i++)
          for (let j = 0; j < n; j++) {
            let [exact, size] = [0, 0];
            for (let p = 0; p < k; p++) {
              const term = a(i, p) * b(p, j);
              exact += term;
              size += Math.abs(term);
            }
            const off = Math.abs((out[i * n + j] as number) - exact);
            // What a sum of k terms may lose in single precision: far less than the bound of k roundings.
            if (!(off <= size * 2 ** -24 * (2 + Math.sqrt(k)))) worst = Math.max(worst, off || Infinity);
          }
        expect(worst).toBe(0);
      }
    }
  });

  it('carry NaN and infinities to their own row and column alone', () => {
    for (const [m, n, k] of [
      [6, 11, 5],
      [1, 20, 7],
      [20, 1, 33],
      [9, 16, 40],
    ] as const) {
      for (const odd of [NaN, Infinity, -Infinity]) {
        const [a, b] = [numbers(m * k), numbers(k * n)];
        const [row, column] = [m - 1, n - 1];
        a[row * k + k - 1] = odd;
        b[column] = odd;
        put(BASE.a, a);
        put(BASE.b, b);
        const out = written(BASE.o, m * n, () => call('product', BASE.a, k, 1, BASE.b, n, 1, BASE.o, m, n, k, space));
        for (let i = 0; i < m; i++)
          for (let j = 0; j < n; j++) {
            let exact = 0;
            for (let p = 0; p < k; p++) exact += (a[i * k + p] as number) * (b[p * n + j] as number);
            const got = out[i * n + j] as number;
            expect(Number.isFinite(got)).toBe(i !== row && j !== column);
            if (!Number.isFinite(exact)) expect(got).toBe(exact);
          }
      }
    }
  });

  it('have the same bits wherever a row and a column stand among others', () => {
    const [m, n, k] = [9, 19, 70];
    const [a, b] = [numbers(m * k), numbers(k * n)];
    put(BASE.a, a);
    put(BASE.b, b);
    const all = written(BASE.o, m * n, () => call('product', BASE.a, k, 1, BASE.b, n, 1, BASE.o, m, n, k, space));
    for (const [rows, columns] of [
      [2, 3],
      [5, 8],
      [8, 17],
    ] as const) {
      const part = written(BASE.o, rows * columns, () =>
        call('product', BASE.a, k, 1, BASE.b, n, 1, BASE.o, rows, columns, k, space),
      );
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) expect(part[i * columns + j]).toBe(all[i * n + j]);
    }
  });
});
