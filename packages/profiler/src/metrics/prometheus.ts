/** @file The numbers of an agent in the text format of Prometheus, version 0.0.4. */
import type { AgentMetrics } from '@backwire/rpc/internal';
import { BUCKETS, type Histogram } from './call-histograms.ts';
import { AGENT_NUMBERS, EXTENSION_NUMBERS, PEER_NUMBERS, type Kind } from './numbers.ts';

/** The type of the answer to a scrape. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Labels = Readonly<Record<string, string>>;

/** One line of a metric. */
interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** What the text says. */
interface PrometheusInput {
  readonly worker: string;
  readonly group: string;
  readonly metrics: AgentMetrics;
  readonly client: readonly Histogram[];
  readonly server: readonly Histogram[];
}

/** The whole text, ending with a line feed. */
export function prometheusText(input: PrometheusInput): string {
  const { metrics } = input;
  const base = { worker: input.worker, group: input.group };
  const out: string[] = [];
  for (const [key, name, kind, help] of AGENT_NUMBERS)
    metric(out, name, kind, `${help}.`, [{ labels: base, value: Number(metrics[key]) }]);
  for (const [key, name, kind, help] of PEER_NUMBERS) {
    const samples = metrics.peers.map((peer) => ({ labels: { ...base, peer: peer.name }, value: peer[key] }));
    metric(out, name, kind, `${help}, by peer.`, samples);
  }
  extensions(out, base, metrics.extensions);
  histograms(out, base, 'client', 'calls take, as their caller sees it', input.client);
  histograms(
    out,
    base,
    'server',
    'calls take from their arrival to the end of their handler, or until they are refused or given up before it',
    input.server,
  );
  return `${out.join('\n')}\n`;
}

function extensions(out: string[], base: Labels, numbers: Readonly<Record<string, number>>): void {
  const others: Sample[] = [];
  for (const [key, value] of Object.entries(numbers)) {
    const known = EXTENSION_NUMBERS.find(([known]) => known === key);
    if (known === undefined) others.push({ labels: { ...base, name: key }, value });
    else metric(out, known[1], known[2], `${known[3]}.`, [{ labels: base, value }]);
  }
  metric(out, 'extension', 'gauge', 'Other numbers of extensions.', others);
}

function histograms(out: string[], base: Labels, side: string, what: string, all: readonly Histogram[]): void {
  if (all.length === 0) return;
  const name = `rpc_${side}_call_duration_seconds`;
  out.push(`# HELP ${name} How long ${what}.`, `# TYPE ${name} histogram`);
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

function metric(out: string[], name: string, kind: Kind, help: string, samples: readonly Sample[]): void {
  if (samples.length === 0) return;
  const whole = `backwire_${name}`;
  out.push(`# HELP ${whole} ${help}`, `# TYPE ${whole} ${kind}`);
  for (const { labels, value } of samples) out.push(line(whole, labels, value));
}

function line(name: string, labels: Labels, value: number): string {
  const inside = Object.entries(labels).map(([key, text]) => `${key}="${escape(text)}"`);
  return `${name}{${inside.join(',')}} ${value}`;
}

function escape(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
