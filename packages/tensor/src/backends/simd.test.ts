/** @file Every kernel of ours against the plain loop: no elements, odd sizes, unaligned, strided and repeated operands, NaN and infinities. */
import { describe, expect, it } from 'vitest';
import { moduleText } from '../../tools/compile-kernels.ts';
import { readFileSync } from 'node:fs';
import { call, constants, describeKernels, memory, MODULES, put, written } from '../../test/kernel-modules.ts';
import { backendName } from '../index.ts';
import type { OwnKernel } from './own-kernel.ts';
import { recurrentKernels } from './recurrent.ts';
import { sideBySide } from './side-by-side.ts';
import { multiplyBy, ownKernels } from './simd.ts';

/** On both sides of every number of elements that a loop takes at once. */
const SIZES = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130];
/** Bytes by which an operand may be off a multiple of sixteen. */
const SHIFTS = [0, 4, 12];
const SPECIAL = [0, -0, 1, -1, NaN, Infinity, -Infinity, 1e-45, -1e-40, 3e38, -3e38, 1e-20, 88.7, -88, -103.9, 0.625];

let seed = 1;
/** Numbers from -1 to 1. */
function random(): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
  return seed / 2 ** 31;
}
const numbers = (n: number, scale = 3, special = false): Float32Array =>
  Float32Array.from({ length: n }, (_, i) =>
    special && i % 3 === 0 ? (SPECIAL[(i / 3) % SPECIAL.length] as number) : random() * scale,
  );

const BASE = { a: 0, b: 400_000, c: 800_000, o: 1_200_000 } as const;
/** The largest difference in units in the last place of the exact value. */
function units(got: Float32Array, exact: readonly number[]): number {
  let worst = 0;
  for (const [i, y] of exact.entries()) {
    const x = got[i] as number;
    const rounded = Math.fround(y);
    if (Object.is(x, rounded) || (Number.isNaN(x) && Number.isNaN(y))) continue;
    const unit = Math.max(2 ** -149, 2 ** (Math.floor(Math.log2(Math.abs(y))) - 23));
    worst = Math.max(worst, Number.isFinite(x) ? Math.abs(x - y) / unit : Infinity);
  }
  return worst;
}

describe.runIf(backendName() === 'wasm')('the modules', () => {
  it('are what the sources compile to', () => {
    expect(readFileSync(new URL('../gen/simd.ts', import.meta.url), 'utf8')).toBe(moduleText());
  }, 300_000);

  it.each(MODULES)('%s: has nothing that no operation asks for', (_, run) => {
    const asked = new Set<string>();
    const watched = new Proxy(run, { get: (all, name: string) => (asked.add(name), all[name]) });
    const kernels = ownKernels(watched, multiplyBy(watched));
    recurrentKernels(watched, multiplyBy(watched));
    sideBySide(watched, multiplyBy(watched), (name) => kernels.get(name) as OwnKernel);
    const steps = ['descend', 'descendRows', 'glide', 'adapt'];
    expect(Object.keys(run).filter((name) => !asked.has(name) && !steps.includes(name))).toEqual([]);
  });

  it('keep their constants in the memory that is theirs', () => {
    const known = constants.length - 4;
    // Each stands there four times; the last is a coefficient.
    expect([...constants.subarray(0, 8)]).toEqual([1, 1, 1, 1, 2, 2, 2, 2]);
    expect([...constants.subarray(known - 4)]).toEqual([...Array(4).fill(Math.fround(-3.33332819422e-1)), 0, 0, 0, 0]);
  });
});

const BINARY: Readonly<Record<string, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  maximum: Math.max,
  minimum: Math.min,
};

