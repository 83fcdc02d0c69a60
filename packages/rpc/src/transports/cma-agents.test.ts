/** @file Agents whose tensors go through memory: whole, beside small calls, over a link that breaks, and with nothing left behind. */
import { tensor, type Tensor } from '@backwire/tensor';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { rpcAsync, rpcFunction } from '../index.ts';
import { startCluster, type Cluster } from '../../test/cluster.ts';
import { CmaConnection } from './cma-connection.ts';
import { cmaTransport } from './cma.ts';
import { memoryHelper } from './memory-helper.ts';

const MIB = 1024 * 1024;
const negate = rpcFunction('cma-agents/negate', (x: Tensor) => x.neg());
const same = rpcFunction('cma-agents/same', (x: number) => x);

let cluster: Cluster | undefined;
afterEach(async () => {
  vi.restoreAllMocks();
  await cluster?.close();
  cluster = undefined;
});

/** A tensor whose every page is unlike the others. */
function numbers(elements: number): Tensor {
  return tensor(
    Float32Array.from({ length: elements }, (_, i) => i % 16_777_213),
    { shape: [elements] },
  );
}

function expectNegated(x: Tensor, elements: number): void {
  const data = x.dataSync();
  expect(data.length).toBe(elements);
  expect(data.findIndex((value, i) => value !== -(i % 16_777_213))).toBe(-1);
}

describe.skipIf(!cmaTransport().isViable())('agents over the cross-memory channel', { timeout: 60_000 }, () => {
  test('large tensors arrive whole, several at once and beside small calls; no thread is left', async () => {
    cluster = await startCluster(2, { transports: ['cma'] });
    const agent = cluster.at(0);
    const sizes = [4 * MIB + 3, 2 * MIB, 70_000];
    const large = sizes.map((elements) => agent.run(() => rpcAsync('w1', negate, [numbers(elements)])));
    let small = 0;
    const all = Promise.all(large);
    const busy = { now: true };
    void all.finally(() => (busy.now = false));
    while (busy.now) expect(await agent.run(() => rpcAsync('w1', same, [++small]))).toBe(small);
    (await all).forEach((x, i) => expectNegated(x, sizes[i] as number));
    expect(small).toBeGreaterThan(0);
    await cluster.close();
    cluster = undefined;
    await expect.poll(() => memoryHelper(() => false)).toBeUndefined();
  });

  test('a link that breaks in the middle of a tensor costs nothing', async () => {
    cluster = await startCluster(2, { transports: ['cma'] });
    const agent = cluster.at(0);
    await agent.run(() => rpcAsync('w1', negate, [numbers(MIB)]));
    const original = CmaConnection.prototype.write;
    let pieces = 0;
    vi.spyOn(CmaConnection.prototype, 'write').mockImplementation(function (this: CmaConnection, chunks, onFlushed) {
      original.call(this, chunks, onFlushed);
      if (chunks.some(({ byteLength }) => byteLength >= MIB) && (++pieces === 2 || pieces === 5)) this.destroy();
    });
    const elements = 5 * MIB + 1;
    expectNegated(await agent.run(() => rpcAsync('w1', negate, [numbers(elements)])), elements);
    expect(pieces).toBeGreaterThan(5);
  });
});
