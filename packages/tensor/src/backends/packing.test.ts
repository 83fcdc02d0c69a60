/** @file Operands that kernels keep prepared: one memory read in several shapes, and changed between products. */
import * as tfc from '@tensorflow/tfjs-core';
import { afterEach, describe, expect, it } from 'vitest';
import { backendName, concat, lift, manualSeed, matmul, mm, randn, scope, type Tensor } from '../index.ts';
import { currentBackend } from './current.ts';

const exact = (a: Tensor, b: Tensor): Tensor => matmul(a.to('float64'), b.to('float64'));

function expectProduct(a: Tensor, b: Tensor): void {
  expect(matmul(a, b).to('float64').allClose(exact(a, b), { rtol: 1e-4, atol: 1e-3 })).toBe(true);
}

/** Rows of the left operand that bring a product of `inner` by `columns` just below, to and above the size kernels pay from. */
function rowsAround(inner: number, columns: number): number[] {
  const { matmul: least } = currentBackend().worth;
  const at = Math.ceil((Number.isFinite(least) ? least : 16_384) / (inner * columns));
  return [...new Set([1, Math.max(1, at - 1), at, at + 1, 3 * at])];
}

const shapes: [number, number][] = [
  [1, 8192],
  [2, 4096],
  [16, 512],
  [64, 128],
  [128, 64],
  [512, 16],
  [4096, 2],
  [8192, 1],
];

describe('one right operand in several shapes', () => {
  it.each(shapes)('first read as [%i, %i]', (k, n) => {
    manualSeed(1);
    const w = randn([k, n]);
    for (const [inner, columns] of [[k, n], ...shapes, [k, n]] as [number, number][]) {
      const wide = w.reshape([inner, columns]);
      for (const m of rowsAround(inner, columns)) scope(() => expectProduct(randn([m, inner]), wide));
    }
  });

  it.each(shapes)('transposed too, from [%i, %i]', (k, n) => {
    manualSeed(2);
    const w = randn([k, n]);
    for (const m of rowsAround(k, n)) {
      scope(() => {
        expectProduct(randn([m, k]), w);
        expectProduct(randn([m, n]), w.transpose(0, 1));
        expectProduct(randn([m, k]), w);
        // As the left operand of another, and with itself.
        expectProduct(w, randn([n, m]));
        if (n <= 512) expectProduct(w.transpose(0, 1), w);
        if (k <= 512) expectProduct(w, w.transpose(0, 1));
      });
    }
  });

  it('a slice, a batch of one and a batch of several of the same memory', () => {
    manualSeed(3);
    const w = randn([4, 64, 64]);
    for (let round = 0; round < 2; round++) {
      expectProduct(randn([8, 64]), w.select(0, 1));
      expectProduct(randn([4, 8, 64]), w);
      expectProduct(randn([1, 64, 256]), w.reshape([1, 256, 64]));
      expectProduct(randn([8, 256]), w.reshape([256, 64]));
      expectProduct(randn([2, 8, 128]), w.reshape([2, 128, 64]));
      expectProduct(randn([8, 64]), w.reshape([64, 256]));
    }
  });

  it('changed in place between the products', () => {
    manualSeed(4);
    const w = randn([64, 128]);
    const [a, b] = [randn([16, 64]), randn([16, 128])];
    for (let step = 0; step < 4; step++) {
      expectProduct(a, w);
      expectProduct(b, w.reshape([128, 64]));
      w.add_(step + 1);
      expectProduct(b, w.reshape([128, 64]));
      expectProduct(a, w);
      w.narrow(0, 0, 32).mul_(0.5);
      expectProduct(randn([16, 1]), w.reshape([1, 8192]));
    }
  });

  it('gives the gradients of weights that are shared in two shapes', () => {
    manualSeed(5);
    const [x, y] = [randn([32, 64]), randn([32, 128])];
    const start = randn([64, 128]);
    const run = (dtype: 'float32' | 'float64'): Tensor => {
      const w = start.to(dtype).clone();
      w.requiresGrad = true;
      const [p, q] = [mm(x.to(dtype), w), mm(y.to(dtype), w.reshape([128, 64]))];
      p.square().mean().add(q.square().mean()).backward();
      return w.grad as Tensor;
    };
    expect(run('float32').to('float64').allClose(run('float64'), { rtol: 1e-4, atol: 1e-4 })).toBe(true);
  });
});

describe('lifted TensorFlow.js code', () => {
  type Product = (a: tfc.Tensor, b: tfc.Tensor) => tfc.Tensor;
  const flat = (t: tfc.Tensor): tfc.Tensor1D => tfc.reshape<tfc.Rank.R1>(t, [-1]);

  it.each<[string, Product]>([
    ['matMul', (a, b) => tfc.matMul(a, b)],
    ['fused.matMul', (a, b) => tfc.fused.matMul({ a, b })],
  ])('may reshape what %s multiplies by', (_name, multiply) => {
    manualSeed(6);
    const [a, b, w] = [randn([32, 64]), randn([16, 128]), randn([64, 128])];
    const both = lift((x, y, v) => tfc.concat1d([flat(multiply(x, v)), flat(multiply(y, tfc.reshape(v, [128, 64])))]));
    const wanted = concat([exact(a, w).flatten(), exact(b, w.reshape([128, 64])).flatten()]);
    expect(both(a, b, w).to('float64').allClose(wanted, { atol: 1e-3 })).toBe(true);
  });
});

/** What the device's library holds: its heap and its tensors. */
interface Heap {
  readonly wasm: { readonly HEAPU8: Uint8Array };
  numDataIds(): number;
}

describe.runIf(backendName() === 'wasm')('the heap', () => {
  const heap = tfc.backend() as unknown as Heap;
  const held: Tensor[] = [];
  afterEach(() => {
    for (const t of held.splice(0)) t.dispose();
  });

  it('does not grow over steps that change, reshape and drop operands', () => {
    manualSeed(7);
    const w = randn([256, 512]);
    held.push(w);
    const step = (i: number): void =>
      scope(() => {
        // Rows enough that the weight is the operand that is packed.
        matmul(randn([250 + (i % 5), 256]), w).dataSync();
        matmul(randn([250, 512]), w.reshape([512, 256])).dataSync();
        matmul(randn([64, 2]), w.reshape([2, 65_536])).dataSync();
        matmul(w.transpose(0, 1), randn([256, 32])).dataSync();
        w.mul_(0.99);
      });
    for (let i = 0; i < 8; i++) step(i);
    const [bytes, ids] = [heap.wasm.HEAPU8.byteLength, heap.numDataIds()];
    for (let i = 0; i < 24; i++) step(i);
    expect([heap.wasm.HEAPU8.byteLength, heap.numDataIds()]).toEqual([bytes, ids]);
  });
});
