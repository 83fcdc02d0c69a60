/** @file Looks at a group, one after the other, made into what changed between them: rates, new failures, workers that came and went. */
import type { GroupLook, WorkerLook, WorkerReport } from '@backwire/rpc/internal';
import { contextsOf, reportsOf, rrefsOf } from '../inspect/details.ts';
import {
  MAX_CALLS_PER_SECOND,
  MAX_GONE,
  MAX_LINKS_PER_SNAPSHOT,
  MAX_HISTORY,
  MAX_NOTES,
  MAX_ROWS_PER_SNAPSHOT,
} from '../inspect/limits.ts';
import type {
  CallSnapshot,
  Snapshot,
  LinkSnapshot,
  Note,
  OpenSnapshot,
  TotalsSnapshot,
  WorkerSnapshot,
} from './snapshot.ts';

/** What a page that opens is told first. */
export interface Past {
  readonly totals: readonly TotalsSnapshot[];
  readonly notes: readonly Note[];
}

export class History {
  readonly intervalMs: number;
  private before: GroupLook | undefined;
  /** What each member said last: one may miss a look. */
  private readonly said = new Map<string, Said>();
  private readonly totals: TotalsSnapshot[] = [];
  private readonly notes: Note[] = [];
  /** Workers that came and went, apart: no number of failed calls may push them out. */
  private readonly changes: Note[] = [];
  /** Workers that were seen and are gone stay on the page, by name: the latest of them. */
  private gone = new Map<string, WorkerLook>();

  constructor(intervalMs: number) {
    this.intervalMs = intervalMs;
  }

  get past(): Past {
    return { totals: [...this.totals], notes: [...this.changes, ...this.notes].sort((a, b) => a.at - b.at) };
  }

  /** Takes the next look in. Looks have to come in the order of their time. */
  add(look: GroupLook): Snapshot {
    const { before } = this;
    this.before = look;
    const workers = this.everybody(look).map((worker) => workerSnapshot(worker, this.said.get(memberKey(worker))));
    const names = new Set(workers.map(({ name }) => name));
    const links = reportsOf(look)
      .flatMap((report) => linksOf(report, this.said.get(memberKey(report))))
      .filter(({ to, up, calls }) => names.has(to) && (up || calls > 0));
    this.remember(look);
    const calls = callsOf(look);
    const drawn = spread(calls, Math.ceil((MAX_CALLS_PER_SECOND * this.intervalMs) / 1000));
    const changed = changes(before, look);
    const failed = failures(calls);
    keep(this.changes, changed, MAX_NOTES);
    keep(this.notes, failed, MAX_NOTES);
    const totals = totalsOf(look, workers, links);
    keep(this.totals, [totals], MAX_HISTORY);
    return {
      group: look.group,
      at: look.at,
      epoch: look.epoch,
      size: look.size,
      intervalMs: this.intervalMs,
      workers,
      links: busiest(links),
      linkCount: links.length,
      totals,
      calls: drawn,
      callsLeftOut: drawn.length < calls.length,
      open: openOf(look),
      rrefs: rrefsOf(look).slice(0, MAX_ROWS_PER_SNAPSHOT),
      contexts: contextsOf(look).slice(0, MAX_ROWS_PER_SNAPSHOT),
      notes: [...changed.slice(-MAX_NOTES), ...failed.slice(-MAX_NOTES)],
    };
  }

  private remember(look: GroupLook): void {
    const present = new Set(look.workers.filter(({ state }) => state === 'up' || state === 'silent').map(memberKey));
    for (const member of this.said.keys()) if (!present.has(member)) this.said.delete(member);
    for (const report of reportsOf(look)) {
      const { at, sessions, metrics, upMs, rssBytes } = report;
      this.said.set(memberKey(report), { at, sessions, metrics, upMs, rssBytes });
    }
  }

