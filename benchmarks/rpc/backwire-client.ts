/** @file Backwire's worker 0: measures. */
import { initRpc, rpcAsync } from '@backwire/rpc';
import { ones } from '@backwire/tensor';
import { residentMiB, resetPeak, usedMiB } from '../memory.ts';
import { echoRate } from '../measure.ts';
import { serveAsks } from '../processes.ts';
import { agentOptions } from './backwire.ts';
import { echo, forgetPeak, heapMiB, letGo, nothing, peakMiB, wait } from './served.ts';
import { variantsOf, type Variant } from './variants.ts';

const agent = await initRpc(await agentOptions(0));
const variants = variantsOf(agent, ones([4]));
serveAsks({
  latency: (name: string, count: number) => inVariant(name, (call) => latency(call, count)),
  throughput: (name: string, count: number, inFlight: number) =>
    inVariant(name, (call) => (inFlight === 0 ? atOnce(call, count) : closedLoop(call, count, inFlight))),
  echo: echoes,
  peak,
  openCalls,
  reconnect,
  close: () => agent.shutdown({ graceful: false }),
});

function variantOf(name: string): Variant {
  const variant = variants[name];
  if (variant === undefined) throw new Error(`no call is named '${name}'`);
  return variant;
}

/** Runs a block of calls the way the variant wants it. */
function inVariant<T>(name: string, block: (call: () => Promise<unknown>) => Promise<T>): Promise<T> {
  const { call, around } = variantOf(name);
  return around === undefined ? block(call) : around(() => block(call));
}

async function latency(call: () => Promise<unknown>, count: number): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    await call();
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

async function atOnce(call: () => Promise<unknown>, count: number): Promise<number> {
  const started = performance.now();
  await Promise.all(Array.from({ length: count }, call));
  return count / ((performance.now() - started) / 1_000);
}

async function closedLoop(call: () => Promise<unknown>, count: number, inFlight: number): Promise<number> {
  let left = count;
  const one = async (): Promise<void> => {
    while (left-- > 0) await call();
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: inFlight }, one));
  return count / ((performance.now() - started) / 1_000);
}

async function echoes(mib: number, count: number): Promise<number> {
  // Filled: pages that were never written are all the same one, and free to read.
  const sent = ones([mib * 262_144]);
  const started = performance.now();
  for (let i = 0; i < count; i++) {
    const back = await rpcAsync('w1', echo, [sent], { timeoutMs: 0 });
    if (back.size !== sent.size) throw new Error('another tensor came back');
    back.dispose();
  }
  const elapsed = performance.now() - started;
  sent.dispose();
  return echoRate(mib, count, elapsed);
}

/** Resident memory at its highest during `count` echoes, here and there, in MiB; -1 where the system does not say. */
async function peak(mib: number, count: number): Promise<{ client: number; server: number }> {
  if (!resetPeak() || !(await rpcAsync('w1', forgetPeak))) return { client: -1, server: -1 };
  await echoes(mib, count);
  return { client: residentMiB().peak, server: await rpcAsync('w1', peakMiB) };
}

/** What `count` calls that are open cost here and there, in MiB of heap and buffers. */
async function openCalls(count: number): Promise<{ client: number; server: number }> {
  const there = await rpcAsync('w1', heapMiB);
  const here = usedMiB();
  const calls = Array.from({ length: count }, () => rpcAsync('w1', wait, [], { timeoutMs: 0 }));
  // Calls of one caller are taken in order: all have arrived when this one is answered.
  const client = usedMiB() - here;
  const server = (await rpcAsync('w1', heapMiB)) - there;
  await rpcAsync('w1', letGo);
  await Promise.all(calls);
  return { client, server };
}

/** The agent's own way to break a link: what a reset by the network ends in. */
interface Breakable {
  readonly members: { find(name: string): { reset(error: Error): void } };
}

async function reconnect(count: number): Promise<number[]> {
  const peer = (agent as unknown as Breakable).members.find('w1');
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    peer.reset(new Error('cut by the benchmark'));
    await rpcAsync('w1', nothing);
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}
