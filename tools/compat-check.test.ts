import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { check, type Entry } from './compat-check.ts';

const entry = (more: Partial<Entry> = {}): Entry => ({
  asserts: 'a sum',
  mark: 'P',
  group: 'sums',
  test: 'sums.test.ts > adds',
  ours: 'a sum is right',
  ...more,
});
const ran = new Map([
  ['sums.test.ts > adds', 'passed'],
  ['sums.test.ts > breaks', 'failed'],
]);
const problems = (...entries: Entry[]): readonly string[] =>
  check(Object.fromEntries(entries.map((each, i) => [`T.test_${i}`, each])), ran).problems;

describe('the list of upstream tests', () => {
  it('is right where each has a passing test, which is said in a line, or a reason for none', () => {
    const { groups, problems: none } = check(
      {
        'T.test_0': entry(),
        'T.test_1': entry({ group: 'others', like: 'T.test_0' }),
        'T.test_2': { asserts: 'CUDA', mark: 'S:cuda', group: 'sums', why: 'CUDA only' },
      },
      ran,
    );
    expect(none).toEqual([]);
    expect([...groups]).toEqual([
      ['sums', { passing: 1, portable: 1 }],
      ['others', { passing: 1, portable: 1 }],
    ]);
  });

  it.each<[string, Partial<Entry>, RegExp]>([
    ['that does not say what ours asserts', { ours: undefined as never }, /'ours' does not say in one line what/],
    ['that says nothing', { ours: ' ' }, /'ours' does not say/],
    ['that says it in two lines', { ours: 'a sum\nis right' }, /'ours' does not say in one line/],
    ['that did not run', { test: 'sums.test.ts > gone' }, /sums\.test\.ts > gone did not run/],
    ['that fails', { test: 'sums.test.ts > breaks' }, /sums\.test\.ts > breaks is failed/],
    ['that can be had and has none', { test: null, why: 'too hard' }, /it can be had here, and has no counterpart/],
    ['without a reason', { mark: 'S:py', test: null }, /neither a counterpart nor why there is none/],
    ['that is like one with another test', { like: 'T.test_9' }, /it is like T\.test_9, which has another counterpart/],
  ])('is wrong with an entry %s', (_, more, words) => {
    expect(problems(entry(more))).toEqual([expect.stringMatching(words)]);
  });

  it('is wrong where a test stands for two, neither of which says that its body is the other', () => {
    expect(problems(entry(), entry())).toEqual([
      'sums.test.ts > adds stands for T.test_0 and T.test_1, and none of them says that it is like the other',
    ]);
    expect(problems(entry(), entry({ like: 'T.test_0' }))).toEqual([]);
    expect(problems(entry({ like: 'T.test_1' }), entry({ like: 'T.test_0' }))).toEqual([]);
  });

  it('that is kept is right in all but what only a run shows', () => {
    const file = join(import.meta.dirname, '../docs/compat/upstream-tests.json');
    const entries = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Entry>;
    const all = new Map(Object.values(entries).map(({ test }) => [test ?? '', 'passed']));
    const { groups, problems: found } = check(entries, all);
    expect(found).toEqual([]);
    const portable = [...groups.values()].reduce((sum, group) => sum + group.portable, 0);
    expect(portable).toBe(372);
  });
});
