/** @file A worker of the soak with faults: calls of several kinds to all others at once, each checked against what became of it. */
import { createAgent, type RpcAgent } from '@backwire/rpc';
import { serveAsks } from '../processes.ts';
import { count, ledger, nameOf, ran, scale } from './functions.ts';
import { Traffic } from './traffic.ts';

const rank = Number(process.env['SOAK_RANK']);
const size = Number(process.env['SOAK_SIZE']);
const store = process.env['SOAK_STORE'] as string;
let agent: RpcAgent | undefined;
let traffic: Traffic | undefined;
let isFenced = false;

serveAsks({ join, begin, whole, end, report, close: () => agent?.shutdown({ graceful: false }) });

async function join(): Promise<void> {
  const log = (): void => undefined;
  agent = await createAgent({
    name: `w${rank}`,
    rank,
    worldSize: size,
    store,
    serve: [count, nameOf, ran, scale],
    initTimeoutMs: 60_000,
    logger: { debug: log, info: log, warn: log, error: log },
  });
  agent.on('fenced', () => (isFenced = true));
  traffic = new Traffic(agent, rank, size);
}

function begin(): void {
  traffic?.begin();
}

/** The workers that this one does not see, or that do not answer it; empty when the group is whole. */
async function whole(): Promise<string[]> {
  if (traffic === undefined || isFenced) return ['itself'];
  return traffic.unreached();
}

/** No more calls; resolves when none is open. */
async function end(): Promise<void> {
  await traffic?.end();
}

/** What happened here since the last report. */
function report(): unknown {
  const { heapUsed } = process.memoryUsage();
  return { ...traffic?.report(), violations: ledger.take(), isFenced, heapUsed };
}
