/** @file Members that a worker has had nothing to do with: they cost it no session, and are as visible as all others. */
import { afterEach, expect, it } from 'vitest';
import { getWorkerInfos, rpcFunction, rpcInfo, rpcSync } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const add = rpcFunction('unmet/add', (a: number, b: number) => a + b);

let cluster: Cluster;
afterEach(() => cluster.close());

const met = (rank: number): string[] => (cluster.at(rank) as Agent).members.list().map(({ worker }) => worker.name);

it('a session is made by the first call either way, and by nothing else', async () => {
  cluster = await startCluster(4);
  const names = cluster.at(0).run(() => getWorkerInfos().map(({ name }) => name));
  expect(names).toEqual(['w0', 'w1', 'w2', 'w3']);
  const { peers } = (cluster.at(0) as Agent).metrics();
  expect(peers).toEqual(
    ['w1', 'w2', 'w3'].map((name) => {
      return { name, up: false, pendingBytes: 0, bytesSent: 0, bytesReceived: 0, reconnects: 0 };
    }),
  );
  expect([0, 1, 2, 3].map(met)).toEqual([[], [], [], []]);
  expect(await cluster.at(0).run(() => rpcSync('w2', add, [1, 2]))).toBe(3);
  expect([0, 1, 2, 3].map(met)).toEqual([['w2'], [], ['w0'], []]);
  expect(await cluster.at(2).run(() => rpcSync(0, add, [2, 2]))).toBe(4);
  expect(met(2)).toEqual(['w0']);
});

it('one that leaves unmet has left for whoever calls it afterwards', async () => {
  cluster = await startCluster(3);
  await cluster.at(1).shutdown({ graceful: false });
  await until(() => (cluster.at(0) as Agent).members.others().length === 1);
  for (const to of ['w1', 1]) {
    const error = await cluster
      .at(0)
      .run(() => rpcSync(to, add, [1, 2]))
      .catch((thrown: unknown) => thrown);
    expect([rpcInfo(error)?.code, String(error)]).toEqual([
      'unavailable',
      expect.stringContaining("worker 'w1' has left the group"),
    ]);
  }
  expect(met(0)).toEqual([]);
});
