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
};
const bytesOf = (value: unknown): number => (value instanceof Tensor ? value.size * dtypeBytes(value.dtype)! : 0);

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

  it('of all other operations are what their tensors are together', () => {
    const [a, b] = [f(30, 1), f(1, 40)];
    const others = operations.filter((each) => !(each[rpcName].slice(6) in GROWING));
    expect(others.length).toBeGreaterThan(100);
    let ran = 0;
    for (const operation of others) {
      for (const args of [[a], [a, b], [a, 0], [a, b, b], [a, 0, ids(0)]]) {
        let made: unknown;
        try {
          made = operation(...args);
        } catch {
          continue; // it takes something else
        }
        ran++;
        // Positions among the results are int64, and of truth values nothing is smaller than one byte.
        expect(bytesOf(made), operation[rpcName]).toBeLessThanOrEqual(2 * estimateResult(operation[rpcName], args));
      }
    }
    expect(ran).toBeGreaterThan(100);
  });

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
