/** @file Results of builtins are estimated before they are made: what is larger than the limit takes no memory. */
import { afterEach, describe, expect, it } from 'vitest';
import * as tensors from '@backwire/tensor';
import { ones, rpcName, tensor, Tensor, type Named } from '@backwire/tensor';
import { rpcAsync, rpcFunction, rpcInfo, rpcSync, remoteFunction, type RpcOptions } from '../src/index.ts';
import { estimateInstance, estimateResult } from '../src/base/result-estimate.ts';
import { dtypeBytes } from '@backwire/wire/internal';
import { startCluster, type Cluster } from './cluster.ts';

const MIB = 2 ** 20;
const large = rpcFunction('results/large', (n: number) => ones([n]));
let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});
async function start(options: Partial<RpcOptions> = {}): Promise<Cluster> {
  return (cluster = await startCluster(2, options));
}

const ids = (...values: number[]): Tensor => tensor(values, { dtype: 'int64' });
const f = (...shape: number[]): Tensor => ones(shape);
/** Arguments with which each operation makes much of little, or as much as it can. */
const GROWING: Readonly<Record<string, () => unknown[]>> = {
  outer: () => [f(30), f(40)],
  matmul: () => [f(5, 1, 30, 1), f(4, 1, 40)],
  mm: () => [f(30, 1), f(1, 40)],
  bmm: () => [f(3, 30, 1), f(3, 1, 40)],
  addmm: () => [f(1), f(30, 1), f(1, 40)],
  linear: () => [f(2, 30, 1), f(40, 1)],
  scaled_dot_product_attention: () => [f(2, 30, 4), f(2, 3, 4), f(2, 3, 50)],
  linalg_solve: () => [
    f(2, 2).add(
      tensor([
        [1, 0],
        [0, 1],
      ]),
    ),
    f(5, 2, 7),
  ],
  cat: () => [[f(3, 4), f(5, 4)]],
  stack: () => [[f(3, 4), f(3, 4), f(3, 4)]],
  tile: () => [f(3, 1), [4, 50]],
  pad: () => [f(2, 3), [10, 20, 30, 40]],
  diag_embed: () => [f(2, 50)],
  one_hot: () => [ids(0, 90, 3), 200],
  bincount: () => [ids(1_000, 3)],
  nonzero: () => [
    tensor(
      [
        [true, true],
        [true, false],
      ],
      { dtype: 'bool' },
    ),
  ],
  index_select: () => [f(3, 4), 1, ids(...new Array<number>(90).fill(0))],
  gather: () => [f(3, 4), 1, tensors.zeros([3, 90], { dtype: 'int64' })],
  conv1d: () => [f(2, 1, 20), f(30, 1, 1), { padding: 40 }],
  conv2d: () => [f(1, 1, 4, 4), f(30, 1, 1, 1), { padding: [5, 6] }],
  conv_transpose2d: () => [f(1, 1, 4, 4), f(1, 30, 3, 3), { stride: 5 }],
  max_pool2d: () => [f(2, 3, 8, 8), 5, { stride: 1, padding: 2 }],
  avg_pool2d: () => [f(2, 3, 8, 8), 5, { stride: 1, padding: 2 }],
  adaptive_avg_pool2d: () => [f(2, 3, 4, 4), [50, 60]],
  upsample: () => [f(2, 3, 4, 5), { size: [30, 40] }],
  adaptive_avg_pool1d: () => [f(2, 3, 4), 500],
  conv3d: () => [f(1, 1, 4, 4, 4), f(30, 1, 1, 1, 1), { padding: [5, 6, 7] }],
  conv_transpose1d: () => [f(1, 1, 40), f(1, 30, 3), { stride: 5, outputPadding: 4 }],
  conv_transpose3d: () => [f(1, 1, 4, 4, 4), f(1, 30, 3, 3, 3), { stride: 3 }],
  max_pool1d: () => [f(2, 3, 80), 5, { stride: 1, padding: 2 }],
  avg_pool1d: () => [f(2, 3, 80), 5, { stride: 1, padding: 2 }],
  max_pool2d_with_indices: () => [f(2, 3, 8, 8), 5, { stride: 1, padding: 2 }],
  hstack: () => [[f(3, 4), f(3, 8)]],
  vstack: () => [[f(3, 4), f(9, 4)]],
  dstack: () => [[f(3, 4, 1), f(3, 4, 5)]],
  column_stack: () => [[f(30), f(30, 4)]],
  baddbmm: () => [f(1), f(3, 30, 1), f(3, 1, 40)],
  cdist: () => [f(30, 1), f(40, 1)],
  einsum: () => ['bi,j->bji', f(3, 30), f(40)],
  meshgrid: () => [[f(30), f(40)]],
  broadcast_tensors: () => [[f(30, 1), f(1, 40)]],
  broadcast_to: () => [f(30, 1), [5, 30, 40]],
  repeat: () => [f(3, 1), [4, 50, 2]],
  repeat_interleave: () => [f(3, 2), 70],
  index: () => [f(3, 4), ['...', ids(...new Array<number>(90).fill(0))]],
  take: () => [f(3), tensors.zeros([30, 40], { dtype: 'int64' })],
  take_along_dim: () => [f(3, 1), tensors.zeros([3, 90], { dtype: 'int64' }), 1],
  multinomial: () => [f(3, 2), 500, { replacement: true }],
  quantile: () => [f(30, 2), tensors.linspace(0, 1, 50), 1],
  linalg_svd: () => [f(3, 30)],
};
/** Of all tensors in a result. */
function bytesOf(value: unknown): number {
  if (value instanceof Tensor) return value.size * dtypeBytes(value.dtype)!;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, each) => sum + bytesOf(each), 0);
}

