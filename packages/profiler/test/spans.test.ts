/** @file Spans and times of calls that end in all the ways calls end. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestCluster } from '@backwire/testing';
import type { Told } from './span-cases.ts';
import type { Shown } from './telemetry.ts';

const [INTERNAL, SERVER, CLIENT] = [0, 1, 2];
let worker: TestCluster;
let all: Readonly<Record<string, Told>>;
beforeAll(async () => {
  worker = new TestCluster({ program: new URL('./span-cases.ts', import.meta.url), worldSize: 1 });
  const line = await worker.worker(0).line(/^told /, { timeoutMs: 60_000 });
  all = JSON.parse(line.slice('told '.length)) as typeof all;
}, 90_000);
afterAll(() => worker?.dispose());

function told(name: string): Told {
  const found = all[name];
  if (found === undefined) throw new Error(`no case '${name}'`);
  return found;
}
const ofKind = (spans: readonly Shown[], kind: number): readonly Shown[] => spans.filter((span) => span.kind === kind);
const errors = (name: string, kind: number): unknown[] => ofKind(told(name).spans, kind).map(({ error }) => error);

describe('a span', () => {
  it.each(['arguments that cannot be sent', 'a one-way call that cannot be sent'])('of %s ends, as failed', (name) => {
    const { spans, open, recorded } = told(name);
    expect(open).toBe(0);
    expect(spans).toMatchObject([{ name: 'cases/work', kind: CLIENT, error: 'TypeError', failed: true }]);
    expect(recorded).toMatchObject([
      { metric: 'rpc.client.call.duration', attributes: { 'rpc.method': 'cases/work', 'error.type': 'TypeError' } },
    ]);
  });

  it('of a one-way call is its sending at the caller, and its handler at the callee', () => {
    const { spans, open } = told('a one-way call');
    expect(open).toBe(0);
    const [client] = ofKind(spans, CLIENT);
    const server = ofKind(spans, SERVER).find(({ parent }) => parent === client?.spanId);
    expect(server).toMatchObject({ name: 'cases/work', failed: false });
    const inside = ofKind(spans, INTERNAL).filter(({ parent }) => parent === server?.spanId);
    expect(inside.map(({ name }) => name)).toEqual(['before x', 'after x']);
  });

  it('of what is not there names no method that there is none of', () => {
    const name = 'a function that is not there';
    const [server] = ofKind(told(name).spans, SERVER);
    expect(server).toMatchObject({ name: 'rpc', error: 'not-found' });
    expect(server).not.toHaveProperty('method');
  });

  it('of a call that ran out of time ends then; that of its handler when that does', () => {
    expect(errors('a time limit', CLIENT)).toEqual(['deadline-exceeded']);
    expect(told('a time limit').open).toBe(0);
    expect(ofKind(told('a time limit').spans, SERVER)).toMatchObject([{ name: 'cases/work' }]);
  });

  it('holds what the handler does, also of items that wait for their reader and of calls that wait for a slot', () => {
    const stream = told('a long stream').spans;
    const [server] = ofKind(stream, SERVER);
    expect(told('a long stream').note).toBe(400);
    const items = ofKind(stream, INTERNAL);
    expect(items).toHaveLength(400);
    expect(new Set(items.map(({ parent }) => parent))).toEqual(new Set([server?.spanId]));

    const { spans } = told('more calls than slots');
    const byId = new Map(spans.map((span) => [span.spanId, span]));
    const chain = (span: Shown | undefined): string[] =>
      span === undefined ? [] : [span.name, ...chain(byId.get(span.parent ?? ''))];
    for (let i = 0; i < 9; i++)
      for (const part of ['before', 'after'])
        expect(chain(spans.find(({ name }) => name === `${part} ${i}`))).toEqual([
          `${part} ${i}`,
          'cases/work',
          'cases/work',
          `root ${i}`,
        ]);
  });

  it('of a handler that never ends ends with its agent', () => {
    const { spans, late, left } = told('a callee that dies');
    expect(ofKind(spans, CLIENT)).toMatchObject([{ error: 'unavailable', failed: true }]);
    expect([...ofKind(spans, SERVER), ...ofKind(late, SERVER)]).toMatchObject([
      { name: 'cases/never', method: 'cases/never', error: 'unavailable', failed: true },
    ]);
    expect(left.open).toBe(0);
  });

  it('of a call ends with its agent, and that of its handler once', () => {
    const { spans, late, left } = told('a caller that dies');
    expect(ofKind(spans, CLIENT)).toMatchObject([{ error: 'unavailable' }]);
    expect(ofKind([...spans, ...late], SERVER)).toMatchObject([{ name: 'cases/work' }]);
    expect(left.open).toBe(0);
  });

  it('is not made where the root was not sampled, on either side', () => {
    expect(told('what nobody samples').spans).toEqual([]);
    expect(told('what nobody samples').recorded).toHaveLength(2);
  });
});

describe('the metrics', () => {
  it('name the classes that a function throws, as many as are kept apart', () => {
    const { recorded, spans } = told('classes of errors');
    for (const metric of ['rpc.client.call.duration', 'rpc.server.call.duration']) {
      const types = recorded.filter((each) => each.metric === metric).map(({ attributes }) => attributes['error.type']);
      expect(types).toHaveLength(40);
      expect(types.slice(0, 32)).toEqual(Array.from({ length: 32 }, (_, i) => `Own${i}`));
      expect(new Set(types.slice(32))).toEqual(new Set(['other']));
    }
    // A span is no series: it says what it was.
    expect(spans.filter(({ error }) => error === 'Own39')).toHaveLength(2);
  });

  it('say whose they are, and end with their agent', () => {
    const { note } = told('gauges') as { note: { attributes: string[] } };
    expect(note.attributes.sort().map((text) => JSON.parse(text) as unknown)).toEqual([
      { 'backwire.worker': 'w0', 'backwire.group': 'default' },
      { 'backwire.worker': 'w1', 'backwire.group': 'default' },
    ]);
    for (const { left } of Object.values(all)) expect(left.gauges).toBe(0);
  });
});
