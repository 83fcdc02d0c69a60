/** @file What has to hold of docs/compat/upstream-tests.json, given the tests that ran. */

export interface Entry {
  readonly asserts: string;
  /** `P…` for a test that can be had here, `S…` for one that cannot. */
  readonly mark: string;
  readonly group: string;
  /** `packages/rpc/src/calls.test.ts > title of the test`. */
  readonly test?: string | null;
  /** What our test asserts, in one line, written with both bodies side by side. */
  readonly ours?: string;
  /** Of an upstream test whose body is that of another one: which, and the same test of ours stands for both. */
  readonly like?: string;
  /** Why the upstream test has no counterpart. */
  readonly why?: string;
}

export interface Coverage {
  readonly passing: number;
  readonly portable: number;
}

/** How many of each group's portable tests have a passing counterpart, and what is wrong with the list. `ran`: status by `file > title`. */
export function check(
  entries: Readonly<Record<string, Entry>>,
  ran: ReadonlyMap<string, string>,
): { readonly groups: ReadonlyMap<string, Coverage>; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const groups = new Map<string, Coverage>();
  for (const [name, entry] of Object.entries(entries)) {
    problems.push(...wrongWith(name, entry, entries));
    if (!isPortable(entry)) continue;
    const { passing, portable } = groups.get(entry.group) ?? { passing: 0, portable: 0 };
    const status = entry.test ? (ran.get(entry.test) ?? 'unseen') : undefined;
    if (status !== undefined && status !== 'passed')
      problems.push(`${name}: ${entry.test} ${status === 'unseen' ? 'did not run' : `is ${status}`}`);
    groups.set(entry.group, { passing: passing + (status === 'passed' ? 1 : 0), portable: portable + 1 });
  }
  for (const [test, names] of shared(entries))
    problems.push(`${test} stands for ${names.join(' and ')}, and none of them says that it is like the other`);
  return { groups, problems };
}

function isPortable({ mark }: Entry): boolean {
  return mark.startsWith('P');
}

function wrongWith(name: string, entry: Entry, entries: Readonly<Record<string, Entry>>): string[] {
  const wrong: string[] = [];
  if (!entry.test) {
    if (isPortable(entry)) wrong.push(`${name}: it can be had here, and has no counterpart`);
    else if (!entry.why?.trim()) wrong.push(`${name}: neither a counterpart nor why there is none`);
  } else if (!entry.ours?.trim() || entry.ours.includes('\n'))
    wrong.push(`${name}: 'ours' does not say in one line what ${entry.test} asserts`);
  if (entry.like !== undefined && (!entry.test || entries[entry.like]?.test !== entry.test))
    wrong.push(`${name}: it is like ${entry.like}, which has another counterpart`);
  return wrong;
}

/** Tests that stand for several bodies: entries that share one, of which more than one is like no other. */
function shared(entries: Readonly<Record<string, Entry>>): [test: string, names: string[]][] {
  const bodies = new Map<string, string[]>();
  for (const [name, { test, like }] of Object.entries(entries))
    if (test && like === undefined) bodies.set(test, [...(bodies.get(test) ?? []), name]);
  return [...bodies].filter(([, names]) => names.length > 1);
}
