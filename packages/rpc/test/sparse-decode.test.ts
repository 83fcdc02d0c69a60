/** @file Tensors whose bytes arrive but mean nothing: the call is answered with an error that says so, and the link goes on. */
import { afterEach, describe, expect, it } from 'vitest';
import { tensor, zeros, type Tensor } from '@backwire/tensor';
import { sparseFromParts } from '@backwire/tensor/internal';
import { memory } from '@backwire/tensor';
import type { Agent } from '../src/agent/agent.ts';
import { rpcAsync, rpcFunction, rpcInfo, rpcStream } from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

/** `count` indices into a vector of 4, all beyond it; more than an inline frame holds when there are many. */
function beyond(count: number): Tensor {
  const indices = tensor(Array<number>(count).fill(9), { dtype: 'int64', shape: [1, count] });
  return sparseFromParts({ indices, values: zeros([count]), shape: [4], coalesced: false, requiresGrad: false });
}

let runs = 0;
const take = rpcFunction('sparse-decode/take', (x: Tensor) => {
  runs++;
  return x.layout;
});
const give = rpcFunction('sparse-decode/give', (count: number) => beyond(count));
const stream = rpcFunction('sparse-decode/stream', function* (count: number) {
  yield zeros([2]);
  yield beyond(count);
});

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
  runs = 0;
});

describe.each([
  ['in the frame', 3],
  ['beside it', 40_000],
])('sparse indices outside of their shape, %s,', (_where, count) => {
  it('in the arguments are a decode error that the caller gets, and nothing runs', async () => {
    cluster = await startCluster(2, { transports: ['unix'] });
    await cluster.at(0).run(async () => {
      const link = (cluster?.at(0) as Agent).members.find('w1');
      await rpcAsync('w1', take, [zeros([1])]);
      const before = link.link;
      const error: unknown = await rpcAsync('w1', take, [beyond(count)]).catch((e: unknown) => e);
      expect(rpcInfo(error)).toMatchObject({ code: 'decode-error', executed: 'no' });
      expect((error as Error).message).toMatch(/worker 'w0'.*a sparse index is outside dimension 0 of size 4/);
      expect(await rpcAsync('w1', take, [zeros([1])])).toBe('strided');
      expect(runs).toBe(2);
      expect(link.link).toBe(before);
    });
  });

  it('in a result are the same, and the handler has run', async () => {
    cluster = await startCluster(2, { transports: ['unix'] });
    await cluster.at(0).run(async () => {
      const error: unknown = await rpcAsync('w1', give, [count]).catch((e: unknown) => e);
      expect(rpcInfo(error)).toMatchObject({ code: 'decode-error', executed: 'yes' });
      expect((error as Error).message).toMatch(/worker 'w1'.*a sparse index is outside dimension 0/);
      expect(await rpcAsync('w1', take, [zeros([1])])).toBe('strided');
    });
  });

  it('in an item of a stream end the stream', async () => {
    cluster = await startCluster(2, { transports: ['unix'] });
    await cluster.at(0).run(async () => {
      const items: Tensor[] = [];
      const read = async (): Promise<void> => {
        for await (const item of rpcStream('w1', stream, [count])) items.push(item);
      };
      const error: unknown = await read().catch((e: unknown) => e);
      expect(rpcInfo(error)).toMatchObject({ code: 'decode-error' });
      expect(await rpcAsync('w1', take, [zeros([1])])).toBe('strided');
      expect(cluster?.at(0).debugInfo()['agent.client_active_calls']).toBe(0);
    });
  });
});

it('memory of what could not be decoded is given back', async () => {
  cluster = await startCluster(2, { transports: ['unix'] });
  const agent = cluster.at(0);
  await agent.run(async () => {
    const bad = beyond(40_000);
    await rpcAsync('w1', take, [bad]).catch(() => undefined);
    const before = memory().storages;
    for (let i = 0; i < 20; i++) await rpcAsync('w1', take, [bad]).catch(() => undefined);
    expect(memory().storages).toBeLessThanOrEqual(before);
    expect((agent as Agent).members.find('w1').sender.session.bodies.pendingBytes).toBe(0);
  });
});
