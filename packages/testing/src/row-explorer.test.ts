import { describe, expect, it } from 'vitest';
import { assertExplored } from './explorer.ts';
import { exploreRows, followRows, type RowModel } from './row-explorer.ts';

/** A pair of counters up to `most`. */
const grid = (most: number, rest: Partial<RowModel> = {}): RowModel => ({
  name: 'grid',
  width: 2,
  initial: () => new Uint32Array(2),
  steps([x = 0, y = 0], emit) {
    if (x < most) emit(Uint32Array.of(x + 1, y), () => 'right');
    if (y < most) emit(Uint32Array.of(x, y + 1), () => 'up');
  },
  ...rest,
});

/** The same, of which only one of two that mirror each other is kept. */
const folded = (most: number, rest: Partial<RowModel> = {}): RowModel =>
  grid(most, {
    steps(from, emit) {
      grid(most).steps(from, (row, label) => emit(row.slice().sort(), label, row));
    },
    ...rest,
  });

describe('exploreRows', () => {
  it('counts the rows, steps and ends of a known space, of more rows than its tables begin with', () => {
    const result = exploreRows(grid(199));
    expect(result).toMatchObject({ states: 40_000, edges: 2 * 200 * 199, depth: 398, terminals: 1, complete: true });
    assertExplored(result);
  });

  it('finds the nearest row that is wrong, and how it came about', () => {
    const wrong = ([x = 0, y = 0]: Uint32Array): string | undefined => (x * y === 4 ? 'four' : undefined);
    const { violation, complete } = exploreRows(grid(9, { invariant: wrong }));
    expect(complete).toBe(false);
    expect(violation).toMatchObject({ rule: 'invariant', detail: 'four', state: '2,2' });
    expect([...(violation?.trace ?? [])].sort()).toEqual(['right', 'right', 'up', 'up']);
  });

  it('finds a row without steps that is wrong', () => {
    const { violation } = exploreRows(grid(2, { terminal: (row) => `ends at ${row.join()}` }));
    expect(violation).toMatchObject({ rule: 'terminal', detail: 'ends at 2,2' });
    expect(violation?.trace).toHaveLength(4);
  });

  it('names the steps of a run under the names of its beginning where a model renames', () => {
    const { states, violation } = exploreRows(
      folded(9, { invariant: (row) => (row.join() === '0,3' ? 'far' : undefined) }),
    );
    expect(states).toBeLessThan(10);
    expect(new Set(violation?.trace).size).toBe(1);
    expect(violation?.trace).toHaveLength(3);
  });

  it('says when a bound cut it', () => {
    expect(exploreRows(grid(99), { maxStates: 100 })).toMatchObject({ complete: false, states: 100 });
    expect(exploreRows(grid(99), { maxDepth: 10 })).toMatchObject({ complete: false, depth: 10 });
    expect(exploreRows(grid(99), { maxMs: 0 }).complete).toBe(false);
    expect(exploreRows(grid(99), { maxHeapBytes: 1 })).toMatchObject({ complete: false, states: 1 });
  });

  it('follows labels, and refuses one that is no step', () => {
    expect(followRows(grid(9), ['up', 'up', 'right']).join()).toBe('1,2');
    expect(() => followRows(grid(1), ['up', 'up'])).toThrow("no step 'up'");
  });
});