describeKernels('operations on two operands', () => {
  it.each(Object.keys(BINARY))('%s', (name) => {
    const plain = BINARY[name] as (a: number, b: number) => number;
    for (const n of SIZES) {
      for (const shift of SHIFTS) {
        for (const [sa, sb] of [
          [1, 1],
          [1, 0],
          [0, 1],
          [0, 0],
        ] as const) {
          const m = n % 3;
          const a = numbers(3 * n + 3, 3, true);
          const b = numbers(3 * n + 3, 3, true).reverse();
          const [pa, pb, po] = [put(BASE.a + shift, a), put(BASE.b + ((shift + 4) % 16), b), BASE.o + shift + 16];
          // Rows that walk, and rows that repeat.
          const [ra, rb] = [sa * n, sb === 0 ? 1 : 0];
          const out = written(po, m * n, () => call(name, pa, ra, sa, pb, rb, sb, po, m, n));
          const exact = Array.from({ length: m * n }, (_, i) => {
            const [row, at] = [Math.floor(i / n), i % n];
            return Math.fround(plain(a[row * ra + at * sa] as number, b[row * rb + at * sb] as number));
          });
          expect([...out], `${n} elements, ${shift} bytes off, steps ${sa} and ${sb}`).toEqual(exact);
        }
      }
    }
  });
});

/** The function in double precision, and how many units in the last place a kernel may be off. */
const UNARY: Readonly<Record<string, [(x: number) => number, number]>> = {
  neg: [(x) => -x, 0],
  abs: [Math.abs, 0],
  sqrt: [Math.sqrt, 0],
  rsqrt: [(x) => 1 / Math.sqrt(x), 2],
  square: [(x) => x * x, 0.5],
  reciprocal: [(x) => 1 / x, 0.5],
  relu: [(x) => (x > 0 || Number.isNaN(x) ? x : 0), 0],
  expOf: [Math.exp, 2],
  logOf: [Math.log, 2],
  sigmoidOf: [(x) => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x))), 3],
  tanhOf: [Math.tanh, 3],
};

describeKernels('functions of one operand', () => {
  it.each(Object.keys(UNARY))('%s', (name) => {
    const [plain, allowed] = UNARY[name] as [(x: number) => number, number];
    for (const n of SIZES) {
      for (const scale of [0.01, 1, 90]) {
        for (const shift of SHIFTS) {
          const a = numbers(n, scale, true);
          const [from, to] = [put(BASE.a + shift, a), BASE.o + 16 + ((shift + 8) % 16)];
          const out = written(to, n, () => call(name, from, to, n));
          // Half a unit is the rounding itself.
          const off = units(out, Array.from(a, plain));
          expect(off, `${n} elements up to ${scale}, ${shift} bytes off`).toBeLessThanOrEqual(allowed + 0.5);
          const zeros = [...a.keys()].filter((i) => plain(a[i] as number) === 0);
          expect(zeros.map((i) => out[i])).toEqual(zeros.map((i) => plain(a[i] as number)));
          // A remainder has the bits that it has among others.
          for (let i = 0; i < n; i += 5) {
            const [alone] = written(to, 1, () => call(name, from + 4 * i, to, 1));
            expect(Object.is(alone, out[i])).toBe(true);
          }
        }
      }
    }
  });

  it('reluGrad', () => {
    for (const n of SIZES) {
      const [dy, y] = [numbers(n, 3, true), numbers(n, 3, true).reverse()];
      const out = written(BASE.o, n, () => call('reluGrad', put(BASE.a, dy), put(BASE.b + 4, y), BASE.o, n));
      expect([...out]).toEqual(Array.from(dy, (g, i) => ((y[i] as number) <= 0 ? 0 : g)));
    }
  });
});

const sumOf = (values: Iterable<number>): number => {
  let sum = 0;
  for (const v of values) sum += v;
  return sum;
};

