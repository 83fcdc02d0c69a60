/** @file A worker thread with an agent of its own, for tests of ports. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Tensor } from '@backwire/tensor';
import { createAgent, rpcFunction } from '../index.ts';

rpcFunction('thread/scale', (x: Tensor, by: number) => x.mul(by));
rpcFunction('thread/nothing', () => undefined);
rpcFunction('thread/hang', () => new Promise<void>(() => undefined));

const { store } = workerData as { store: string };
await createAgent({
  name: 'thread',
  rank: 1,
  worldSize: 2,
  store,
  transports: ['port', 'unix'],
});
parentPort?.postMessage('up');
