/** @file One of the two workers of the soak: calls of every kind, over and over. */
import { initRpc, rpcAsync, rpcFunction, rpcOneway, rpcStream, rpcSync, waitAll, type RpcAgent } from '@backwire/rpc';
import { memory, ones, type Tensor } from '@backwire/tensor';
import { residentMiB } from '../memory.ts';
import { serveAsks } from '../processes.ts';
import { agentOptions } from './backwire.ts';

const add = rpcFunction('soak/add', (a: number, b: number) => a + b);
const told = rpcFunction('soak/told', (_: string) => undefined);
const echo = rpcFunction('soak/echo', (x: Tensor) => x, { scope: true });
const record = rpcFunction('soak/record', (value: { name: string; list: number[] }) => value);
const slow = rpcFunction('soak/slow', () => new Promise<void>((resolve) => setTimeout(resolve, 50)));
const fails = rpcFunction('soak/fails', (): number => {
  throw new RangeError('as it should');
});
const count = rpcFunction('soak/count', function* (n: number) {
  for (let i = 0; i < n; i++) yield i;
});

const rank = Number(process.env['BENCH_RANK']);
const agent: Promise<RpcAgent> = agentOptions(rank).then(initRpc);
if (rank === 0) await agent;
const tensors = [4, 20_000, 300_000].map((size) => ones([size]));

serveAsks({
  soak,
  sample: () => {
    globalThis.gc?.();
    const { heapUsed, external } = process.memoryUsage();
    return {
      heapMiB: heapUsed / 2 ** 20,
      externalMiB: external / 2 ** 20,
      residentMiB: residentMiB().now,
      handles: process.getActiveResourcesInfo().length,
      storages: memory().storages,
    };
  },
  close: async () => (await agent).shutdown({ graceful: false }),
});

/** Everything at once, again and again, for so long. */
async function soak(forMs: number): Promise<{ calls: number; ms: number }> {
  const started = performance.now();
  let calls = 0;
  while (performance.now() - started < forMs) {
    await waitAll(async () => {
      for (let i = 0; i < 500; i++) void rpcAsync('w1', add, [i, 1]);
      for (let i = 0; i < 50; i++) void rpcAsync('w1', record, [{ name: `n${i}`, list: [i, 2, 3] }]);
      for (let i = 0; i < 50; i++) rpcOneway('w1', told, ['something']);
      await Promise.all([...tensors.map(echoed), streamed(50), failed(), cancelled()]);
    });
    calls += 606;
  }
  return { calls, ms: performance.now() - started };
}

async function echoed(tensor: Tensor): Promise<void> {
  const back = await rpcAsync('w1', echo, [tensor]);
  if (back.size !== tensor.size) throw new Error('another tensor came back');
  back.dispose();
}

async function streamed(n: number): Promise<void> {
  let next = 0;
  for await (const item of rpcStream('w1', count, [n])) if (item !== next++) throw new Error('out of order');
}

/** Calls that fail are not made with `rpcAsync`: `waitAll` would fail too. */
async function failed(): Promise<void> {
  const error = await rpcSync('w1', fails).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof RangeError)) throw new Error('it should have failed', { cause: error });
}

async function cancelled(): Promise<void> {
  const abort = new AbortController();
  const call = rpcSync('w1', slow, [], { signal: abort.signal }).catch(() => undefined);
  abort.abort();
  await call;
}
