/** @file Events added up, and the table of them. */
import { describe, expect, it } from 'vitest';
import type { RecordedEvent } from './events.ts';
import { formatBytes, Summary, type SummaryOptions, type TableOptions } from './summary.ts';
import { op } from '../test/recorded.ts';

describe('Summary', () => {
  const events: RecordedEvent[] = [
    { ...op('step', 0, 1_000, -1, 0), kind: 'scope' },
    { ...op('call', 100, 400, 0, 0), kind: 'rpc' },
    { ...op('call', 200, 400, 0, 0), kind: 'rpc' },
    { ...op('handler', 150, 300, 1, 1), kind: 'handler', isRemote: true },
    { ...op('call#remote_op: mm', 160, 200, 3, 1), isRemote: true, bytes: 2048 },
    { ...op('mm', 700, 100, 0, 0), bytes: 1024 },
  ];

  it('counts overlapping calls once in the self time of what holds them', () => {
    const rows = new Map(new Summary(events).rows.map((row) => [row.name, row]));
    expect(rows.get('step')).toMatchObject({ calls: 1, totalUs: 1_000, selfUs: 400 });
    expect(rows.get('call')).toMatchObject({ calls: 2, totalUs: 800, selfUs: 800 });
    expect(rows.has('handler')).toBe(false);
  });

  it('lays out a table in the order asked for', () => {
    const table = new Summary(events).table({ sortBy: 'bytes', limit: 2 });
    const lines = table.split('\n');
    expect(lines[0]).toMatch(/^Name +Self % +Self +Total +Average +Calls +Bytes$/);
    expect(lines[2]).toMatch(/^call#remote_op: mm +13\.33% +200\.000us +200\.000us +200\.000us +1 +2\.00 Kb$/);
    expect(lines[3]).toMatch(/^mm /);
    expect(lines[4]).toBe('Self time in all: 1.500ms');
  });

  it('tells workers apart when asked', () => {
    const same = [op('mm', 0, 1, -1, 0), op('mm', 0, 3, -1, 1)];
    expect(new Summary(same, { groupBy: 'name+node' }).rows.map(({ node, totalUs }) => [node, totalUs])).toEqual([
      [0, 1],
      [1, 3],
    ]);
    expect(new Summary(same).rows).toHaveLength(1);
    expect(new Summary(same, { groupBy: 'name+node' }).table()).toMatch(/^Name +Node/);
  });

  it.each([
    [{ sortBy: 'cpu_time_total' }, "sortBy is one of 'total', 'self', 'calls', 'bytes', got 'cpu_time_total'"],
    [{ limit: -1 }, 'limit is a whole number of rows from 0 on, got -1: leave it out for all rows'],
    [{ limit: 1.5 }, 'limit is a whole number of rows from 0 on, got 1.5: leave it out for all rows'],
    [{ limit: NaN }, 'limit is a whole number of rows from 0 on, got NaN: leave it out for all rows'],
  ])('refuses %o', (options, words) => {
    expect(() => new Summary(events).table(options as TableOptions)).toThrow(words);
  });

  it('has no rows when none are asked for, and groups only by what there is', () => {
    expect(new Summary(events).table({ limit: 0 }).split('\n')).toHaveLength(3);
    const byNode = { groupBy: 'node' } as unknown as SummaryOptions;
    expect(() => new Summary(events, byNode)).toThrow("groupBy is one of 'name', 'name+node', got 'node'");
  });

  it('says what is missing, and has a table of very many names', () => {
    expect(new Summary(events, {}, 12).table().split('\n').at(-1)).toBe(
      'Not in this table: 12 events that there was no room for; a profile holds 1000000 and a reply brings 10000: profile less at a time',
    );
    expect(new Summary(events).table()).not.toContain('Not in this table');
    const many = Array.from({ length: 150_000 }, (_, i) => op(`n${i}`, i, 1));
    expect(new Summary(many).table().split('\n')).toHaveLength(150_003);
  });

  it('keeps a row a row that reads from the left, whatever the function of another worker is called', () => {
    const table = new Summary([{ ...(events[0] as RecordedEvent), name: 'a\u202eb\nc' }]).table();
    expect(table).toMatch(/^a b c /m);
    expect(table.split('\n')).toHaveLength(4);
  });

  it('has a table where one name of many is long', () => {
    const many = Array.from({ length: 150_000 }, (_, i) => op(i === 0 ? 'x'.repeat(4_096) : `n${i}`, i, 1));
    const lines = new Summary(many).table().split('\n');
    expect(lines).toHaveLength(150_003);
    expect(lines.filter((line) => line.length > 300)).toHaveLength(1);
  });

  it('has a table of nothing', () => {
    expect(new Summary([]).table()).toContain('Name');
  });

  it('shows bytes in the unit that fits', () => {
    expect([0, 512, 1536, -2 * 2 ** 20, 3 * 2 ** 30].map(formatBytes)).toEqual([
      '0 b',
      '512 b',
      '1.50 Kb',
      '-2.00 Mb',
      '3.00 Gb',
    ]);
  });
});
