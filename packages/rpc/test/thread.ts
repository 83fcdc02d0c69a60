/** @file A worker thread with an agent of its own, for tests of ports. */
import { parentPort, workerData } from 'node:worker_threads';
import { tensor, type Tensor } from '@backwire/tensor';
import { createAgent, rpcFunction, rpcSync } from '../src/index.ts';

const scale = rpcFunction('thread/scale', (x: Tensor, by: number) => x.mul(by));
rpcFunction('thread/nothing', () => undefined);
rpcFunction('thread/hang', () => new Promise<void>(() => undefined));

interface Part {
  readonly store: string;
  /** @default 1 */
  readonly rank?: number;
  /** undefined = the default ones */
  readonly transports?: readonly string[];
  /** Calls the other one, shuts down, and leaves the thread to end by itself. */
  readonly ends?: boolean;
}

const { store, rank = 1, transports, ends = false } = workerData as Part;
const agent = await createAgent({
  name: rank === 1 ? 'thread' : 'main',
  rank,
  worldSize: 2,
  store,
  ...(transports === undefined ? {} : { transports }),
});
parentPort?.postMessage('up');
if (ends) {
  const size = 500_000;
  const large = tensor(new Float32Array(size).fill(1.5), { shape: [size] });
  const y = await agent.run(() => rpcSync(1 - rank, scale, [large, 2]));
  if (y.dataSync()[size - 1] !== 3) throw new Error('a wrong answer');
  await agent.shutdown();
}
