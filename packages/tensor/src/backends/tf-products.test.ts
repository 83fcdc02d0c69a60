/** @file Both ways to native TensorFlow's products, its library and its addon, in memory of ours; and what is no such library is passed over. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { backendName } from '../index.ts';
import { currentBackend, currentDevice } from './current.ts';
import type { Heap } from './heap.ts';
import type { MultiplyAll } from './products.ts';
import { addonProducts } from './tf-addon-products.ts';
import { libraryProducts } from './tf-library-products.ts';
import { TensorflowLibrary } from './tf-library.ts';
import { NativeOps, type Binding } from './tf-native.ts';
import { loadTfjsNode } from './tfjs-node.ts';

const heapOf = (): Heap => (currentBackend() as unknown as { heap: Heap }).heap;

let seed = 5;
/** Whole numbers from -8 to 8: their products have the same bits whoever adds them up. */
const whole = (): number => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) >> 27) % 9;

/** Operands that start at a multiple of 64 bytes and that do not, in batches, of one row, one column, one element and more than a cache holds. */
const PRODUCTS = [
  { batches: 1, m: 1, n: 1, k: 1, gap: 0 },
  { batches: 1, m: 3, n: 5, k: 7, gap: 1 },
  { batches: 1, m: 1, n: 300, k: 90, gap: 0 },
  { batches: 1, m: 300, n: 1, k: 90, gap: 3 },
  { batches: 1, m: 129, n: 67, k: 131, gap: 0 },
  { batches: 4, m: 9, n: 33, k: 17, gap: 0 },
  { batches: 3, m: 17, n: 16, k: 1, gap: 5 },
  { batches: 2, m: 300, n: 200, k: 700, gap: 0 },
] as const;
/** Elements behind a result that have to stay as they are. */
const GUARD = 64;

const onHost = backendName() === 'tensorflow' && currentDevice() === 'cpu';

describe.runIf(onHost).each(['library', 'addon'] as const)('products by the %s', (way) => {
  const opened = (): MultiplyAll => {
    const { tf, folder } = loadTfjsNode(true);
    if (way === 'addon')
      return addonProducts(new NativeOps((tf.backend() as unknown as { binding: Binding }).binding), heapOf());
    const library = TensorflowLibrary.open(folder) as TensorflowLibrary;
    expect(library.path).toMatch(/^\/.*libtensorflow\.so/);
    return libraryProducts(library, heapOf()) as MultiplyAll;
  };

  describe.each(PRODUCTS)('of $batches × [$m, $k] [$k, $n], $gap elements off', ({ batches, m, n, k, gap }) => {
    it.each([
      [false, false],
      [true, false],
      [false, true],
      [true, true],
    ])('have the exact sums and write nothing else, turned: %s, %s', (turnA, turnB) => {
      const multiply = opened();
      const heap = heapOf();
      const sizes = [batches * m * k + gap, batches * k * n + gap, batches * m * n + GUARD];
      const blocks = sizes.map((size) => heap.make(size, 'float32'));
      try {
        const [a, b, out] = blocks.map((block, i) => ({
          at: block.at + (i < 2 ? 4 * gap : 0),
          values: new Float32Array(heap.memory.buffer, block.at, sizes[i]),
        })) as [Operand, Operand, Operand];
        for (const { values } of [a, b]) values.forEach((_, i) => (values[i] = whole()));
        out.values.fill(7);
        multiply(heap, { m, n, k, a: a.at, turnA, b: b.at, turnB, out: out.at }, batches);
        const want: number[] = [];
        for (let batch = 0; batch < batches; batch++)
          for (let i = 0; i < m; i++)
            for (let j = 0; j < n; j++) {
              let sum = 0;
              for (let p = 0; p < k; p++) {
                const x = a.values[gap + batch * m * k + (turnA ? p * m + i : i * k + p)] as number;
                sum += x * (b.values[gap + batch * k * n + (turnB ? j * k + p : p * n + j)] as number);
              }
              want.push(sum);
            }
        expect([...out.values.subarray(0, want.length)]).toEqual(want);
        expect(new Set(out.values.subarray(want.length))).toEqual(new Set([7]));
      } finally {
        for (const block of blocks) heap.free(block);
      }
    });
  });
});

/** Products of every layout, a convolution and its gradients for a second; prints how often a result was another than the first. */
const UNDER_SIGNALS = `
  const bw = await import('@backwire/tensor');
  let others = 0;
  const same = (make) => {
    const first = make();
    for (const end = performance.now() + 200; performance.now() < end; )
      if (make().some((value, i) => value !== first[i])) others++;
  };
  const [a, b] = [7, 5].map((n) => bw.arange(784 * 128).remainder(n).to('float32'));
  const sum = (t) => [t.square().sum().item()];
  same(() => bw.scope(() => sum(a.reshape([128, 784]).matmul(b.reshape([784, 128])))));
  same(() => bw.scope(() => sum(a.reshape([784, 128]).t().matmul(b.reshape([784, 128])))));
  same(() => bw.scope(() => sum(a.reshape([128, 784]).matmul(b.reshape([128, 784]).t()))));
  const [x, f] = [bw.ones([8, 16, 20, 20], { requiresGrad: true }), bw.ones([24, 16, 3, 3], { requiresGrad: true })];
  same(() => bw.scope(() => {
    x.grad = f.grad = null;
    const y = bw.conv2d(x, f, { padding: [1, 1] });
    y.sum().backward();
    return [...sum(y.detach()), ...sum(x.grad), ...sum(f.grad)];
  }));
  console.log(bw.backendName(), others);
`;

it.runIf(onHost)('stay right, and the process alive, while a profiler interrupts them', { timeout: 60_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'profile-'));
  const flags = ['--cpu-prof', '--cpu-prof-interval=100', `--cpu-prof-dir=${folder}`, '--import=tsx'];
  try {
    const { status, signal, stdout } = spawnSync(
      process.execPath,
      [...flags, '--conditions=@backwire/source', '--input-type=module', '--eval', UNDER_SIGNALS],
      { cwd: import.meta.dirname, encoding: 'utf8', env: { ...process.env, BACKWIRE_BACKEND: 'tensorflow' } },
    );
    expect([status, signal, stdout.trim()]).toEqual([0, null, 'tensorflow 0']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

interface Operand {
  readonly at: number;
  readonly values: Float32Array;
}

describe.runIf(process.platform === 'linux' && backendName() === 'wasm')('a library of TensorFlow', () => {
  let folder: string;
  // Not as the tests are collected, which happens to those that are skipped, too.
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tensorflow-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('that is not there is passed over', () => {
    expect(TensorflowLibrary.open(join(folder, 'nowhere'))).toBeUndefined();
  });

  it('that is another one is passed over', () => {
    mkdirSync(join(folder, 'deps/lib'), { recursive: true });
    const other = (process.report.getReport() as { sharedObjects: string[] }).sharedObjects.find((path) =>
      /libm[.-]/.test(path),
    );
    copyFileSync(other as string, join(folder, 'deps/lib/libtensorflow.so.2'));
    expect(TensorflowLibrary.open(folder)).toBeUndefined();
  });
});
