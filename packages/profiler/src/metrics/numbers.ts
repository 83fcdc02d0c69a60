/** @file The numbers of an agent: what each is called in Prometheus and in OpenTelemetry, which kind it is, and what it means. */
import type { AgentMetrics, PeerMetrics } from '@backwire/rpc/internal';

export type Kind = 'counter' | 'gauge';

type Row<K> = readonly [
  key: K,
  /** In Prometheus, after `backwire_`. */
  name: string,
  kind: Kind,
  /** Without the full stop. */
  help: string,
  /** After `backwire.`, for the numbers that OpenTelemetry shows. */
  shown?: readonly [name: string, unit: string],
];

/** Of the agent as a whole. */
export const AGENT_NUMBERS: readonly Row<keyof AgentMetrics & string>[] = [
  ['calls_sent', 'calls_sent_total', 'counter', 'Calls made'],
  ['calls_failed', 'calls_failed_total', 'counter', 'Calls made that failed'],
  ['calls_handled', 'calls_handled_total', 'counter', 'Calls of others whose handlers are over'],
  ['calls_open', 'calls_open', 'gauge', 'Calls made that are not over', ['calls.open', '{call}']],
  ['handlers_running', 'handlers_running', 'gauge', 'Handlers that are not over', ['handlers.running', '{call}']],
  [
    'handlers_queued',
    'handlers_queued',
    'gauge',
    'Calls of others that wait for a slot',
    ['handlers.queued', '{call}'],
  ],
  ['peers_up', 'peers_up', 'gauge', 'Other workers with an open link'],
];

/** Of each peer; OpenTelemetry shows the sums. */
export const PEER_NUMBERS: readonly Row<'bytesSent' | 'bytesReceived' | 'pendingBytes' | 'reconnects'>[] = [
  ['bytesSent', 'sent_bytes_total', 'counter', 'Bytes sent'],
  ['bytesReceived', 'received_bytes_total', 'counter', 'Bytes received'],
  ['pendingBytes', 'pending_bytes', 'gauge', 'Bytes queued or not acknowledged', ['pending', 'By']],
  ['reconnects', 'reconnects_total', 'counter', 'Links made again after one was lost', ['reconnects', '{link}']],
];

/** Of extensions, those with names of their own; others are `backwire_extension{name}`. */
export const EXTENSION_NUMBERS: readonly Row<string>[] = [
  ['num_owner_rrefs', 'rrefs_owned', 'gauge', 'Remote references owned here that others hold'],
  ['num_forks', 'rref_forks', 'gauge', 'Handles of others on values owned here'],
  ['num_pending_users', 'rrefs_unconfirmed', 'gauge', 'Remote references held here that their owner has not confirmed'],
  ['num_collected_rrefs', 'rrefs_collected_total', 'counter', 'Handles released by the garbage collector'],
  ['num_autograd_contexts', 'autograd_contexts', 'gauge', 'Distributed autograd contexts alive'],
  ['num_current_backward_passes', 'backward_passes', 'gauge', 'Backward passes in progress'],
];

/** A number that OpenTelemetry shows. */
export interface Gauge {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly read: (metrics: AgentMetrics) => number;
}

export const GAUGES: readonly Gauge[] = [
  ...AGENT_NUMBERS.flatMap(([key, , , help, shown]) => gauge(shown, help, (metrics) => Number(metrics[key]))),
  ...PEER_NUMBERS.flatMap(([key, , , help, shown]) =>
    gauge(shown, help, ({ peers }) => peers.reduce((sum: number, peer: PeerMetrics) => sum + peer[key], 0)),
  ),
];

function gauge(shown: Row<string>[4], help: string, read: Gauge['read']): Gauge[] {
  return shown === undefined ? [] : [{ name: `backwire.${shown[0]}`, unit: shown[1], description: `${help}.`, read }];
}
