/** @file One process of the suite `scale`: starts its share of the workers, and says when each of them has joined, called, met and heard. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { barrier, createAgent, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { serveAsks } from '../processes.ts';

const whoami = rpcFunction('scale/whoami', (rank: number) => rank);
const agents: RpcAgent[] = [];
/** When each of the agents was told of the one that is killed, in milliseconds of the machine's clock. */
const told: number[] = [];
const JOIN_MS = 240_000;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

serveAsks({ start, mesh, meet, resident, busy, traffic, heard, close });

/** Joins with all `ranks` at once; resolves when the last of them sees the group complete. */
async function start(ranks: readonly number[], worldSize: number, store: string): Promise<void> {
  const log = (): void => undefined;
  const logger = { debug: log, info: log, warn: log, error: log };
  await Promise.all(
    ranks.map(async (rank) => {
      const name = `w${rank}`;
      const agent = await createAgent({ name, rank, worldSize, store, initTimeoutMs: JOIN_MS, logger });
      agent.on('peer-down', () => void told.push(Date.now()));
      agents.push(agent);
    }),
  );
}

/** Every worker here calls every other one: afterwards each pair has a session. */
async function mesh(worldSize: number): Promise<void> {
  const calls = agents.flatMap((agent) =>
    Array.from({ length: worldSize }, (_, rank) =>
      agent.run(() => rpcSync(`w${rank}`, whoami, [rank], { timeoutMs: 0 })),
    ),
  );
  const answers = await Promise.all(calls);
  if (answers.some((answer, i) => answer !== i % worldSize)) throw new Error('a wrong answer');
}

async function meet(): Promise<void> {
  await Promise.all(agents.map((agent) => agent.run(() => barrier())));
}

function resident(): number {
  collect();
  return process.memoryUsage.rss();
}

/** Processor time of all threads so far, in milliseconds: what other work on the machine does not change. */
function busy(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Bytes of all sessions of the workers here so far, both ways, each counted at both of its ends. */
function traffic(): number {
  let bytes = 0;
  for (const agent of agents) {
    const { bytes_sent, bytes_received } = (agent as unknown as Measured).metrics();
    bytes += bytes_sent + bytes_received;
  }
  return bytes;
}

interface Measured {
  metrics(): { readonly bytes_sent: number; readonly bytes_received: number };
}

/** When the last of the workers here heard of the death. */
async function heard(withinMs: number): Promise<number> {
  const until = Date.now() + withinMs;
  while (told.length < agents.length && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 10));
  if (told.length < agents.length) throw new Error(`${agents.length - told.length} workers did not hear of the death`);
  return Math.max(0, ...told);
}

async function close(): Promise<void> {
  await Promise.all(agents.map((agent) => agent.shutdown({ graceful: false })));
}