describeKernels('reductions', () => {
  it.each([1, 2, 3, 8, 9, 16, 17, 100, 16_383, 16_384, 16_400])('sums of %i', (n) => {
    const rows = n > 1000 ? 2 : 5;
    const a = numbers(n * rows);
    const out = written(BASE.o, rows, () => call('sumRows', put(BASE.a + 4, a), BASE.o, rows, n, 1));
    const exact = Array.from({ length: rows }, (_, r) => sumOf(a.subarray(r * n, (r + 1) * n)));
    for (const [r, sum] of exact.entries()) expect(Math.abs((out[r] as number) - sum)).toBeLessThan(1e-7 * n + 1e-6);
    const means = written(BASE.o, rows, () => call('sumRows', put(BASE.a, a), BASE.o, rows, n, n));
    for (const [r, sum] of exact.entries()) expect(means[r]).toBeCloseTo(sum / n, 6);
  });

  it.each([1, 3, 7, 8, 9, 16, 21])('sums of columns of matrices %i wide', (width) => {
    for (const n of [0, 1, 2, 50]) {
      const a = numbers(2 * n * width);
      const out = written(BASE.o, 2 * width, () => call('sumColumns', put(BASE.a + 8, a), BASE.o, 2, n, width, 1));
      for (let i = 0; i < 2 * width; i++) {
        const column = Array.from({ length: n }, (_, r) => a[(Math.floor(i / width) * n + r) * width + (i % width)]);
        expect(out[i]).toBe(Math.fround(sumOf(column as number[])));
      }
    }
  });

  it('carry NaN and infinities', () => {
    for (const [odd, sum] of [
      [[NaN], NaN],
      [[Infinity], Infinity],
      [[Infinity, -Infinity], NaN],
    ] as const) {
      for (const n of [5, 40, 17_000]) {
        const a = numbers(n);
        a.set(odd, n - 4);
        expect([...written(BASE.o, 1, () => call('sumRows', put(BASE.a, a), BASE.o, 1, n, 1))]).toEqual([sum]);
      }
    }
  });

  it.each([1, 2, 4, 7, 8, 10, 33, 100])('softmax, its logarithm and their gradients over %i', (n) => {
    const rows = 3;
    const x = numbers(n * rows, 20);
    const dy = numbers(n * rows);
    if (n > 4) x.set([Infinity, -Infinity, NaN], n * 2);
    const row = (values: Float32Array, r: number): number[] => [...values.subarray(r * n, (r + 1) * n)];
    const [px, pg, py] = [put(BASE.a + 4, x), put(BASE.b + 8, dy), BASE.c];
    const soft = written(BASE.o, n * rows, () => call('softmaxRows', px, BASE.o, rows, n));
    const logs = written(BASE.o, n * rows, () => call('logSoftmaxRows', px, BASE.o, rows, n));
    for (let r = 0; r < rows; r++) {
      const values = row(x, r);
      const top = Math.max(...values);
      const total = sumOf(values.map((v) => Math.exp(v - top)));
      // The difference is rounded first, as in PyTorch.
      const p = values.map((v) => Math.exp(Math.fround(v - top)) / total);
      const logP = values.map((v) => v - (top + Math.log(total)));
      expect(units(Float32Array.from(row(soft, r)), p)).toBeLessThan(5);
      for (const [i, v] of row(logs, r).entries()) {
        if (Number.isNaN(logP[i])) expect(v).toBeNaN();
        else expect(Math.abs(v - (logP[i] as number))).toBeLessThan(4e-6);
      }
    }
    for (const [name, y, slope] of [
      ['softmaxGradRows', soft, (g: number, v: number, s: number) => v * (g - s)],
      ['logSoftmaxGradRows', logs, (g: number, v: number, s: number) => g - Math.exp(v) * s],
    ] as const) {
      const out = written(BASE.o, n * rows, () => call(name, pg, put(py, y), BASE.o, rows, n));
      for (let r = 0; r < 2; r++) {
        const [g, v] = [row(dy, r), row(y, r)];
        const s = sumOf(name === 'softmaxGradRows' ? g.map((d, i) => d * (v[i] as number)) : g);
        for (let i = 0; i < n; i++) expect(out[r * n + i]).toBeCloseTo(slope(g[i] as number, v[i] as number, s), 5);
      }
    }
  });

  it.each([1, 3, 4, 9, 64, 130])('whitening of %i and its gradient', (n) => {
    const rows = 3;
    const [x, dy] = [numbers(n * rows, 2), numbers(n * rows)];
    const [px, pg] = [put(BASE.a, x), put(BASE.b + 4, dy)];
    const out = written(BASE.o, n * rows, () => call('whitenRows', px, BASE.o, rows, n, 1e-5));
    const slopes = written(BASE.o, n * rows, () => call('whitenGradRows', pg, px, BASE.o, rows, n, 1e-5));
    for (let r = 0; r < rows; r++) {
      const [v, g] = [x.subarray(r * n, (r + 1) * n), dy.subarray(r * n, (r + 1) * n)];
      const mean = sumOf(v) / n;
      const scale = 1 / Math.sqrt(sumOf(Array.from(v, (q) => (q - mean) ** 2)) / n + 1e-5);
      const along = sumOf(Array.from(g, (d, i) => d * ((v[i] as number) - mean) * scale));
      for (let i = 0; i < n; i++) {
        const y = ((v[i] as number) - mean) * scale;
        expect(out[r * n + i]).toBeCloseTo(y, 5);
        expect(slopes[r * n + i]).toBeCloseTo(scale * ((g[i] as number) - sumOf(g) / n - (y * along) / n), 3);
      }
    }
  });
});