  /** Who is there, and the latest of those who are gone: the view forgets them sooner or later; whoever looks at the page does not. */
  private everybody(look: GroupLook): WorkerLook[] {
    const isGone = ({ state }: WorkerLook): boolean => state === 'dead' || state === 'left';
    const here = look.workers.filter((worker) => !isGone(worker));
    for (const { name } of look.workers) this.gone.delete(name);
    // The view has them in the order in which they went, behind those that it has forgotten.
    for (const worker of look.workers) if (isGone(worker)) this.gone.set(worker.name, worker);
    const gone = latestOf([...this.gone.values()]);
    this.gone = new Map(gone.map((worker) => [worker.name, worker]));
    return [...here, ...gone].sort((a, b) => a.id - b.id);
  }
}

/** So many of those who are gone, in their order: who left goes before who died, and the earlier before the later. */
function latestOf(gone: readonly WorkerLook[]): readonly WorkerLook[] {
  const tooMany = Math.max(gone.length - MAX_GONE, 0);
  let left = Math.min(gone.filter(({ state }) => state === 'left').length, tooMany);
  let dead = tooMany - left;
  return gone.filter(({ state }) => (state === 'left' ? left-- <= 0 : dead-- <= 0));
}

/** What the next look is compared with; lists of calls and references may be long. */
type Said = Pick<WorkerReport, 'at' | 'sessions' | 'metrics' | 'upMs' | 'rssBytes'>;

/**
 * The time between two reports of a worker in seconds, by its own clock: how long a look took, which one that stands still makes long, and
 * when it was over, is nothing to it.
 */
function since(last: Said | undefined, report: WorkerReport): number {
  return last === undefined ? Infinity : Math.max((report.at - last.at) / 1000, 0.001);
}

function workerSnapshot(worker: WorkerLook, last: Said | undefined): WorkerSnapshot {
  const { report } = worker;
  const rate = (pick: (metrics: WorkerReport['metrics']) => number): number =>
    report === undefined || last === undefined
      ? 0
      : Math.max(0, pick(report.metrics) - pick(last.metrics)) / since(last, report);
  // Whoever is only slow to answer still has what it had.
  const known = report ?? (worker.state === 'silent' ? last : undefined);
  const { metrics } = known ?? {};
  return {
    name: worker.name,
    id: worker.id,
    state: worker.state === 'up' && report !== undefined && report.state !== 'running' ? report.state : worker.state,
    pid: worker.pid,
    upMs: known?.upMs ?? 0,
    made: rate(({ calls_sent }) => calls_sent),
    handled: rate(({ calls_handled }) => calls_handled),
    failed: rate(({ calls_failed }) => calls_failed),
    sent: rate(({ bytes_sent }) => bytes_sent),
    received: rate(({ bytes_received }) => bytes_received),
    open: metrics?.calls_open ?? 0,
    handlers: metrics?.handlers_running ?? 0,
    queued: metrics?.handlers_queued ?? 0,
    pendingBytes: metrics?.pending_bytes ?? 0,
    reconnects: metrics?.reconnects ?? 0,
    rrefs: metrics?.extensions['num_owner_rrefs'] ?? 0,
    contexts: metrics?.extensions['num_autograd_contexts'] ?? 0,
    rssBytes: known?.rssBytes ?? 0,
    error: worker.error,
  };
}

function linksOf(report: WorkerReport, last: Said | undefined): LinkSnapshot[] {
  const seconds = since(last, report);
  const before = new Map(last?.sessions.map((session) => [memberKey(session), session]));
  return report.sessions.map((session) => {
    const earlier = before.get(memberKey(session));
    const ended = (session.calls?.calls ?? 0) - (earlier?.calls?.calls ?? 0);
    const failed = (session.calls?.errors ?? 0) - (earlier?.calls?.errors ?? 0);
    const spentMs = (session.calls?.totalMs ?? 0) - (earlier?.calls?.totalMs ?? 0);
    const bytes = session.bytesSent - (earlier?.bytesSent ?? 0);
    return {
      from: report.name,
      to: session.name,
      up: session.up,
      calls: Math.max(0, ended) / seconds,
      errors: Math.max(0, failed) / seconds,
      bytes: Math.max(0, bytes) / seconds,
      meanMs: ended > 0 ? spentMs / ended : 0,
    };
  });
}

