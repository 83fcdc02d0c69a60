import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as delay } from 'node:timers/promises';
import { currentAgent, initRpc, profiler, rpcFunction, rpcSync, shutdown, tensor, type Tensor } from 'backwire';

const work = rpcFunction('observed/work', (x: Tensor) => x.matmul(x).sum());
const slow = rpcFunction('observed/slow', () => delay(120));

const rank = Number(process.env.RANK);
await initRpc({ name: `worker${rank}`, logger: console }); // or a logger of pino

// Who comes, goes and is silent.
for (const event of ['peer-joined', 'peer-left', 'peer-suspect', 'peer-down'] as const)
  currentAgent().on(event, ({ name }) => console.warn(`${event}: ${name}`));

if (rank === 0) {
  // For Prometheus: each worker has its own port.
  const metrics = await profiler.serveMetrics({ port: Number(process.env.METRICS_PORT ?? 9464) });
  console.log(`metrics: ${metrics.url}`);

  // Calls that take long, with the worker that was asked.
  const began = new WeakMap<object, number>();
  subscribe('tracing:backwire:rpc.call:start', (message) => void began.set(message as object, performance.now()));
  subscribe('tracing:backwire:rpc.call:asyncEnd', (message) => {
    const { method, peer } = message as { method: string; peer: string };
    const ms = performance.now() - (began.get(message as object) ?? Infinity);
    if (ms > 100) console.warn(`slow: ${method} on ${peer}`);
  });
  await rpcSync('worker1', slow);

  // Where the time of some calls goes, here and there.
  const x = tensor([
    [1, 2],
    [3, 4],
  ]);
  const { profile } = await profiler.profile(async () => {
    for (let i = 0; i < 10; i++) await rpcSync('worker1', work, [x]);
  });
  console.log(profile.keyAverages().table({ sortBy: 'total', limit: 5 }));
  await profile.writeChromeTrace(process.env.TRACE ?? 'trace.json');

  console.log('working');
  const stop = new AbortController();
  process.on('SIGTERM', () => stop.abort());
  while (!stop.signal.aborted) {
    await rpcSync('worker1', work, [x]);
    await delay(50, undefined, { signal: stop.signal }).catch(() => undefined);
  }
  await metrics.close();
}
process.on('SIGTERM', () => undefined); // the launcher tells all; they end together
await shutdown();
