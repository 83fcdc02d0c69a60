/** @file The kernels of a step of recurrent layers against plain loops: no units, odd numbers of them, unaligned operands, NaN and infinities. */
import { describe, expect, it } from 'vitest';
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

/** The units of all rows: where one stands among states, its k-th part among `parts`, and which of its row it is. */
function* units(
  rows: number,
  n: number,
  parts = 4,
): Generator<readonly [unit: number, part: (k: number) => number, j: number]> {
  for (let r = 0; r < rows; r++) for (let j = 0; j < n; j++) yield [r * n + j, (k) => (r * parts + k) * n + j, j];
}

const read = (from: number, count: number): Float32Array => new Float32Array(memory.buffer, from, count);

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

const CASES = ROWS.flatMap((rows) => SHIFTS.map((shift) => [rows, shift] as const));
type Check = (rows: number, n: number, shift: number) => void;

describe.each<readonly [string, Check, Check]>([
  ['an LSTM', forward, back],
  ['a GRU', gru, gruBack],
  ['an RNN of tanh', rnn(false), rnnBack(false)],
  ['an RNN of relu', rnn(true), rnnBack(true)],
])('%s', (name, there, goBack) => {
  describeKernels(`a step of ${name}`, () => {
    it.each(SIZES)('of %i units', (n) => {
      for (const [rows, shift] of CASES) there(rows, n, shift);
    });

    it.each(SIZES)('back, of %i units', (n) => {
      for (const [rows, shift] of CASES) goBack(rows, n, shift);
    });
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

/** Where the i-th thing that a kernel writes lies. */
const target = (i: number, shift: number): number => i * PLACE + 16 + ((shift + 4 * i) % 16);

function gru(rows: number, n: number, shift: number): void {
  const state = rows * n;
  const [x, u, bias, before] = [numbers(3 * state), numbers(3 * state), numbers(3 * n), numbers(state)];
  if (state > 4) {
    x.set([NaN, Infinity, -Infinity, 200, -200].slice(0, n));
    before.set([Infinity], state - 1);
  }
  const places = [x, u, bias, before].map((values, i) => put(i * PLACE + shift, values));
  const [px, pu, pbias, pbefore] = places as [number, number, number, number];
  const [psaved, ph] = [target(4, shift), target(5, shift)];
  for (const b of [pbias, 0]) {
    const [saved, outputs] = [Array<number>(4 * state), Array<number>(state)];
    for (const [unit, gate, j] of units(rows, n, 3)) {
      const own = (k: number): number => at(u, gate(k)) + (b === 0 ? 0 : at(bias, k * n + j));
      const [r, z, w] = [sigmoid(at(x, gate(0)) + own(0)), sigmoid(at(x, gate(1)) + own(1)), own(2)];
      const next = Math.tanh(at(x, gate(2)) + r * w);
      outputs[unit] = next + z * (at(before, unit) - next);
      [r, z, next, w].forEach((value, k) => (saved[(Math.floor(unit / n) * 4 + k) * n + j] = value));
    }
    const h = written(ph, state, () => {
      const kept = written(psaved, 4 * state, () => call('gruStep', px, pu, b, pbefore, psaved, ph, rows, n));
      expectNear(kept, saved, 'saved');
    });
    expectNear(h, outputs, 'outputs');
  }
  expect([...read(px, 3 * state), ...read(pbefore, state)]).toEqual([...x, ...before]);
}

function gruBack(rows: number, n: number, shift: number): void {
  const state = rows * n;
  const saved = numbers(4 * state).map(sigmoid);
  const [dy, dh, kept, before] = [numbers(state), numbers(state), numbers(state), numbers(state)];
  if (state > 4) dy[3] = NaN;
  const places = [dy, dh, kept, saved, before].map((values, i) => put(i * PLACE + shift, values));
  const [pdy, pdh, pkept, ...rest] = places as [number, number, number, ...number[]];
  const [px, pu] = [target(5, shift), target(6, shift)];
  for (const given of [pdy, 0]) {
    put(pkept, kept);
    const [ofInputs, ofOutput] = [Array<number>(3 * state), Array<number>(3 * state)];
    const exact = Array<number>(state);
    for (const [unit, part, j] of units(rows, n)) {
      const [r, z, next, w] = [0, 1, 2, 3].map((k) => at(saved, part(k))) as [number, number, number, number];
      const grad = at(dh, unit) + at(kept, unit) + (given === 0 ? 0 : at(dy, unit));
      const ofNext = grad * (1 - z) * (1 - next * next);
      const gates = [ofNext * w * r * (1 - r), grad * (at(before, unit) - next) * z * (1 - z), ofNext];
      const place = (k: number): number => (Math.floor(unit / n) * 3 + k) * n + j;
      gates.forEach((value, k) => (ofInputs[place(k)] = value));
      gates.forEach((value, k) => (ofOutput[place(k)] = k === 2 ? value * r : value));
      exact[unit] = grad * z;
    }
    const products = written(pu, 3 * state, () => {
      const gates = written(px, 3 * state, () => call('gruStepBack', given, pdh, pkept, ...rest, px, pu, rows, n));
      expectNear(gates, ofInputs, 'of inputs');
    });
    expectNear(products, ofOutput, 'of products');
    expectNear(read(pkept, state), exact, 'of what was kept');
  }
}

function rnn(relu: boolean): Check {
  return (rows, n, shift) => {
    const state = rows * n;
    const [x, u] = [numbers(state), numbers(state)];
    if (state > 4) x.set([NaN, Infinity, -Infinity, 200, -200].slice(0, state));
    const [px, pu] = [x, u].map((values, i) => put(i * PLACE + shift, values)) as [number, number];
    const to = target(2, shift);
    const h = written(to, state, () => call('rnnStep', px, pu, to, Number(relu), state));
    const exact = Array.from(x, (value, i) => {
      const sum = value + at(u, i);
      return relu ? (sum <= 0 ? 0 : sum) : Math.tanh(sum);
    });
    expectNear(h, exact, 'outputs');
  };
}

function rnnBack(relu: boolean): Check {
  return (rows, n, shift) => {
    const state = rows * n;
    const [dy, dh, h] = [numbers(state), numbers(state), numbers(state)];
    if (!relu) h.forEach((value, i) => (h[i] = Math.tanh(value)));
    // The outputs of negative sums are zeros.
    else h.forEach((value, i) => (h[i] = Math.max(0, value)));
    if (state > 4) {
      dy[3] = NaN;
      h[2] = NaN;
    }
    const places = [dy, dh, h].map((values, i) => put(i * PLACE + shift, values)) as [number, number, number];
    const to = target(3, shift);
    for (const given of [places[0], 0]) {
      const out = written(to, state, () => call('rnnStepBack', given, places[1], places[2], to, Number(relu), state));
      const exact = Array.from(h, (y, i) => {
        const grad = at(dh, i) + (given === 0 ? 0 : at(dy, i));
        return relu ? (y <= 0 ? 0 : grad) : (1 - y * y) * grad;
      });
      expectNear(out, exact, 'sums');
    }
  };
}
