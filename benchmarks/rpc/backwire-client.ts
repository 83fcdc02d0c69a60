/** @file Backwire's worker 0: measures. */
import { initRpc, rpcAsync } from '@backwire/rpc';
import { ones, type Tensor } from '@backwire/tensor';
import { residentMiB, resetPeak } from '../memory.ts';
import { echoRate, type Payload } from '../measure.ts';
import { serveAsks } from '../processes.ts';
import { agentOptions } from './backwire.ts';
import { echo, forgetPeak, nothing, peakMiB } from './served.ts';

const agent = await initRpc({ name: 'w0', rank: 0, ...agentOptions() });
const small = ones([4]);
serveAsks({
  latency,
  throughput: (payload: Payload, count: number, inFlight: number) =>
    inFlight === 0 ? atOnce(payload, count) : closedLoop(payload, count, inFlight),
  echo: echoes,
  peak,
  close: () => agent.shutdown({ graceful: false }),
});

function callOf(payload: Payload): () => Promise<unknown> {
  return payload === 'nothing' ? () => rpcAsync('w1', nothing) : () => rpcAsync('w1', echo, [small]).then(drop);
}

function drop(tensor: Tensor): void {
  tensor.dispose();
}

async function latency(payload: Payload, count: number): Promise<number[]> {
  const call = callOf(payload);
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    await call();
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

async function atOnce(payload: Payload, count: number): Promise<number> {
  const call = callOf(payload);
  const started = performance.now();
  await Promise.all(Array.from({ length: count }, call));
  return count / ((performance.now() - started) / 1_000);
}

async function closedLoop(payload: Payload, count: number, inFlight: number): Promise<number> {
  const call = callOf(payload);
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
