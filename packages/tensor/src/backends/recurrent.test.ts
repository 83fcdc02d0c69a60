/** @file The kernels of a step of an LSTM against the plain loop: no units, odd numbers of them, unaligned operands, NaN and infinities. */
import { expect, it } from 'vitest';
import { call, describeKernels, memory, put, written } from '../../test/kernel-modules.ts';

const SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 19];
const ROWS = [0, 1, 3];
/** Bytes by which operands are off a multiple of sixteen. */
const SHIFTS = [0, 4, 12];
const PLACE = 100_000;

let seed = 11;
/** Numbers from -4 to 4. */
const numbers = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) / 2 ** 31) * 4);
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

function expectNear(got: Float32Array, exact: readonly number[], what: string): void {
  exact.forEach((y, i) => {
    const x = got[i] as number;
    if (!Number.isFinite(y)) expect(x, `${what}, ${i}`).toBe(y);
    else
      expect(Math.abs(x - y), `${what}, ${i}: ${x} instead of ${y}`).toBeLessThanOrEqual(
        1e-6 * Math.max(1, Math.abs(y)),
      );
  });
}

const at = (list: ArrayLike<number>, i: number): number => list[i] as number;

/** The units of all rows: where one stands among states, and its k-th gate among gates. */
function* units(rows: number, n: number): Generator<readonly [unit: number, gate: (k: number) => number]> {
  for (let r = 0; r < rows; r++) for (let j = 0; j < n; j++) yield [r * n + j, (k) => r * 4 * n + k * n + j];
}

/** In double precision. */
function step(x: Float32Array, u: Float32Array, before: Float32Array, rows: number, n: number): number[][] {
  const [gates, cells, outputs] = [Array<number>(4 * rows * n), Array<number>(rows * n), Array<number>(rows * n)];
  for (const [unit, gate] of units(rows, n)) {
    const sum = (k: number): number => at(x, gate(k)) + at(u, gate(k));
    const [i, f, g, o] = [sigmoid(sum(0)), sigmoid(sum(1)), Math.tanh(sum(2)), sigmoid(sum(3))];
    [i, f, g, o].forEach((value, k) => (gates[gate(k)] = value));
    cells[unit] = f * at(before, unit) + i * g;
    outputs[unit] = o * Math.tanh(cells[unit]);
  }
  return [gates, cells, outputs];
}

describeKernels('a step of an LSTM', () => {
  const cases = ROWS.flatMap((rows) => SHIFTS.map((shift) => [rows, shift] as const));

  it.each(SIZES)('of %i units', (n) => {
    for (const [rows, shift] of cases) forward(rows, n, shift);
  });

  it.each(SIZES)('back, of %i units', (n) => {
    for (const [rows, shift] of cases) back(rows, n, shift);
  });
});

function forward(rows: number, n: number, shift: number): void {
  const state = rows * n;
  const [x, u, before] = [numbers(4 * state), numbers(4 * state), numbers(state)];
  if (state > 4) {
    x.set([NaN, Infinity, -Infinity, 200, -200].slice(0, n));
    before.set([Infinity], state - 1);
  }
  const [px, pu, pb] = [x, u, before].map((values, i) => put(i * PLACE + shift, values)) as [number, number, number];
  const [pg, pc, ph] = [3, 4, 5].map((i) => i * PLACE + 16 + ((shift + 4 * i) % 16)) as [number, number, number];
  const [gates, cells, outputs] = step(x, u, before, rows, n) as [number[], number[], number[]];
  const read = (from: number, count: number): Float32Array => new Float32Array(memory.buffer, from, count);
  const h = written(ph, state, () => {
    const c = written(pc, state, () => {
      const g = written(pg, 4 * state, () => call('lstmStep', px, pu, pb, pg, pc, ph, rows, n));
      expectNear(g, gates, 'gates');
    });
    expectNear(c, cells, 'cells');
  });
  expectNear(h, outputs, 'outputs');
  expect([...read(px, 4 * state), ...read(pb, state)]).toEqual([...x, ...before]);
}

function back(rows: number, n: number, shift: number): void {
  const state = rows * n;
  const gates = numbers(4 * state).map(sigmoid);
  const [dy, dh, dc] = [numbers(state), numbers(state), numbers(state)];
  const [cells, before] = [numbers(state), numbers(state)];
  if (state > 4) dy[3] = NaN;
  const places = [dy, dh, dc, gates, cells, before].map((values, i) => put(i * PLACE + shift, values));
  const [pdy, pdh, pdc, ...rest] = places as [number, number, number, ...number[]];
  const to = 6 * PLACE + 16 + ((shift + 8) % 16);
  for (const given of [pdy, 0]) {
    put(pdc, dc);
    const out = written(to, 4 * state, () => call('lstmStepBack', given, pdh, pdc, ...rest, to, rows, n));
    const exact = Array<number>(4 * state);
    const exactCells = Array<number>(state);
    for (const [unit, gate] of units(rows, n)) {
      const [i, f, g, o] = [0, 1, 2, 3].map((k) => at(gates, gate(k))) as [number, number, number, number];
      const t = Math.tanh(at(cells, unit));
      const grad = at(dh, unit) + (given === 0 ? 0 : at(dy, unit));
      const cell = at(dc, unit) + grad * o * (1 - t * t);
      exact[gate(0)] = cell * g * i * (1 - i);
      exact[gate(1)] = cell * at(before, unit) * f * (1 - f);
      exact[gate(2)] = cell * i * (1 - g * g);
      exact[gate(3)] = grad * t * o * (1 - o);
      exactCells[unit] = cell * f;
    }
    expectNear(out, exact, 'gates');
    expectNear(new Float32Array(memory.buffer, pdc, state), exactCells, 'cells before');
  }
}