/** Numbers from 0 to below `n`, the same for one seed. */
function draws(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

function shown(value: unknown): string {
  if (value instanceof Tensor) return `${value.dtype}[${value.shape.join(', ')}]`;
  return Array.isArray(value) ? `[${value.map(shown).join(', ')}]` : JSON.stringify(value);
}

/** Something that one operation or another takes. */
function anyArgument(draw: (n: number) => number): unknown {
  const shape = (): number[] => Array.from({ length: draw(5) }, () => [1, 1, 2, 3, 7, 20][draw(6)]!);
  const kinds: (() => unknown)[] = [
    () => f(...shape()),
    () => f(...shape()),
    () => tensors.zeros(shape(), { dtype: 'int64' }),
    () => tensors.zeros(shape(), { dtype: 'bool' }),
    () => [f(20, 1), f(1, 20), f(20, 20)].slice(0, 1 + draw(3)),
    () => [0, 1, 2, 40][draw(4)],
    () => shape().map((size) => size + draw(2) * 30),
    () => [':', null, '...', 0, ids(0, 0, 0, 0), tensor([true])].slice(draw(3), 3 + draw(4)),
    () => ({ padding: draw(9), stride: 1 + draw(3), replacement: true }),
    () => [{ size: [draw(40), draw(40)] }, { scaleFactor: draw(9) + 0.5 }, { size: 1 + draw(300) }][draw(3)],
    () => ['ij,jk->ik', 'i,j->ij', 'i,j,k->', '...i,...j->...ij', 'ij,kl->ijkl'][draw(5)],
  ];
  return kinds[draw(kinds.length)]!();
}

describe('estimates', () => {
  const operations = Object.values(tensors as Record<string, unknown>).filter(
    (value): value is ((...args: unknown[]) => unknown) & Named =>
      typeof value === 'function' &&
      Object.hasOwn(value, rpcName) &&
      String((value as unknown as Named)[rpcName]).startsWith('aten::'),
  );

  it.each(Object.keys(GROWING))('%s: no less than it makes, and no more than four times as much', (name) => {
    const operation = operations.find((each) => each[rpcName] === `aten::${name}`)!;
    const args = GROWING[name]!();
    const made = bytesOf(operation(...args));
    const estimate = estimateResult(`aten::${name}`, args);
    expect(estimate).toBeGreaterThanOrEqual(made);
    expect(estimate).toBeLessThanOrEqual(4 * made + 1_000);
  });

  it.each([1, 2, 3, 100, 112])(
    'are no less than a third of what is made of whatever a peer may send (seed %i)',
    (seed) => {
      const draw = draws(seed);
      let ran = 0;
      for (let i = 0; i < 8_000; i++) {
        const operation = operations[draw(operations.length)]!;
        const args = Array.from({ length: 1 + draw(4) }, () => anyArgument(draw));
        let made: unknown;
        try {
          // What it makes on the way is its own: the estimate is of what it gives.
          if (estimateResult(operation[rpcName], args) > 64 * MIB) continue;
          made = tensors.scope(() => operation(...args));
        } catch {
          continue; // it takes something else
        }
        ran++;
        // Values often come with their positions, which are int64.
        const most = 3 * estimateResult(operation[rpcName], args) + 64;
        if (bytesOf(made) > most)
          expect.fail(`${operation[rpcName]} of ${shown(args)}: ${bytesOf(made)} bytes, not ${most}`);
      }
      expect(ran).toBeGreaterThan(500);
    },
  );

  it('of methods of tensors are those of the operations', () => {
    expect(estimateResult('outer', [f(30), f(40)])).toBe(4_800);
    expect(estimateResult('indexSelect', [f(3), 0, ids(0, 0, 0, 0)])).toBe(4 * 8);
    expect(estimateResult('contiguous', [f(1, 1).expand([500, 400])])).toBe(800_000);
  });

  it('of classes are their sizes multiplied', () => {
    expect(estimateInstance([100, 200])).toBeGreaterThanOrEqual(100 * 200 * 4);
    expect(estimateInstance([[64, 64], { eps: 1e-5 }])).toBeLessThan(MIB);
    expect(estimateInstance([0.5])).toBeLessThan(1_000);
  });
});

describe('a peer that asks for gigabytes', () => {
  it.each<[string, () => unknown[]]>([
    ['aten::outer', () => [f(25_000), f(25_000)]],
    ['aten::add', () => [f(25_000, 1), f(1, 25_000)]],
    ['aten::tile', () => [f(1), [2 ** 30]]],
    ['aten::one_hot', () => [ids(1), 2 ** 31]],
    ['aten::bincount', () => [ids(2 ** 31)]],
    ['aten::repeat', () => [f(1), [2 ** 30]]],
    ['aten::einsum', () => ['i,j->ij', f(25_000), f(25_000)]],
    ['aten::meshgrid', () => [[f(25_000), f(25_000)]]],
    ['aten::upsample', () => [f(1, 1, 2, 2), { scaleFactor: 2 ** 14 }]],
    // What comes besides and is ignored does not hide the rest.
    ['aten::add', () => [f(25_000, 1), f(1, 25_000), f(3, 3)]],
  ])('with %s is told the limit, and takes no memory', async (name, args) => {
    const { at } = await start();
    const before = process.memoryUsage().arrayBuffers;
    const fn = tensors as unknown as Record<string, Named>;
    const operation = Object.values(fn).find((each) => typeof each === 'function' && each[rpcName] === name)!;
    const error = await at(0)
      .run(() => rpcSync('w1', operation, args() as never))
      .catch((reason: unknown) => reason);
    const info = rpcInfo(error);
    expect([info?.code, info?.executed]).toEqual(['resource-exhausted', 'no']);
    expect((error as Error).message).toMatch(/'w1' makes at most 1073741824 .*limits\.maxResultBytes/);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * MIB);
  });

  it('with a class of nn is told the same', async () => {
    const { at } = await start();
    const Linear = remoteFunction<(...sizes: number[]) => unknown>('nn.Linear');
    const error = await at(0)
      .run(() => rpcSync('w1', Linear, [100_000, 100_000]))
      .catch((reason: unknown) => reason);
    expect(rpcInfo(error)?.code).toBe('resource-exhausted');
  });

  it('gets what is below the limit, which is the worker to set; its own functions have none', async () => {
    const { at } = await start({ limits: { maxResultBytes: 40_000 } });
    const outer = (n: number): Promise<unknown> => at(0).run(() => rpcAsync('w1', tensors.outer, [f(n), f(100)]));
    expect(((await outer(100)) as Tensor).shape).toEqual([100, 100]);
    expect(rpcInfo(await outer(101).catch((error: unknown) => error))?.code).toBe('resource-exhausted');
    expect((await at(0).run(() => rpcSync('w1', large, [100_000]))).size).toBe(100_000);
  });
});
