/**
 * @file The keys of meetings: what each is called, and who meets there. What a replica of a data-parallel model calls is in a line of
 * meetings of its own, where each bucket of a pass has meetings beside those of the others: `kind/what/line/bucket`.
 */

/** The key of a meeting: what it is called and who meets; nobody named = all. */
export function meetingKey(name: string, names: readonly string[]): string {
  return name + suffixOf(names);
}

/** What a meeting is called that belongs to a line, if it does. */
export function nameInLine(what: string, line: string | undefined): string {
  return line === undefined ? what : `${whole(what)}/${line}`;
}

/** What one is called that is of an exchange between replicas: never what the program's own of their group are called. */
export function nameInExchange(what: string, line: string | undefined, bucket: number | undefined): string {
  return `${whole(what)}/${line ?? ''}/${bucket ?? ALL_BUCKETS}`;
}

const ALL_BUCKETS = 'all';

const whole = (what: string): string => (what.includes('/') ? what : `${what}/whole`);

/** The line beside one, of meetings of other workers than those whose lives are in its name. */
export function besideLine(line: string): string {
  return line.replace('.', '-');
}

/**
 * Whether `from` may come to the meeting `key` of `names` at `collector`. Everybody who comes to a key means the same members: who names
 * others would open a round for those who wait there that goes on without some of them.
 */
export function isMeetingOf(key: string, names: readonly string[], from: string, collector: string): boolean {
  if (!key.endsWith(suffixOf(names))) return false;
  return names.length === 0 || (names[0] === collector && names.includes(from));
}

/** The line of a meeting, '' where it has none, whether it is of one bucket, and who is named in it. */
export function partsOfKey(key: string): {
  readonly line: string;
  readonly isOfBucket: boolean;
  readonly names: readonly string[];
} {
  const [name = '', ...names] = key.split('\n');
  const [, , line = '', bucket] = name.split('/');
  return { line, isOfBucket: bucket !== undefined && bucket !== ALL_BUCKETS, names: names[0] === '*' ? [] : names };
}

/** The line of a meeting as one of all lines of all groups; undefined where it has none. */
export function lineOfKey(key: string): string | undefined {
  const end = key.indexOf('\n');
  const line = key.slice(0, end).split('/')[2];
  return line === undefined || line === '' ? undefined : line + key.slice(end);
}

/** That of the meetings of a line of these workers, given in any order, at which one of them collects. */
export function lineKey(line: string, names: readonly string[], collector: string): string {
  const sorted = [...new Set(names)].sort();
  const first = sorted.indexOf(collector);
  return line + suffixOf([...sorted.slice(first), ...sorted.slice(0, first)]);
}

function suffixOf(names: readonly string[]): string {
  return names.length === 0 ? '\n*' : `\n${names.join('\n')}`;
}