describeKernels('copies', () => {
  it('of strided views: turned, repeated, sliced, of every order', () => {
    const source = Float32Array.from({ length: 90_000 }, (_, i) => i);
    put(BASE.a, source);
    for (const [sizes, strides] of [
      [
        [1, 1, 33, 70],
        [0, 0, 1, 40],
      ],
      [
        [1, 2, 5, 4],
        [0, 300, 1, 7],
      ],
      [
        [2, 3, 4, 5],
        [60, 20, 5, 1],
      ],
      [
        [2, 3, 4, 5],
        [1, 2, 6, 24],
      ],
      [
        [2, 3, 1, 9],
        [27, 9, 0, 1],
      ],
      [
        [1, 3, 4, 6],
        [0, 1, 0, 3],
      ],
      [
        [1, 1, 7, 3],
        [0, 0, 0, 0],
      ],
      [
        [1, 1, 1, 0],
        [0, 0, 0, 1],
      ],
      [
        [1, 1, 64, 64],
        [0, 0, 1, 64],
      ],
      [
        [1, 1, 31, 32],
        [0, 0, 1, 31],
      ],
    ] as const) {
      const [n0, n1, n2, n3] = sizes;
      const exact: number[] = [];
      for (let i = 0; i < n0; i++)
        for (let j = 0; j < n1; j++)
          for (let k = 0; k < n2; k++)
            for (let l = 0; l < n3; l++)
              exact.push(3 + i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3]);
      const out = written(BASE.o, exact.length, () => call('copyStrided', BASE.a + 12, BASE.o, ...sizes, ...strides));
      expect([...out]).toEqual(exact);
    }
  });

  it.each([
    [1, 1, 1],
    [5, 1, 7],
    [3, 4, 1],
    [1, 6, 9],
    [33, 3, 38],
    [64, 5, 12],
    [0, 2, 3],
    [2, 0, 3],
  ])('of the axes of [%i, %i, %i] the other way round', (p, q, r) => {
    const x = numbers(p * q * r);
    const exact: number[] = [];
    for (let k = 0; k < r; k++)
      for (let j = 0; j < q; j++) for (let i = 0; i < p; i++) exact.push(x[(i * q + j) * r + k] as number);
    for (const shift of SHIFTS) {
      const from = put(BASE.a + shift, x);
      expect([...written(BASE.o, x.length, () => call('reverseAxes', from, BASE.o, p, q, r))]).toEqual(exact);
    }
  });

  it('of elements at positions, and their adjoint', () => {
    const x = numbers(50);
    const at = Int32Array.from({ length: 37 }, (_, i) => (i % 9 === 0 ? -1 : (i * i) % 50));
    put(BASE.a, x);
    new Int32Array(memory.buffer, BASE.b, at.length).set(at);
    const out = written(BASE.o, 37, () => call('take', BASE.a, BASE.b, BASE.o, 37));
    expect([...out]).toEqual(Array.from(at, (p) => (p < 0 ? 0 : x[p])));
    const exact = new Float32Array(50);
    for (const [i, p] of at.entries()) if (p >= 0) exact[p]! += x[i] as number;
    expect([...written(BASE.o, 50, () => call('put', BASE.a, BASE.b, BASE.o, 37, 50))]).toEqual([...exact]);
  });
});

