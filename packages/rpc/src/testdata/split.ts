/** @file A worker of a group whose rank 0, which serves the store, falls silent without being gone. */
import { initRpc, rpcFunction, rpcInfo, rpcSync } from '../index.ts';

const echo = rpcFunction('split/echo', (x: number) => x);
const rank = Number(process.env['RANK']);
const liveness = { pingMs: 300, suspectMs: 800, deadMs: 2_500, leaseMs: 2_000 };
const agent = await initRpc({ name: `w${rank}`, rank, worldSize: 3, liveness, logger: silentLogger() });
agent.on('fenced', () => void report());
await rpcSync('w0', echo, [1]);
console.log('ready');
setInterval(() => undefined, 1_000);

async function report(): Promise<void> {
  const other = rank === 1 ? 'w2' : 'w1';
  const outcome = await rpcSync(other, echo, [1]).then(String, (error: unknown) => rpcInfo(error)?.code);
  console.log(`fenced: a call to ${other} gives ${outcome}`);
  process.exit(0);
}

function silentLogger() {
  const nothing = (): void => undefined;
  return { debug: nothing, info: nothing, warn: nothing, error: nothing };
}
