/** @file What extensions show of themselves, read with care: it comes from other processes, perhaps of another version. */
import type { GroupLook, WorkerReport } from '@backwire/rpc/internal';
import { MAX_NAMES, MAX_TEXT } from './limits.ts';

/** A value that others hold, at its owner. */
export interface OwnedRRef {
  readonly id: string;
  readonly owner: string;
  readonly type: string;
  /** A worker's name for each handle. */
  readonly holders: readonly string[];
  /** The file, line and function that made it; undefined unless the worker records that. */
  readonly createdAt: string | undefined;
}

/** A distributed autograd context on one worker. */
export interface ContextRow {
  readonly id: string;
  readonly worker: string;
  readonly ageMs: number | undefined;
  readonly workers: readonly string[];
  readonly functions: number;
}

/** All references of the group, each at its owner. */
export function rrefsOf(look: GroupLook): OwnedRRef[] {
  const sites = madeAt(look);
  return reportsOf(look).flatMap((report) =>
    lists(report, 'owned').map((row) => ({
      id: shortId(text(row['id'])),
      owner: report.name,
      type: text(row['type']),
      holders: texts(row['holders']),
      createdAt: sites.get(text(row['id'])) ?? siteOf(row),
    })),
  );
}

/** How many references all workers own, and how many of them a look shows: a report holds only so many of each worker. */
export function rrefTotals(look: GroupLook): { readonly shown: number; readonly total: number } {
  let [shown, total] = [0, 0];
  for (const { details } of reportsOf(look)) {
    for (const extension of Object.values(details ?? {})) {
      const owned: unknown = extension?.['owned'];
      if (!Array.isArray(owned)) continue;
      shown += owned.length;
      total += Math.max(number(extension['ownedTotal']), owned.length);
    }
  }
  return { shown, total };
}

/** 'created_on.local_id', of the words that PyTorch uses. */
function shortId(id: string): string {
  const [, worker, local] = /^GloballyUniqueId\(created_on=(\d+), local_id=(\d+)\)$/.exec(id) ?? [];
  return local === undefined ? id : `${worker ?? ''}.${local}`;
}

/** Where references were made, as those say who hold them: the owner of a value that another worker made only knows that it was asked. */
function madeAt(look: GroupLook): ReadonlyMap<string, string> {
  const sites = new Map<string, string>();
  for (const report of reportsOf(look)) {
    for (const row of lists(report, 'held')) {
      const site = siteOf(row);
      if (site !== undefined) sites.set(text(row['id']), site);
    }
  }
  return sites;
}

function siteOf(row: Record<string, unknown>): string | undefined {
  const site = row['createdAt'];
  return typeof site === 'string' && site !== '' ? placeIn(site) : undefined;
}

/** 'train/step.ts:42 (Trainer.epoch)' of the innermost line of a stack; the text itself where it is no such line. */
function placeIn(site: string): string {
  const [line = ''] = site.split(' < ');
  const [, fn, path, at] = /^at (?:(?:async )?(.+?) \()?(?:file:\/\/)?(.+?):(\d+):\d+\)?$/.exec(line) ?? [];
  if (path === undefined) return line;
  const file = path.split(/[/\\]/).slice(-2).join('/');
  return `${file}:${at ?? ''}${fn === undefined ? '' : ` (${fn})`}`;
}

export function contextsOf(look: GroupLook): ContextRow[] {
  return reportsOf(look).flatMap((report) =>
    lists(report, 'contexts').map((row) => ({
      id: text(row['id']),
      worker: report.name,
      ageMs: typeof row['ageMs'] === 'number' ? row['ageMs'] : undefined,
      workers: texts(row['knownWorkers']),
      functions: number(row['sendFunctions']) + number(row['recvFunctions']),
    })),
  );
}

export function reportsOf(look: GroupLook): WorkerReport[] {
  return look.workers.flatMap(({ report }) => (report === undefined ? [] : [report]));
}

/** The list called `key` in what any extension of the worker shows. */
function lists({ details }: WorkerReport, key: string): Record<string, unknown>[] {
  return Object.values(details ?? {}).flatMap((shown) => {
    const found: unknown = shown?.[key];
    return Array.isArray(found)
      ? found.filter((row): row is Record<string, unknown> => typeof row === 'object' && row !== null)
      : [];
  });
}

function text(value: unknown): string {
  return typeof value === 'string'
    ? value.slice(0, MAX_TEXT)
    : typeof value === 'number' || typeof value === 'bigint'
      ? String(value)
      : '';
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.slice(0, MAX_NAMES).map(text) : [];
}

function number(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
