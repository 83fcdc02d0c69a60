/** TypeScript that is JavaScript without its types. */
import { initRpc, rpcFunction, rpcSync, shutdown } from 'backwire';

const own = rpcFunction('own', (x: number): number => x + 1);
const rank = Number(process.env['RANK']);
await initRpc({ name: `worker${rank}` });
if (rank === 0) console.log(`answer ${JSON.stringify(await rpcSync('worker1', own, [1]))}`);
await shutdown();
