/** @file Events of the same name added up, and the table of them. */
import { invalidArgument, optionNames, plainText, refuseUnknown, show } from '@backwire/rpc/internal';
import type { RecordedEvent } from './events.ts';
import { MAX_EVENTS, MAX_EVENTS_PER_REPLY, MAX_PADDED } from './limits.ts';

export interface SummaryOptions {
  /** Whether the same name on two workers is one row or two. @default 'name' */
  groupBy?: 'name' | 'name+node';
}

export interface TableOptions {
  /** @default 'total' */
  sortBy?: 'total' | 'self' | 'calls' | 'bytes';
  /** Rows at most. @default all */
  limit?: number;
}

/** One row: times in microseconds. */
export interface SummaryRow {
  readonly name: string;
  /** The worker, when grouped by it. */
  readonly node: number | undefined;
  readonly calls: number;
  readonly totalUs: number;
  /** Without the time of the events inside. */
  readonly selfUs: number;
  readonly bytes: number | undefined;
}

export const SUMMARY_OPTIONS = optionNames<SummaryOptions>()('groupBy');
const TABLE_OPTIONS = optionNames<TableOptions>()('sortBy limit');
const GROUPS = ['name', 'name+node'] as const;
const ORDERS = {
  total: ({ totalUs }: SummaryRow) => totalUs,
  self: ({ selfUs }: SummaryRow) => selfUs,
  calls: ({ calls }: SummaryRow) => calls,
  bytes: ({ bytes = 0 }: SummaryRow) => bytes,
} as const;

/** The sums of a profile. */
export class Summary {
  readonly rows: readonly SummaryRow[];
  private readonly dropped: number;

  /**
   * @param dropped how many events are missing, for the table to say so.
   * @throws RpcError 'invalid-argument' for a `groupBy` that there is not.
   */
  constructor(events: readonly RecordedEvent[], { groupBy = 'name' }: SummaryOptions = {}, dropped = 0) {
    checkChoice('groupBy', groupBy, GROUPS);
    this.dropped = dropped;
    this.rows = sumUp(events, groupBy === 'name+node');
  }

  /** The rows as text, largest first. @throws RpcError 'invalid-argument' for a `sortBy` that there is not, or a `limit` that is no count. */
  table(options: TableOptions = {}): string {
    refuseUnknown(options, TABLE_OPTIONS, 'table()');
    const { sortBy = 'total', limit = Infinity } = options;
    checkChoice('sortBy', sortBy, Object.keys(ORDERS));
    if (limit !== Infinity && (!Number.isInteger(limit) || limit < 0))
      throw invalidArgument(`limit is a whole number of rows from 0 on, got ${show(limit)}: leave it out for all rows`);
    const measure = ORDERS[sortBy];
    const rows = [...this.rows].sort((a, b) => measure(b) - measure(a)).slice(0, limit);
    const wholeSelf = this.rows.reduce((sum, { selfUs }) => sum + selfUs, 0);
    const withNode = rows.some(({ node }) => node !== undefined);
    const withBytes = this.rows.some(({ bytes }) => bytes !== undefined);
    const header = [
      'Name',
      ...(withNode ? ['Node'] : []),
      'Self %',
      'Self',
      'Total',
      'Average',
      'Calls',
      ...(withBytes ? ['Bytes'] : []),
    ];
    const body = rows.map((row) => [
      // Of functions of other workers: the row stays a row.
      plainText(row.name),
      ...(withNode ? [String(row.node ?? '')] : []),
      wholeSelf === 0 ? '-' : `${((100 * row.selfUs) / wholeSelf).toFixed(2)}%`,
      formatUs(row.selfUs),
      formatUs(row.totalUs),
      formatUs(row.totalUs / row.calls),
      String(row.calls),
      ...(withBytes ? [formatBytes(row.bytes ?? 0)] : []),
    ]);
    return `${layOut([header, ...body])}\nSelf time in all: ${formatUs(wholeSelf)}${missing(this.dropped)}`;
  }
}

/** The line about events that were dropped; '' when there are none. */
function missing(dropped: number): string {
  if (dropped === 0) return '';
  const limits = `a profile holds ${MAX_EVENTS} and a reply brings ${MAX_EVENTS_PER_REPLY}: profile less at a time`;
  return `\nNot in this table: ${dropped} events that there was no room for; ${limits}`;
}

function checkChoice(name: string, value: unknown, choices: readonly string[]): void {
  if (choices.includes(value as string)) return;
  throw invalidArgument(`${name} is one of ${choices.map((choice) => `'${choice}'`).join(', ')}, got ${show(value)}`);
}

/** '12.300us', '1.234ms', '2.000s'. */
function formatUs(us: number): string {
  if (us >= 1e6) return `${(us / 1e6).toFixed(3)}s`;
  return us >= 1e3 ? `${(us / 1e3).toFixed(3)}ms` : `${us.toFixed(3)}us`;
}

/** '512 b', '1.50 Kb', '-2.00 Mb'. */
export function formatBytes(bytes: number): string {
  const size = Math.abs(bytes);
  for (const [unit, factor] of [
    ['Gb', 2 ** 30],
    ['Mb', 2 ** 20],
    ['Kb', 2 ** 10],
  ] as const) {
    if (size >= factor) return `${(bytes / factor).toFixed(2)} ${unit}`;
  }
  return `${bytes} b`;
}

/** Columns padded to their widest cell, of names only as far as most of them reach: the first to the left, the others to the right, a rule under the header. */
function layOut(rows: readonly (readonly string[])[]): string {
  // There may be more rows than a function takes arguments.
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((widest, row) => Math.max(widest, Math.min(row[column]?.length ?? 0, MAX_PADDED)), 0),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  '),
  );
  return [lines[0], widths.map((width) => '-'.repeat(width)).join('  '), ...lines.slice(1)].join('\n');
}

function sumUp(events: readonly RecordedEvent[], byNode: boolean): readonly SummaryRow[] {
  const inside: RecordedEvent[][] = events.map(() => []);
  for (const event of events) inside[event.parent]?.push(event);
  const rows = new Map<string, { -readonly [K in keyof SummaryRow]: SummaryRow[K] }>();
  events.forEach((event, index) => {
    if (event.kind === 'handler') return;
    const key = byNode ? `${event.node} ${event.name}` : event.name;
    let row = rows.get(key);
    if (row === undefined) {
      row = {
        name: event.name,
        node: byNode ? event.node : undefined,
        calls: 0,
        totalUs: 0,
        selfUs: 0,
        bytes: undefined,
      };
      rows.set(key, row);
    }
    row.calls += 1;
    row.totalUs += event.durationUs;
    row.selfUs += event.durationUs - coveredUs(event, inside[index] ?? []);
    if (event.bytes !== undefined) row.bytes = (row.bytes ?? 0) + event.bytes;
  });
  return [...rows.values()];
}

/** How much of `event` its children take; children that overlap (calls in flight together) count once. */
function coveredUs(event: RecordedEvent, children: readonly RecordedEvent[]): number {
  // Waiting for another worker is the caller's own time: what runs there is that worker's.
  const own = children
    .filter(({ node, kind }) => node === event.node && kind !== 'handler')
    .sort((a, b) => a.startUs - b.startUs);
  const end = event.startUs + event.durationUs;
  let covered = 0;
  let until = event.startUs;
  for (const child of own) {
    const from = Math.max(child.startUs, until);
    const to = Math.min(child.startUs + child.durationUs, end);
    if (to > from) {
      covered += to - from;
      until = to;
    }
  }
  return covered;
}
