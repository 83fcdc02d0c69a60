import { currentAgent, initRpc, remoteFunction, rpcAsync, rpcInfo, shutdown, type WorkerInfo } from 'backwire';
import type { count as Count } from './count.ts';

const count = remoteFunction<typeof Count>('pi/count');
const ROUNDS = 600;
const POINTS = 10_000;

await initRpc({ name: 'coordinator', group: 'pages', membership: 'dynamic', transports: ['unix', 'ws'], serve: [] });
const todo = Array.from({ length: ROUNDS }, (_, seed) => seed);
let inside = 0;
let done = 0;

/** Gives a page one round after the other, until none is left or the page is gone. */
async function employ(page: WorkerInfo): Promise<void> {
  console.log(`${page.name} is here`);
  for (let seed = todo.pop(); seed !== undefined; seed = todo.pop()) {
    try {
      inside += await rpcAsync(page, count, [seed, POINTS], { timeoutMs: 10_000 });
      done++;
    } catch (error) {
      todo.push(seed); // another page will do it; nothing but this count depends on it
      console.log(`${page.name} is gone: ${rpcInfo(error)?.code}`);
      return;
    }
  }
  if (done === ROUNDS) console.log(`pi is about ${((4 * inside) / (ROUNDS * POINTS)).toFixed(3)}`);
}

currentAgent().on('peer-joined', (page) => void employ(page));
console.log('waiting for pages');
process.on('SIGINT', () => {
  shutdown({ timeoutMs: 2_000 }).catch((error: Error) => console.error(error.message)); // calls that last longer
});
