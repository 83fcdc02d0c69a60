/** @file A look at a group as text: workers, sessions, calls in flight, references, contexts, budgets. */
import type { GroupLook, OpenCall, WorkerLook } from '@backwire/rpc/internal';
import { contextsOf, reportsOf, rrefsOf, rrefTotals, type OwnedRRef } from './details.ts';
import { MAX_SHOWN } from './limits.ts';
import { bytes, cell, duration, table } from './text.ts';

/** The whole look, in sections; a section without rows says so in one line. */
export function inspectText(look: GroupLook): string {
  const here = look.workers.filter(({ state }) => state === 'up' || state === 'silent').length;
  const size = look.size === undefined ? `${here} workers` : `${here} of ${look.size} workers`;
  const rrefs = rrefsOf(look);
  const { shown, total } = rrefTotals(look);
  const part = total > shown ? `, of ${count(shown)} of ${count(total)} references` : '';
  return [
    `group '${cell(look.group)}', view ${look.epoch}, ${size}, ${new Date(look.at).toISOString()}`,
    section('workers', workers(look)),
    section('sessions', sessions(look)),
    section('calls in flight', calls(look)),
    section(`references by holder${part}`, byHolder(rrefs)),
    section(`references by creation site${part}`, bySite(rrefs)),
    section('autograd contexts', contexts(look)),
    section('budgets in use', budgets(look)),
  ].join('\n\n');
}

interface Rows {
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Columns of numbers. */
  readonly right?: readonly number[];
}

function section(title: string, { header, rows, right }: Rows): string {
  if (rows.length === 0) return `${title}: none`;
  const shown = rows.slice(0, MAX_SHOWN);
  const more = rows.length > shown.length ? `\n… and ${rows.length - shown.length} more; --json has them` : '';
  return `${title} (${rows.length})\n${indent(table(header, shown, right))}${more}`;
}

/** '3,000'. */
function count(number: number): string {
  return number.toLocaleString('en-US');
}

function indent(lines: string): string {
  return lines.replaceAll(/^/gm, '  ');
}

function workers(look: GroupLook): Rows {
  const header = 'name id state pid up made failed handled open handlers sent received memory'.split(' ');
  return { header, rows: look.workers.map(worker), right: [1, 3, 5, 6, 7, 8, 9, 10, 11, 12] };
}

function worker({ name, id, state, pid, report, error }: WorkerLook): string[] {
  const about = [
    cell(name),
    String(id),
    report?.state === undefined || report.state === 'running' ? state : report.state,
    String(pid ?? ''),
  ];
  if (report === undefined) return [...about, cell(error ?? '')];
  const { metrics } = report;
  return [
    ...about,
    duration(report.upMs),
    String(metrics.calls_sent),
    String(metrics.calls_failed),
    String(metrics.calls_handled),
    String(metrics.calls_open),
    String(metrics.handlers_running),
    bytes(metrics.bytes_sent),
    bytes(metrics.bytes_received),
    bytes(report.rssBytes),
  ];
}

function sessions(look: GroupLook): Rows {
  const header = ['from', 'to', 'state', 'by', 'sent', 'received', 'pending', 'reconnects'];
  const rows = reportsOf(look).flatMap((report) =>
    report.sessions.map((session) => [
      cell(report.name),
      cell(session.name),
      session.up ? 'up' : session.state === 'open' ? 'idle' : cell(session.state),
      cell(session.transport ?? ''),
      bytes(session.bytesSent),
      bytes(session.bytesReceived),
      bytes(session.pendingBytes),
      String(session.reconnects),
    ]),
  );
  return { header, rows, right: [4, 5, 6, 7] };
}

/** Outgoing calls as their callers know them, and incoming ones at the callee: the oldest first. */
function calls(look: GroupLook): Rows {
  const header = ['at', 'way', 'other', 'function', 'state', 'age', 'time left'];
  const all = reportsOf(look).flatMap(({ name, outgoing, incoming }) => [
    ...outgoing.calls.map((call) => ({ name, way: '→', call })),
    ...incoming.calls.map((call) => ({ name, way: '←', call })),
  ]);
  all.sort((a, b) => b.call.ageMs - a.call.ageMs);
  return { header, rows: all.map(({ name, way, call }) => [cell(name), way, ...callCells(call)]), right: [5, 6] };
}

function callCells({ peer, method, state, ageMs, leftMs }: OpenCall): string[] {
  return [
    cell(peer),
    cell(method),
    cell(state),
    duration(ageMs),
    leftMs === undefined ? 'no limit' : duration(Math.max(0, leftMs)),
  ];
}

function byHolder(rrefs: readonly OwnedRRef[]): Rows {
  const groups = new Map<string, { holder: string; owner: string; type: string; count: number }>();
  for (const { owner, type, holders } of rrefs) {
    for (const holder of holders) {
      const key = JSON.stringify([holder, owner, type]);
      const found = groups.get(key) ?? { holder, owner, type, count: 0 };
      found.count++;
      groups.set(key, found);
    }
  }
  const rows = [...groups.values()].sort((a, b) => b.count - a.count);
  return {
    header: ['holder', 'owner', 'type', 'handles'],
    rows: rows.map(({ holder, owner, type, count }) => [cell(holder), cell(owner), cell(type), String(count)]),
    right: [3],
  };
}

function bySite(rrefs: readonly OwnedRRef[]): Rows {
  const groups = new Map<string, { site: string; owner: string; count: number; handles: number }>();
  for (const { owner, createdAt, holders } of rrefs) {
    const site = createdAt ?? 'not recorded: rrefs({ creationSites: true })';
    const key = JSON.stringify([site, owner]);
    const found = groups.get(key) ?? { site, owner, count: 0, handles: 0 };
    found.count++;
    found.handles += holders.length;
    groups.set(key, found);
  }
  const rows = [...groups.values()].sort((a, b) => b.count - a.count);
  return {
    header: ['created', 'owner', 'values', 'handles'],
    rows: rows.map(({ site, owner, count, handles }) => [cell(site, 110), cell(owner), String(count), String(handles)]),
    right: [2, 3],
  };
}

function contexts(look: GroupLook): Rows {
  return {
    header: ['id', 'at', 'age', 'functions', 'workers'],
    rows: contextsOf(look).map(({ id, worker: at, ageMs, functions, workers: known }) => [
      cell(id),
      cell(at),
      ageMs === undefined ? '' : duration(ageMs),
      String(functions),
      cell(known.join(', ')),
    ]),
    right: [2, 3],
  };
}

function budgets(look: GroupLook): Rows {
  const rows = reportsOf(look).flatMap((report) =>
    report.budgets
      .filter(({ used }) => used > 0)
      .map(({ name, used, limit }) => ({ at: report.name, name, used, limit, share: used / limit })),
  );
  rows.sort((a, b) => b.share - a.share);
  return {
    header: ['worker', 'budget', 'used', 'limit', 'share'],
    rows: rows.map(({ at, name, used, limit, share }) => [
      cell(at),
      cell(name),
      String(used),
      String(limit),
      `${(share * 100).toFixed(share < 0.01 ? 2 : 0)} %`,
    ]),
    right: [2, 3, 4],
  };
}
