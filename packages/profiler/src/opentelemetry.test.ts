/** @file Spans and metrics of two real processes, by the real OpenTelemetry SDK. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, TestCluster } from '@backwire/testing';

interface Span {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parent?: string;
  readonly parentIsRemote?: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: { readonly code: number };
}
interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly points: readonly { attributes: Record<string, unknown>; value: { count: number; sum: number } | number }[];
}
interface Shown {
  readonly spans: readonly Span[];
  readonly metrics: readonly Metric[];
}

const INTERNAL = 0;
const SERVER = 1;
const CLIENT = 2;

describe('openTelemetry', { timeout: 60_000 }, () => {
  let shown: Shown[];
  let text: string;
  let workers: TestCluster;
  beforeAll(async () => {
    workers = new TestCluster({
      program: new URL('../test/traced-worker.ts', import.meta.url),
      worldSize: 2,
      env: {
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: String(await freePort()),
        BACKWIRE_SECRET: 'a secret for tests only',
      },
    });
    const lines = await Promise.all(workers.workers.map((worker) => worker.line(/^shown /, { timeoutMs: 110_000 })));
    await workers.succeeded();
    text = lines.join('\n');
    shown = lines.map((line) => JSON.parse(line.slice('shown '.length)) as Shown);
  }, 150_000);
  afterAll(async () => workers?.dispose());

  const find = (rank: number, name: string, kind: number): Span => {
    const found = shown[rank]?.spans.find((span) => span.name === name && span.kind === kind);
    if (found === undefined) throw new Error(`no span ${name} of kind ${kind} on w${rank}:\n${text}`);
    return found;
  };

  it('makes one trace of a call over two processes and back, each span inside the one that caused it', () => {
    const request = find(0, 'request', INTERNAL);
    const chain = [
      request,
      find(0, 'traced/relay', CLIENT),
      find(1, 'traced/relay', SERVER),
      find(1, 'traced/halve', CLIENT),
      find(0, 'traced/halve', SERVER),
      find(0, 'work', INTERNAL),
    ];
    for (const [index, span] of chain.entries()) {
      expect(span.traceId).toBe(request.traceId);
      if (index > 0) expect(span.parent, `${span.name} of kind ${span.kind}`).toBe(chain[index - 1]?.spanId);
      if (span.kind === SERVER) expect(span.parentIsRemote).toBe(true);
    }
  });

  it('names calls as the conventions say, and shows no value', () => {
    expect(find(0, 'traced/relay', CLIENT).attributes).toEqual({
      'rpc.system.name': 'backwire',
      'rpc.method': 'traced/relay',
      'server.address': 'w1',
    });
    expect(find(1, 'traced/relay', SERVER).attributes).toEqual({
      'rpc.system.name': 'backwire',
      'rpc.method': 'traced/relay',
      'server.address': 'w1',
      'client.address': 'w0',
    });
    const failed = [find(0, 'traced/refuse', CLIENT), find(1, 'traced/refuse', SERVER)];
    for (const span of failed) {
      expect(span.attributes['error.type']).toBe('RangeError');
      expect(span.status.code).toBe(2);
    }
    expect(text).not.toContain('hunter2');
    expect(text).not.toContain('with a secret in it');
  });

  it('follows a stream to its end', () => {
    const [client, server] = [find(0, 'traced/count', CLIENT), find(1, 'traced/count', SERVER)];
    expect(server.parent).toBe(client.spanId);
    expect(server.status.code).toBe(0);
  });

  it('records the two durations in seconds, by function and outcome, and our own numbers', () => {
    const points = (rank: number, name: string): Metric['points'] =>
      shown[rank]?.metrics.find((metric) => metric.name === name)?.points ?? [];
    const of = (rank: number, name: string, method: string) =>
      points(rank, name).find(({ attributes }) => attributes['rpc.method'] === method);
    const client = of(0, 'rpc.client.call.duration', 'traced/relay');
    expect(client?.attributes).toEqual({
      'rpc.system.name': 'backwire',
      'rpc.method': 'traced/relay',
      'server.address': 'w1',
    });
    const { count, sum } = client?.value as { count: number; sum: number };
    expect(count).toBe(1);
    expect(sum).toBeGreaterThan(0.004);
    expect(sum).toBeLessThan(30);
    expect(of(1, 'rpc.server.call.duration', 'traced/relay')?.value).toMatchObject({ count: 1 });
    expect(of(0, 'rpc.server.call.duration', 'traced/halve')?.value).toMatchObject({ count: 1 });
    expect(of(0, 'rpc.client.call.duration', 'traced/refuse')?.attributes['error.type']).toBe('RangeError');
    expect(of(1, 'rpc.server.call.duration', 'traced/refuse')?.attributes['error.type']).toBe('RangeError');
    expect(shown[0]?.metrics.find(({ name }) => name === 'rpc.client.call.duration')?.unit).toBe('s');
    expect(points(0, 'backwire.calls.open').map(({ value }) => value)).toEqual([expect.any(Number)]);
  });
});
