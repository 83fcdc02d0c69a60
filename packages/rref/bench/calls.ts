/** @file What a call through an RRef costs next to a plain call: agents in one process, one call after the other, then many at once. */
import { createAgent, rpcClass, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { rpcName } from '@backwire/tensor';
import { remote, rrefs } from '../src/index.ts';

const ROUNDS = 5;
const CALLS = 4_000;

class Adder {
  static readonly [rpcName] = 'bench/Adder';
  n = 0;
  add(by: number): number {
    return (this.n += by);
  }
}
rpcClass(Adder, { methods: ['add'] });
const plain = rpcFunction('bench/plain', (by: number) => by);

const agents = await Promise.all(
  [0, 1].map((rank) =>
    createAgent({ name: `w${rank}`, rank, worldSize: 2, store: 'memory://calls', extensions: [rrefs()] }),
  ),
);
const caller = agents[0] as RpcAgent;

const best: Record<string, number> = {};
async function measure(name: string, calls: number, fn: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  await fn();
  const microseconds = ((performance.now() - started) * 1_000) / calls;
  best[name] = Math.min(best[name] ?? Infinity, microseconds);
}

await caller.run(async () => {
  const adder = remote('w1', Adder);
  const proxy = adder.rpcSync();
  const counter = remote('w1', plain, [7]);
  const makeUseDrop = async (): Promise<void> => {
    using rref = remote('w1', plain, [1]);
    await rref.toHere();
  };
  const serial = async (one: () => Promise<unknown>): Promise<void> => {
    for (let i = 0; i < CALLS; i++) await one();
  };
  const parallel = (one: () => Promise<unknown>): Promise<unknown> => Promise.all(Array.from({ length: CALLS }, one));
  for (let round = 0; round < ROUNDS; round++) {
    await measure('plain call', CALLS, () => serial(() => rpcSync('w1', plain, [1])));
    await measure('method of an RRef', CALLS, () => serial(() => proxy.add(1)));
    await measure('toHere', CALLS, () => serial(() => counter.toHere()));
    await measure('plain calls at once', CALLS, () => parallel(() => rpcSync('w1', plain, [1])));
    await measure('methods at once', CALLS, () => parallel(() => proxy.add(1)));
    await measure('remote, use, dispose', CALLS, () => serial(makeUseDrop));
  }
});

for (const [name, microseconds] of Object.entries(best)) console.log(`${name}: ${microseconds.toFixed(1)} µs`);
await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