describeKernels('choosing and placing', () => {
  it.each(SIZES)('of runs of %i elements by a condition', (n) => {
    for (const shift of SHIFTS) {
      for (const [sa, sb] of [
        [1, 1],
        [1, 0],
        [0, 1],
        [0, 0],
      ] as const) {
        const m = 3;
        const [a, b] = [numbers(m * n + 1, 3, true), numbers(m * n + 1, 3, true).reverse()];
        const c = Uint8Array.from({ length: n }, () => (random() > 0 ? 1 : 0));
        // Bytes lie anywhere.
        const [pa, pb, pc] = [put(BASE.a + shift, a), put(BASE.b + ((shift + 4) % 16), b), BASE.c + shift / 4];
        new Uint8Array(memory.buffer, pc, n).set(c);
        const out = written(BASE.o + shift + 16, m * n, () =>
          call('choose', pc, pa, sa, pb, sb, BASE.o + shift + 16, m, n),
        );
        expect([...out]).toEqual(Array.from({ length: m * n }, (_, i) => (c[i % n] === 1 ? a[i * sa] : b[i * sb])));
      }
    }
  });

  it('puts elements where a view has them, zeros beside them, and copies them back from there', () => {
    for (const [size, at, sizes, strides] of [
      [90, 3, [1, 2, 3, 5], [0, 40, 10, 1]],
      [90, 0, [1, 2, 3, 5], [0, 1, 2, 8]],
      [64, 7, [1, 1, 1, 9], [0, 0, 0, 6]],
      [12, 5, [1, 1, 1, 1], [0, 0, 0, 0]],
      [6, 0, [1, 1, 1, 0], [0, 0, 0, 1]],
    ] as const) {
      const part = numbers(sizes[0] * sizes[1] * sizes[2] * sizes[3], 3, true);
      const exact = new Float32Array(size);
      let from = 0;
      for (let i = 0; i < sizes[1]; i++)
        for (let j = 0; j < sizes[2]; j++)
          for (let k = 0; k < sizes[3]; k++)
            exact[at + i * strides[1] + j * strides[2] + k * strides[3]] = part[from++]!;
      const [source, target] = [put(BASE.a + 4, part), BASE.o + 8];
      const out = written(target, size, () => call('placeStrided', source, target, size, at, ...sizes, ...strides));
      expect([...out]).toEqual([...exact]);
      const back = written(BASE.c + 32, part.length, () =>
        call('copyStrided', put(BASE.b, out) + 4 * at, BASE.c + 32, ...sizes, ...strides),
      );
      expect([...back]).toEqual([...part]);
    }
  });

  it.each(SIZES.filter((n) => n > 0))('the largest of each row of %i', (n) => {
    for (const special of [false, true]) {
      for (const shift of SHIFTS) {
        const a = numbers(4 * n, 3, special);
        a.fill(-Infinity, n, 2 * n);
        const from = put(BASE.a + shift, a);
        const out = written(BASE.o, 4, () => call('largestRows', from, BASE.o, 4, n));
        const exact = Array.from({ length: 4 }, (_, r) => Math.max(...a.subarray(r * n, (r + 1) * n)));
        expect([...out]).toEqual(exact);
      }
    }
  });
});

