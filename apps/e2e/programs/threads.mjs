// Two threads of one process, which talk by a message port.
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAgent, rpcAsync, rpcFunction, rpcInfo, tensor } from 'backwire';

const scale = rpcFunction('scale', (x, by) => x.mul(by));
const store = isMainThread
  ? `file://${join(mkdtempSync(join(tmpdir(), 'backwire-threads-')), 'store')}`
  : workerData.store;
const rank = isMainThread ? 0 : 1;
if (isMainThread) new Worker(fileURLToPath(import.meta.url), { workerData: { store } });
const agent = await createAgent({ name: `thread${rank}`, rank, worldSize: 2, store, transports: ['port', 'unix'] });
if (isMainThread) {
  const y = await rpcAsync('thread1', scale, [tensor([1, 2, 3]), 4], { agent });
  const error = await rpcAsync('nobody', scale, [y, 1], { agent }).catch((thrown) => thrown);
  console.log(`answer ${JSON.stringify([y.toArray(), rpcInfo(error)?.code])}`);
}
await agent.shutdown();
process.exit();
