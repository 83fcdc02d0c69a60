/** @file Reports of workers that lie: whatever is in them, who looks can add, draw and write it. */
import { Random } from '@backwire/testing';
import { expect, it } from 'vitest';
import { readReport } from './read-report.ts';
import type { WorkerReport } from './report.ts';

const ASKED = { name: 'w1', id: 1, incarnation: 7 };
const peer = { name: 'w0', up: true, pendingBytes: 1, bytesSent: 2, bytesReceived: 3, reconnects: 4 };
const call = { peer: 'w0', method: 'f', state: 'async', ageMs: 5, leftMs: -6 };
const HONEST: WorkerReport = {
  ...ASKED,
  group: 'g',
  pid: 8,
  host: 'h',
  node: 'v20.0.0',
  state: 'draining',
  epoch: 9,
  at: 1_700_000_000_000.5,
  upMs: 10.5,
  rssBytes: 11,
  heapBytes: 12,
  extensions: ['rref'],
  sessions: [
    { ...peer, id: 0, incarnation: 1, state: 'open', transport: 'unix', calls: { calls: 1, errors: 0, totalMs: 2.5 } },
  ],
  outgoing: { total: 1, calls: [call] },
  incoming: { total: 1, queued: 1, calls: [{ peer: 'w0', method: 'f', state: 'running', ageMs: 5 }] },
  metrics: {
    calls_sent: 1,
    calls_failed: 2,
    calls_handled: 3,
    calls_open: 4,
    handlers_running: 5,
    handlers_queued: 6,
    bytes_sent: 7,
    bytes_received: 8,
    pending_bytes: 9,
    reconnects: 10,
    peers_up: 11,
    peers: [peer],
    extensions: { num_owner_rrefs: 1 },
  },
  budgets: [{ name: 'handlers', used: 1, limit: 2 }],
  details: { rref: { owned: [{ id: '0.1' }], ownedTotal: 1 } },
  recent: [{ n: 1, to: 'w0', method: 'f', kind: 'sync', startedAt: 1_700_000_000_000, durationMs: 1, error: 'E' }],
};

const LIES: readonly unknown[] = [
  ...[null, true, -1, -1e300, 1e300, Infinity, 0.1, '', 'x'.repeat(100_000), '\u202e<img src=x onerror=alert(1)>'],
  ...[[], [[]], [null, 5, 'x'], {}, JSON.parse('{"__proto__":{"x":1},"constructor":null,"toString":5}')],
  Array.from({ length: 100_000 }, () => 5),
];

/** Puts `lie` somewhere into a copy of the report. */
function lied(random: Random, lie: unknown): unknown {
  const copy = JSON.parse(JSON.stringify(HONEST)) as Record<string, unknown>;
  let at: Record<string, unknown> = copy;
  for (;;) {
    const key = random.pick(Object.keys(at));
    const inside = at[key];
    if (typeof inside !== 'object' || inside === null || Object.keys(inside).length === 0 || random.chance(0.3)) {
      at[key] = lie;
      return copy;
    }
    at = inside as Record<string, unknown>;
  }
}

/** Everything in `value` but what extensions show, which is theirs. */
function check(value: unknown, where: string): void {
  if (typeof value === 'number') {
    expect(Number.isFinite(value), where).toBe(true);
    if (!where.endsWith('leftMs')) expect(value, where).toBeGreaterThanOrEqual(0);
    if (/(?:at|At|Ms)$/.test(where)) new Date(2 * value).toISOString();
  } else if (typeof value === 'string') expect(value.length, where).toBeLessThanOrEqual(256);
  else if (Array.isArray(value)) value.slice(0, 3).forEach((each, i) => check(each, `${where}.${i}`));
  else if (typeof value === 'object' && value !== null)
    for (const [key, each] of Object.entries(value)) if (key !== 'details') check(each, `${where}.${key}`);
}

it('an honest report is read as it is', () => {
  expect(readReport(HONEST, ASKED)).toEqual(HONEST);
});

it('a worker is who it has proved to be, whatever its report says', () => {
  const found = readReport({ ...HONEST, name: 'w0', id: 0, incarnation: 99 }, ASKED);
  expect(found).toMatchObject(ASKED);
});

it('one lie or two anywhere leave a report that can be used, or none', () => {
  const random = new Random(5);
  for (let i = 0; i < 3_000; i++) {
    const given = lied(random, random.pick(LIES));
    let found: WorkerReport;
    try {
      found = readReport(given, ASKED);
    } catch (error) {
      expect(error).toMatchObject({ code: 'protocol-error', message: 'an answer without a report [protocol-error]' });
      continue;
    }
    check(found, '');
    expect(Object.keys(found)).toEqual(expect.arrayContaining(Object.keys(HONEST).filter((key) => key !== 'recent')));
    expect(found.outgoing.calls.length).toBeLessThanOrEqual(1_000);
  }
});

it('has one session with each other worker', () => {
  const sessions = Array.from({ length: 50_000 }, () => HONEST.sessions[0]);
  expect(readReport({ ...HONEST, sessions }, ASKED).sessions).toHaveLength(1);
});
