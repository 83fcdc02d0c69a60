/** @file The user (rank 0) and the owner (rank 1) of the RRef suite. */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { initRpc, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, rrefs, type RRef } from '@backwire/rref';
import { serveAsks } from '../processes.ts';

/** RRefs that travel in one answer. */
const PER_CALL = 10_000;

const give = rpcFunction('bench/give', (n: number) => n);
const make = rpcFunction('bench/make', (count: number) => Array.from({ length: count }, (_, i) => createRRef(i)));

const rank = Number(process.env['BENCH_RANK']);
const held: RRef<number>[] = [];

// The owner starts first, and is up when the user is.
const joining = initRpc({
  name: `w${rank}`,
  rank,
  worldSize: 2,
  store: process.env['BENCH_STORE'] ?? '',
  transports: ['unix'],
  channels: [],
  extensions: [rrefs()],
  limits: { maxLiveForks: 2_000_000 },
});
if (rank === 0) await joining;

serveAsks({
  use,
  burst,
  hold,
  release,
  bytes,
  close: async () => (await joining).shutdown({ graceful: false }),
});

/** Microseconds of each `remote()` with its `toHere()`. */
async function use(count: number): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    const rref = remote('w1', give, [i]);
    await rref.toHere();
    rref.dispose();
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

/** Milliseconds of `count` calls of `remote()`, until all are confirmed. */
async function burst(count: number): Promise<number> {
  const started = performance.now();
  const made = Array.from({ length: count }, (_, i) => remote('w1', give, [i]));
  await Promise.all(made.map((rref) => rref.confirmed()));
  const elapsed = performance.now() - started;
  for (const rref of made) rref.dispose();
  return elapsed;
}

async function hold(count: number): Promise<void> {
  while (held.length < count) held.push(...(await rpcSync('w1', make, [PER_CALL], { timeoutMs: 0 })));
}

/** Messages in which everything held is given back. */
async function release(): Promise<number> {
  const agent = await joining;
  const messages = (): number => Number(agent.debugInfo()['num_delete_messages']);
  const before = messages();
  for (const rref of held) rref.dispose();
  held.length = 0;
  // Behind the deletes.
  await rpcSync('w1', give, [0], { timeoutMs: 0 });
  return messages() - before;
}

/** Bytes in use once everything unreachable is gone. */
async function bytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let i = 0; i < 3; i++) {
    collect();
    await sleep(50);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