function totalsOf(look: GroupLook, workers: readonly WorkerSnapshot[], links: readonly LinkSnapshot[]): TotalsSnapshot {
  const sum = (pick: (worker: WorkerSnapshot) => number): number =>
    workers.reduce((total, worker) => total + pick(worker), 0);
  return {
    at: look.at,
    calls: sum(({ made }) => made),
    errors: links.reduce((total, { errors }) => total + errors, 0),
    bytes: sum(({ sent }) => sent),
    rrefs: sum(({ rrefs }) => rrefs),
    contexts: sum(({ contexts }) => contexts),
    open: sum(({ open }) => open),
  };
}

function callsOf(look: GroupLook): CallSnapshot[] {
  return look.workers
    .flatMap(({ name, report, clockAheadMs = 0 }) =>
      (report?.recent ?? []).map(({ to, method, startedAt, durationMs, error }) => ({
        from: name,
        to,
        method,
        at: startedAt - clockAheadMs,
        ms: durationMs,
        error,
      })),
    )
    .sort((a, b) => a.at - b.at);
}

/** So many of the ways, those with the most calls. */
function busiest(links: readonly LinkSnapshot[]): readonly LinkSnapshot[] {
  if (links.length <= MAX_LINKS_PER_SNAPSHOT) return links;
  return [...links].sort((a, b) => b.calls - a.calls).slice(0, MAX_LINKS_PER_SNAPSHOT);
}

/** So many of the calls, evenly: a piece without any would look like a rest. Failed ones have up to half of the room. */
function spread(calls: readonly CallSnapshot[], most: number): readonly CallSnapshot[] {
  if (calls.length <= most) return calls;
  const failed = evenly(
    calls.filter(({ error }) => error !== undefined),
    most >> 1,
  );
  const others = evenly(
    calls.filter(({ error }) => error === undefined),
    most - failed.length,
  );
  return [...failed, ...others].sort((a, b) => a.at - b.at);
}

function evenly<T>(list: readonly T[], most: number): readonly T[] {
  if (list.length <= most) return list;
  return Array.from({ length: most }, (_, i) => list[Math.floor((i * list.length) / most)] as T);
}

function openOf(look: GroupLook): OpenSnapshot[] {
  return reportsOf(look)
    .flatMap((report) =>
      report.outgoing.calls.map(({ peer, method, ageMs }) => ({ from: report.name, to: peer, method, ageMs })),
    )
    .sort((a, b) => b.ageMs - a.ageMs)
    .slice(0, MAX_ROWS_PER_SNAPSHOT);
}

function failures(calls: readonly CallSnapshot[]): Note[] {
  return calls.flatMap(({ from, to, method, at, ms, error }) =>
    error === undefined ? [] : [{ at: at + ms, kind: 'error', text: `${from} → ${to} ${method}: ${error}` }],
  );
}

/** What has happened to a worker that is now in a state, and was in another. */
const CHANGES: Readonly<Record<WorkerLook['state'], readonly [kind: Note['kind'], text: string]>> = {
  up: ['change', 'answers again'],
  silent: ['lost', 'does not answer'],
  dead: ['lost', 'died'],
  left: ['change', 'left'],
};
const JOINED = ['change', 'joined'] as const;
/** Its earlier life was over between two looks. */
const REPLACED = ['lost', 'ended and joined again'] as const;

/** Workers that came, went, fell silent or answer again. */
function changes(before: GroupLook | undefined, look: GroupLook): Note[] {
  if (before === undefined) return [];
  const earlier = new Map(before.workers.map((worker) => [memberKey(worker), worker.state]));
  const members = before.workers.filter(({ state }) => state === 'up' || state === 'silent');
  const here = new Set(members.map(({ name }) => name));
  return look.workers.flatMap((worker): Note[] => {
    const { name, state } = worker;
    const was = earlier.get(memberKey(worker));
    if (was === state) return [];
    const isNew = state === 'up' && was === undefined;
    const [kind, text] = isNew ? (here.has(name) ? REPLACED : JOINED) : CHANGES[state];
    return [{ at: look.at, kind, text: `${name} ${text}` }];
  });
}

function keep<T>(list: T[], more: readonly T[], most: number): void {
  list.push(...more);
  if (list.length > most) list.splice(0, list.length - most);
}

function memberKey({ name, incarnation }: { readonly name: string; readonly incarnation: number }): string {
  return `${name}#${incarnation}`;
}
