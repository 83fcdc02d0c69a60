/** @file The report of a worker, read with care: it comes from another process, of another version perhaps, or of somebody who lies. */
import { RpcError } from '../base/errors.ts';
import type { PeerCalls, RecentCall } from './call-log.ts';
import { MAX_RECENT_PER_REPORT, MAX_ROWS, MAX_SESSIONS, MAX_TEXT } from './limits.ts';
import type { AgentMetrics, PeerMetrics } from './metrics.ts';
import type { Budget, OpenCall, SessionReport, WorkerReport } from './report.ts';

/** Milliseconds: two of them added are still a date. */
const MAX_TIME_MS = 2 ** 51;
const STATES = ['running', 'draining', 'fenced'] as const;

type Fields = Readonly<Record<string, unknown>>;

/** Who was asked, and has proved to be that one: what a report says of it counts for nothing. */
export interface Asked {
  readonly name: string;
  readonly id: number;
  readonly incarnation: number;
}

/**
 * A report with every field there is and of its kind: numbers that can be added and drawn, texts and lists that are not too long. What is
 * missing is nothing, zero or empty.
 * @throws RpcError 'protocol-error' for what is no report at all.
 */
export function readReport(given: unknown, { name, id, incarnation }: Asked): WorkerReport {
  if (!isFields(given) || !isFields(given['metrics']) || !Array.isArray(given['sessions']))
    throw new RpcError('protocol-error', 'an answer without a report');
  const state = STATES.find((one) => one === given['state']) ?? 'running';
  const recent = given['recent'];
  return {
    name,
    id,
    incarnation,
    group: text(given['group']),
    pid: number(given['pid']),
    host: text(given['host']),
    node: text(given['node']),
    state,
    epoch: number(given['epoch']),
    at: time(given['at']),
    upMs: time(given['upMs']),
    rssBytes: number(given['rssBytes']),
    heapBytes: number(given['heapBytes']),
    extensions: list(given['extensions'], MAX_ROWS).map(text),
    sessions: sessions(given['sessions']),
    outgoing: openCalls(given['outgoing']),
    incoming: { ...openCalls(given['incoming']), queued: number(fields(given['incoming'])['queued']) },
    metrics: metrics(given['metrics']),
    budgets: rows(given['budgets'], MAX_ROWS).map(budget),
    details: details(given['details']),
    ...(recent === undefined ? {} : { recent: rows(recent, MAX_RECENT_PER_REPORT).map(recentCall) }),
  };
}

function peer(row: Fields): PeerMetrics {
  return {
    name: text(row['name']),
    up: row['up'] === true,
    pendingBytes: number(row['pendingBytes']),
    bytesSent: number(row['bytesSent']),
    bytesReceived: number(row['bytesReceived']),
    reconnects: number(row['reconnects']),
  };
}

/** One with each other worker. */
function sessions(given: unknown): readonly SessionReport[] {
  const all = rows(given, MAX_SESSIONS).map(session);
  return [...new Map(all.map((one) => [one.name, one])).values()];
}

function session(row: Fields): SessionReport {
  const { transport, calls } = row;
  return {
    ...peer(row),
    id: number(row['id']),
    incarnation: number(row['incarnation']),
    state: text(row['state']),
    ...(transport === undefined ? {} : { transport: text(transport) }),
    ...(calls === undefined ? {} : { calls: peerCalls(fields(calls)) }),
  };
}

function peerCalls(row: Fields): PeerCalls {
  return { calls: number(row['calls']), errors: number(row['errors']), totalMs: time(row['totalMs']) };
}

function openCalls(given: unknown): WorkerReport['outgoing'] {
  const { total, calls } = fields(given);
  return { total: number(total), calls: rows(calls, MAX_ROWS).map(openCall) };
}

function openCall(row: Fields): OpenCall {
  const about = {
    peer: text(row['peer']),
    method: text(row['method']),
    state: text(row['state']),
    ageMs: time(row['ageMs']),
  };
  // A deadline may have passed.
  const left = row['leftMs'];
  return typeof left === 'number' ? { ...about, leftMs: Math.sign(left) * time(Math.abs(left)) } : about;
}

function metrics(given: Fields): AgentMetrics {
  const counted = Object.entries(fields(given['extensions'])).slice(0, MAX_ROWS);
  return {
    calls_sent: number(given['calls_sent']),
    calls_failed: number(given['calls_failed']),
    calls_handled: number(given['calls_handled']),
    calls_open: number(given['calls_open']),
    handlers_running: number(given['handlers_running']),
    handlers_queued: number(given['handlers_queued']),
    bytes_sent: number(given['bytes_sent']),
    bytes_received: number(given['bytes_received']),
    pending_bytes: number(given['pending_bytes']),
    reconnects: number(given['reconnects']),
    peers_up: number(given['peers_up']),
    peers: rows(given['peers'], MAX_SESSIONS).map(peer),
    extensions: Object.fromEntries(counted.map(([key, value]) => [text(key), number(value)])),
  };
}

function budget(row: Fields): Budget {
  return { name: text(row['name']), used: number(row['used']), limit: number(row['limit']) };
}

/** Extensions show what they like; whoever knows one of them reads it with care. Only lists are cut. */
function details(given: unknown): WorkerReport['details'] {
  const shown = Object.entries(fields(given)).slice(0, MAX_ROWS);
  return Object.fromEntries(shown.map(([key, value]) => [text(key), cut(fields(value))]));
}

function cut(shown: Fields): Fields {
  const all = Object.entries(shown).slice(0, MAX_ROWS);
  return Object.fromEntries(
    all.map(([key, value]) => [text(key), Array.isArray(value) ? value.slice(0, MAX_ROWS) : value]),
  );
}

function recentCall(row: Fields): RecentCall {
  const { error } = row;
  return {
    n: number(row['n']),
    to: text(row['to']),
    method: text(row['method']),
    kind: text(row['kind']),
    startedAt: time(row['startedAt']),
    durationMs: time(row['durationMs']),
    ...(error === undefined ? {} : { error: text(error) }),
  };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

function list(value: unknown, most: number): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, most) : [];
}

function rows(value: unknown, most: number): readonly Fields[] {
  return list(value, most).map(fields);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, MAX_TEXT) : '';
}

/** From 0 on, and exact where it is whole. */
function number(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : 0;
}

function time(value: unknown): number {
  return Math.min(number(value), MAX_TIME_MS);
}
