// Three threads of one process, which talk by message ports. All end by themselves, and the process with them.
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAgent, rpcAsync, rpcFunction, rpcInfo, tensor } from 'backwire';

const scale = rpcFunction('scale', (x, by) => x.mul(by));
let { rank, store } = workerData ?? { rank: 0 };
if (isMainThread) {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-threads-'));
  process.once('exit', () => rmSync(folder, { recursive: true }));
  store = `file://${join(folder, 'store')}`;
  for (const other of [1, 2]) new Worker(fileURLToPath(import.meta.url), { workerData: { rank: other, store } });
}
const transports = process.env.TRANSPORTS?.split(',');
const agent = await createAgent({
  name: `thread${rank}`,
  rank,
  worldSize: 3,
  store,
  ...(transports && { transports }),
});
if (isMainThread) {
  const answers = await Promise.all([1, 2].map((to) => rpcAsync(to, scale, [tensor([1, 2, 3]), 4 * to], { agent })));
  const error = await rpcAsync('nobody', scale, [answers[0], 1], { agent }).catch((thrown) => thrown);
  console.log(`answer ${JSON.stringify([...answers.map((y) => y.toArray()), rpcInfo(error)?.code])}`);
}
await agent.shutdown();
