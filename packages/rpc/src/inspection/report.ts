/** @file What a read-only look at one agent shows. No argument and no result is ever in it. */
import type { AgentParts } from './agent-parts.ts';
import type { Member } from '../extensions/extension.ts';
import type { Peer } from '../session/peer.ts';
import type { CallLog, PeerCalls, RecentCall } from './call-log.ts';
import { MAX_ROWS, MAX_TEXT } from './limits.ts';
import { metricsOf, peerMetrics, type AgentMetrics, type PeerMetrics } from './metrics.ts';

/** The session with one other worker. */
export interface SessionReport extends PeerMetrics {
  readonly id: number;
  readonly incarnation: number;
  /** 'open': usable; 'unreachable': the last attempts to connect failed. */
  readonly state: string;
  /** How it is connected: 'unix', 'tcp', 'tls' …; undefined without a link. */
  readonly transport?: string;
  /** Calls to it, in this life, since the watching began; only while somebody watches. */
  readonly calls?: PeerCalls;
}

/** A call that is not over. */
export interface OpenCall {
  /** The other worker: the callee of an outgoing call, the caller of an incoming one. */
  readonly peer: string;
  readonly method: string;
  /** How it was made ('sync', 'async' …), or the state of an incoming one ('assembling', 'waiting', 'running'). */
  readonly state: string;
  readonly ageMs: number;
  /** Until its deadline; undefined without one. */
  readonly leftMs?: number;
}

/** Something that has a bound: how much of it is used. */
export interface Budget {
  readonly name: string;
  readonly used: number;
  readonly limit: number;
}

export interface WorkerReport {
  readonly name: string;
  readonly id: number;
  readonly incarnation: number;
  readonly group: string;
  readonly pid: number;
  readonly host: string;
  readonly node: string;
  /** 'draining' while a graceful shutdown waits, 'fenced' when the group removed it. */
  readonly state: 'running' | 'draining' | 'fenced';
  /** The number of the view it knows. */
  readonly epoch: number;
  /** Its time of day, in milliseconds since the epoch. */
  readonly at: number;
  readonly upMs: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly extensions: readonly string[];
  readonly sessions: readonly SessionReport[];
  /** Outgoing calls that are not over, oldest first, up to a bound; `total` counts all. */
  readonly outgoing: { readonly total: number; readonly calls: readonly OpenCall[] };
  readonly incoming: { readonly total: number; readonly queued: number; readonly calls: readonly OpenCall[] };
  readonly metrics: AgentMetrics;
  readonly budgets: readonly Budget[];
  /** What each extension shows of itself, by its name: 'rref' its references, 'dist_autograd' its contexts. */
  readonly details: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Calls that ended since the last look; only while somebody watches. */
  readonly recent?: readonly RecentCall[];
}

/** @param log what somebody who watches sees of calls that are over, and after which one. */
export function reportOf(agent: AgentParts, log?: { readonly calls: CallLog; readonly after: number }): WorkerReport {
  const memory = process.memoryUsage();
  const metrics = metricsOf(agent);
  return {
    name: agent.name,
    id: agent.id,
    incarnation: agent.incarnation,
    group: agent.group,
    pid: process.pid,
    host: agent.hostId,
    node: process.version,
    state: agent.refusal ?? 'running',
    epoch: agent.epoch,
    at: performance.timeOrigin + performance.now(),
    upMs: performance.now(),
    rssBytes: memory.rss,
    heapBytes: memory.heapUsed,
    extensions: agent.extensions.names,
    sessions: agent.members
      .others()
      .map((member) => sessionOf(member, agent.members.peerMet(member.worker.name), log?.calls)),
    outgoing: outgoingOf(agent),
    incoming: incomingOf(agent),
    metrics,
    budgets: budgetsOf(agent, metrics),
    details: agent.extensions.inspect(),
    ...(log === undefined ? {} : { recent: log.calls.after(log.after) }),
  };
}

/** @param peer undefined for a member that this worker has not had to do with. */
function sessionOf(member: Member, peer: Peer | undefined, log: CallLog | undefined): SessionReport {
  const { worker, incarnation } = member;
  const calls = peer === undefined ? undefined : log?.sums(peer);
  const transport = peer?.link?.connection.kind;
  return {
    ...peerMetrics(member, peer),
    id: worker.id,
    incarnation,
    state: peer?.state ?? 'open',
    ...(transport === undefined ? {} : { transport }),
    ...(calls === undefined ? {} : { calls }),
  };
}

function outgoingOf(agent: AgentParts): WorkerReport['outgoing'] {
  const now = agent.now();
  const calls: OpenCall[] = [];
  const ids = agent.caller.calls.ids(() => true);
  for (const id of ids) {
    const call = agent.caller.calls.get(id);
    if (call === undefined) continue;
    calls.push(openCall(call.peer, call.label.name, call.label.kind, now - call.startedAt, call.deadline - now));
  }
  return { total: ids.length, calls: oldest(calls) };
}

function incomingOf(agent: AgentParts): WorkerReport['incoming'] {
  const now = agent.now();
  const calls: OpenCall[] = [];
  for (const { peer, open } of agent.dispatcher.open) {
    for (const call of open.values()) {
      const method = call.definition?.name ?? '';
      calls.push(openCall(peer, method, call.state, now - call.arrivedAt, call.deadline - now));
    }
  }
  return { total: agent.dispatcher.handlers.active, queued: agent.dispatcher.handlers.queued, calls: oldest(calls) };
}

function openCall(peer: Peer, method: string, state: string, ageMs: number, leftMs: number): OpenCall {
  const about = { peer: peer.worker.name, method: method.slice(0, MAX_TEXT), state, ageMs };
  return leftMs === Infinity ? about : { ...about, leftMs };
}

function oldest(calls: OpenCall[]): OpenCall[] {
  return calls.sort((a, b) => b.ageMs - a.ageMs).slice(0, MAX_ROWS);
}

function budgetsOf(agent: AgentParts, metrics: AgentMetrics): Budget[] {
  const { limits, dispatcher } = agent;
  const held = metrics.extensions;
  const fullest = Math.max(0, ...metrics.peers.map(({ pendingBytes }) => pendingBytes));
  const inboxes = [...dispatcher.open].map(({ open }) => open.size);
  const rows: Budget[] = [
    { name: 'handlers', used: dispatcher.handlers.running, limit: dispatcher.handlers.maxConcurrentCalls },
    { name: 'inbound calls of the fullest peer', used: Math.max(0, ...inboxes), limit: limits.maxInboundCalls },
    { name: 'bytes buffered for the fullest peer', used: fullest, limit: limits.maxBufferedBytesPerPeer },
  ];
  const forks = held['num_forks'];
  if (forks !== undefined) rows.push({ name: 'RRef forks', used: forks, limit: limits.maxLiveForks });
  const contexts = held['num_autograd_contexts'];
  if (contexts !== undefined) rows.push({ name: 'autograd contexts', used: contexts, limit: limits.maxContexts });
  return rows;
}
