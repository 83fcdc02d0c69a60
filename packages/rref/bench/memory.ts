/** @file What a live RRef costs: bytes of heap on its owner and on its user, measured with real agents. `node --expose-gc … [count]`. */
import { createAgent, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { createRRef, rrefs, type RRef } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

const PER_MESSAGE = 10_000;
const count = Number(process.argv[2] ?? 1_000_000);
const collect = (globalThis as { gc?: () => void }).gc;
if (collect === undefined) throw new Error('run with --expose-gc');

const give = rpcFunction('memory/give', (many: number) => Array.from({ length: many }, (_, i) => createRRef(i)));

async function heap(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect?.();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return process.memoryUsage().heapUsed;
}

const agents = await Promise.all(
  [0, 1].map((rank) =>
    createAgent({ name: `w${rank}`, rank, worldSize: 2, store: 'memory://memory', extensions: [rrefs()] }),
  ),
);
const [user, owner] = agents as [RpcAgent, RpcAgent];
const held: RRef<number>[][] = [];
await user.run(() => rpcSync('w1', give, [PER_MESSAGE])).then((first) => first.forEach((rref) => rref.dispose()));
const before = await heap();
const started = performance.now();
for (let n = 0; n < count; n += PER_MESSAGE) held.push(await user.run(() => rpcSync('w1', give, [PER_MESSAGE])));
const made = performance.now() - started;
const both = (await heap()) - before;

// What is left when the owner forgets is the user's side: handles, tables and the registry of finalizers.
sessionOf(owner).worker.owners.clear();
const userSide = (await heap()) - before;
const ownerSide = both - userSide;
const releasing = performance.now();
for (const list of held) for (const rref of list) rref.dispose();
await user.run(() => rpcSync('w1', give, [1]));
const released = performance.now() - releasing;
held.length = 0;
const after = (await heap()) - before;

const per = (bytes: number): string => `${(bytes / count).toFixed(0)} bytes`;
console.log(`${count} live RRefs: ${per(ownerSide)} each on the owner, ${per(userSide)} each on the user`);
console.log(
  `made in ${(made / 1_000).toFixed(1)} s, released in ${(released / 1_000).toFixed(1)} s; ${per(after)} each left afterwards`,
);
await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
