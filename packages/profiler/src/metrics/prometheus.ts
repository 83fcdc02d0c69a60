/** @file The numbers of an agent in the text format of Prometheus, version 0.0.4. */
import type { AgentMetrics } from '@backwire/rpc/internal';
import { BUCKETS, type Histogram } from './call-histograms.ts';

/** The type of the answer to a scrape. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Labels = Readonly<Record<string, string>>;

/** One line of a metric. */
interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** What the text says. */
export interface PrometheusInput {
  readonly worker: string;
  readonly group: string;
  readonly metrics: AgentMetrics;
  readonly client: readonly Histogram[];
  readonly server: readonly Histogram[];
}

/** What each number of the agent is called, which kind it is, and what it means. */
const NUMBERS: readonly (readonly [
  key: keyof AgentMetrics & string,
  name: string,
  kind: 'counter' | 'gauge',
  help: string,
])[] = [
  ['calls_sent', 'backwire_calls_sent_total', 'counter', 'Calls made.'],
  ['calls_failed', 'backwire_calls_failed_total', 'counter', 'Calls made that failed.'],
  ['calls_handled', 'backwire_calls_handled_total', 'counter', 'Calls of others whose handlers are over.'],
  ['calls_open', 'backwire_calls_open', 'gauge', 'Calls made that are not over.'],
  ['handlers_running', 'backwire_handlers_running', 'gauge', 'Handlers that are not over.'],
  ['handlers_queued', 'backwire_handlers_queued', 'gauge', 'Calls of others that wait for a slot.'],
  ['peers_up', 'backwire_peers_up', 'gauge', 'Other workers with an open link.'],
];

/** The numbers of extensions that have names of their own; others are `backwire_extension{name}`. */
const EXTENSION_NAMES: ReadonlyMap<string, readonly [name: string, help: string, kind?: 'counter']> = new Map([
  ['num_owner_rrefs', ['backwire_rrefs_owned', 'Remote references owned here that others hold.']],
  ['num_forks', ['backwire_rref_forks', 'Handles of others on values owned here.']],
  [
    'num_pending_users',
    ['backwire_rrefs_unconfirmed', 'Remote references held here that their owner has not confirmed.'],
  ],
  ['num_collected_rrefs', ['backwire_rrefs_collected_total', 'Handles released by the garbage collector.', 'counter']],
  ['num_autograd_contexts', ['backwire_autograd_contexts', 'Distributed autograd contexts alive.']],
  ['num_current_backward_passes', ['backwire_backward_passes', 'Backward passes in progress.']],
]);

/** The whole text, ending with a line feed. */
export function prometheusText(input: PrometheusInput): string {
  const { metrics } = input;
  const base = { worker: input.worker, group: input.group };
  const out: string[] = [];
  for (const [key, name, kind, help] of NUMBERS) {
    metric(out, name, kind, help, [{ labels: base, value: Number(metrics[key]) }]);
  }
  const byPeer = (pick: (peer: AgentMetrics['peers'][number]) => number): Sample[] =>
    metrics.peers.map((peer) => ({ labels: { ...base, peer: peer.name }, value: pick(peer) }));
  metric(
    out,
    'backwire_sent_bytes_total',
    'counter',
    'Bytes sent, by peer.',
    byPeer(({ bytesSent }) => bytesSent),
  );
  metric(
    out,
    'backwire_received_bytes_total',
    'counter',
    'Bytes received, by peer.',
    byPeer(({ bytesReceived }) => bytesReceived),
  );
  metric(
    out,
    'backwire_pending_bytes',
    'gauge',
    'Bytes queued or not acknowledged, by peer.',
    byPeer(({ pendingBytes }) => pendingBytes),
  );
  metric(
    out,
    'backwire_reconnects_total',
    'counter',
    'Links made again after one was lost, by peer.',
    byPeer(({ reconnects }) => reconnects),
  );
  extensions(out, base, metrics.extensions);
  histograms(
    out,
    'rpc_client_call_duration_seconds',
    'How long calls take, as their caller sees it.',
    base,
    input.client,
  );
  histograms(
    out,
    'rpc_server_call_duration_seconds',
    'How long calls take from their arrival to the end of their handler.',
    base,
    input.server,
  );
  return `${out.join('\n')}\n`;
}

function extensions(out: string[], base: Labels, numbers: Readonly<Record<string, number>>): void {
  const others: Sample[] = [];
  for (const [key, value] of Object.entries(numbers)) {
    const known = EXTENSION_NAMES.get(key);
    if (known === undefined) others.push({ labels: { ...base, name: key }, value });
    else metric(out, known[0], known[2] ?? 'gauge', known[1], [{ labels: base, value }]);
  }
  metric(out, 'backwire_extension', 'gauge', 'Other numbers of extensions.', others);
}

function histograms(out: string[], name: string, help: string, base: Labels, all: readonly Histogram[]): void {
  if (all.length === 0) return;
  out.push(`# HELP ${name} ${help}`, `# TYPE ${name} histogram`);
  for (const { method, error, counts, count, sumSeconds } of all) {
    const labels = {
      ...base,
      rpc_system_name: 'backwire',
      rpc_method: method,
      ...(error === '' ? {} : { error_type: error }),
    };
    let sum = 0;
    BUCKETS.forEach((bound, index) => {
      sum += counts[index] ?? 0;
      out.push(line(`${name}_bucket`, { ...labels, le: String(bound) }, sum));
    });
    out.push(
      line(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
      line(`${name}_sum`, labels, sumSeconds),
      line(`${name}_count`, labels, count),
    );
  }
}

function metric(
  out: string[],
  name: string,
  kind: 'counter' | 'gauge',
  help: string,
  samples: readonly Sample[],
): void {
  if (samples.length === 0) return;
  out.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`);
  for (const { labels, value } of samples) out.push(line(name, labels, value));
}

function line(name: string, labels: Labels, value: number): string {
  const inside = Object.entries(labels).map(([key, text]) => `${key}="${escape(text)}"`);
  return `${name}{${inside.join(',')}} ${value}`;
}

function escape(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
