import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { fromBytes, initRpc, rpcAsync, shutdown } from 'backwire';
import { lengths } from './lengths.ts';

const [THREADS, ROWS, COLUMNS] = [2, 4_000, 1_000];
const folder = mkdtempSync(join(tmpdir(), 'threads-')); // where they meet
const group = { worldSize: THREADS + 1, store: pathToFileURL(folder).href };

const ended = Array.from({ length: THREADS }, (_, i) =>
  once(startThread(new URL('thread.ts', import.meta.url), { ...group, rank: i + 1 }), 'exit'),
);
await initRpc({ name: 'main', rank: 0, ...group, transports: ['port'] });

// A tensor over shared memory goes to the other threads as it is; any other one is copied.
const memory = new SharedArrayBuffer(4 * ROWS * COLUMNS);
new Float32Array(memory).fill(2);
const x = fromBytes(new Uint8Array(memory), [ROWS, COLUMNS], 'float32');

const share = ROWS / THREADS;
const parts = await Promise.all(
  Array.from({ length: THREADS }, (_, i) => rpcAsync(`thread${i + 1}`, lengths, [x, i * share, share])),
);
for (const part of parts) console.log(part.shape, part.select(0, 0).item().toFixed(2)); // [ 2000 ] 63.25
await shutdown();
await Promise.all(ended); // until then the threads take leave of each other, in the folder
rmSync(folder, { recursive: true });

/** Node 22.18 and newer runs TypeScript in threads by itself: `new Worker(url, { workerData })`. Before that tsx does. */
function startThread(url: URL, workerData: object): Worker {
  const tsx = import.meta.resolve('tsx/esm/api');
  const code = `import('${tsx}').then(({ register }) => { register(); return import('${url.href}'); })`;
  return new Worker(code, { eval: true, workerData });
}
