/** @file The caller (rank 0) and the callee (rank 1) of the profiler suite, with or without the profiler. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { initRpc, rpcAsync, rpcFunction } from '@backwire/rpc';
import { measureCalls, profile, profiling } from '@backwire/profiler';
import { serveAsks } from '../processes.ts';

const add = rpcFunction('bench/add', (a: number, b: number) => a + b);
const rank = Number(process.env['BENCH_RANK']);
const joining = initRpc({
  name: `w${rank}`,
  rank,
  worldSize: 2,
  store: process.env['BENCH_STORE'] ?? '',
  transports: ['unix'],
  extensions: process.env['BENCH_PROFILER'] === 'present' ? [profiling()] : [],
});
if (rank === 0) await joining;

serveAsks({
  latency,
  throughput,
  allocated,
  profiled: async (count: number) => (await profile(() => latency(count))).value,
  measure: async () => void measureCalls(await joining),
  hooks: async () => Number((await joining).debugInfo()['num_profiler_hooks'] ?? 0),
  close: async () => (await joining).shutdown({ graceful: false }),
});

/** Microseconds of each of `count` calls, one after the other. */
async function latency(count: number): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    await rpcAsync('w1', add, [i, 1]);
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

/** Calls per second, all started at once. */
async function throughput(count: number): Promise<number> {
  const started = performance.now();
  await Promise.all(Array.from({ length: count }, (_, i) => rpcAsync('w1', add, [i, 1])));
  return (count / (performance.now() - started)) * 1_000;
}

/** Bytes of heap that a call takes on this side before any of it is collected. */
async function allocated(count: number): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i++) await rpcAsync('w1', add, [i, 1]);
  return (process.memoryUsage().heapUsed - before) / count;
}