describeKernels('rows by their numbers', () => {
  it.each([1, 3, 4, 7, 16, 18])('of %i elements', (width) => {
    const [count, bags] = [9, 4];
    const table = numbers(count * width);
    const ids = [3, 0, 8, 3, 3, 5];
    const to = [1, 1, 3, 1, 0, 3];
    const lists = (at: number, values: readonly number[]): number => {
      new Int32Array(memory.buffer, at, values.length).set(values);
      return at;
    };
    const [pa, pi, pt] = [put(BASE.a + 4, table), lists(BASE.b, ids), lists(BASE.b + 512, to)];
    const row = (values: Float32Array, i: number): number[] => [...values.subarray(i * width, (i + 1) * width)];
    const taken = written(BASE.o, ids.length * width, () => call('takeRows', pa, pi, BASE.o, ids.length, width));
    expect([...taken]).toEqual(ids.flatMap((id) => row(table, id)));
    const sums = new Float32Array(bags * width);
    for (const [i, id] of ids.entries())
      for (let k = 0; k < width; k++) sums[(to[i] as number) * width + k]! += table[id * width + k] as number;
    const added = written(BASE.o, bags * width, () => call('addRows', pa, pi, pt, BASE.o, ids.length, width, bags));
    expect([...added]).toEqual([...sums]);
    const g = numbers(ids.length * width);
    const after = table.map((v) => v);
    for (const [i, id] of ids.entries())
      for (let k = 0; k < width; k++)
        after[id * width + k]! -= Math.fround(Math.fround(0.1) * (g[i * width + k] as number));
    call('descendRows', pa, pi, put(BASE.c, g), ids.length, width, 0.1);
    expect([...new Float32Array(memory.buffer, pa, count * width)]).toEqual([...after]);
  });
});

describeKernels('steps of optimisers', () => {
  const near = (got: Float32Array, exact: readonly number[]): void => {
    for (const [i, y] of exact.entries()) expect(Math.abs((got[i] as number) - y)).toBeLessThan(1e-6);
  };

  it.each(SIZES)('of %i elements', (n) => {
    const [p, g, m] = [numbers(n), numbers(n), numbers(n)];
    const v = numbers(n).map((x) => x * x);
    const after = (at: number, kernel: () => void): Float32Array => {
      kernel();
      return new Float32Array(memory.buffer, at, n).slice();
    };
    const all = (values: (i: number) => number): number[] => Array.from({ length: n }, (_, i) => values(i));
    const at = (values: Float32Array, i: number): number => values[i] as number;
    for (const penalty of [0, 0.1]) {
      const pull = (i: number): number => at(g, i) + penalty * at(p, i);
      const [pp, pg] = [put(BASE.a + 4, p), put(BASE.b, g)];
      near(
        after(pp, () => call('descend', pp, pg, n, 0.05, penalty)),
        all((i) => at(p, i) - 0.05 * pull(i)),
      );
      for (const nesterov of [0, 1]) {
        const [start, slot] = [put(BASE.a, p), put(BASE.c, m)];
        const speed = (i: number): number => 0.9 * at(m, i) + pull(i);
        near(
          after(start, () => call('glide', start, slot, pg, n, 0.05, 0.9, penalty, nesterov)),
          all((i) => at(p, i) - 0.05 * (nesterov === 1 ? pull(i) + 0.9 * speed(i) : speed(i))),
        );
        near(new Float32Array(memory.buffer, slot, n).slice(), all(speed));
      }
      const [start, pm, pv] = [put(BASE.a, p), put(BASE.c, m), put(BASE.o, v)];
      const mean = (i: number): number => at(m, i) + 0.1 * (pull(i) - at(m, i));
      const square = (i: number): number => 0.999 * at(v, i) + 0.001 * pull(i) ** 2;
      near(
        after(start, () => call('adapt', start, pm, pv, pg, n, 0.1, 0.999, 0.001, 0.01, 1e-8, 0.99, penalty)),
        all((i) => 0.99 * at(p, i) - (0.01 * mean(i)) / (Math.sqrt(square(i)) + 1e-8)),
      );
      near(new Float32Array(memory.buffer, pm, n).slice(), all(mean));
      near(new Float32Array(memory.buffer, pv, n).slice(), all(square));
    }
  });
});
