/** @file The numbers of one agent: counters that only grow, and what there is now. */
import type { Member } from '../extensions/extension.ts';
import type { Peer } from '../session/peer.ts';
import type { AgentParts } from './agent-parts.ts';

/** What `RpcAgent.metrics()` gives of one session. */
export interface PeerMetrics {
  readonly name: string;
  /** Whether a link carries frames now. */
  readonly up: boolean;
  /** Bytes queued, not acknowledged, or not confirmed. */
  readonly pendingBytes: number;
  readonly bytesSent: number;
  readonly bytesReceived: number;
  readonly reconnects: number;
}

/** The result of `RpcAgent.metrics()`. Counters count since the agent began, those who are gone included; `peers` has the members there are. */
export interface AgentMetrics extends Record<string, unknown> {
  readonly calls_sent: number;
  /** Those that could not be sent are among them, but for calls to a name that no member has. */
  readonly calls_failed: number;
  readonly calls_handled: number;
  /** Outgoing calls that are not over. */
  readonly calls_open: number;
  /** Handlers that are not over. */
  readonly handlers_running: number;
  /** Incoming calls that wait for a slot. */
  readonly handlers_queued: number;
  readonly bytes_sent: number;
  readonly bytes_received: number;
  readonly pending_bytes: number;
  readonly reconnects: number;
  readonly peers_up: number;
  readonly peers: readonly PeerMetrics[];
  /** What extensions count: RRefs, contexts, profiled calls. */
  readonly extensions: Readonly<Record<string, number>>;
}

/** @param peer undefined for a member that this worker has not had to do with. */
export function peerMetrics({ worker }: Member, peer: Peer | undefined): PeerMetrics {
  return {
    name: worker.name,
    up: peer?.up ?? false,
    pendingBytes: peer?.sender.pendingBytes ?? 0,
    bytesSent: peer?.bytesSent ?? 0,
    bytesReceived: peer?.bytesReceived ?? 0,
    reconnects: peer?.reconnects ?? 0,
  };
}

export function metricsOf(agent: AgentParts): AgentMetrics {
  const { members } = agent;
  const peers = members.others().map((member) => peerMetrics(member, members.peerMet(member.worker.name)));
  const sum = (pick: (peer: PeerMetrics) => number): number => peers.reduce((total, peer) => total + pick(peer), 0);
  const { past } = members;
  return {
    calls_sent: agent.caller.sent,
    calls_failed: agent.caller.calls.failures,
    calls_handled: agent.dispatcher.handlers.handled,
    calls_open: agent.caller.calls.size,
    handlers_running: agent.dispatcher.handlers.active,
    handlers_queued: agent.dispatcher.handlers.queued,
    bytes_sent: past.bytesSent + sum(({ bytesSent }) => bytesSent),
    bytes_received: past.bytesReceived + sum(({ bytesReceived }) => bytesReceived),
    pending_bytes: sum(({ pendingBytes }) => pendingBytes),
    reconnects: past.reconnects + sum(({ reconnects }) => reconnects),
    peers_up: peers.filter(({ up }) => up).length,
    peers,
    extensions: agent.extensions.debugInfo(),
  };
}
