/** @file Names of options: one that does not exist is refused, with the one that was probably meant. */
import { kindOf } from './given.ts';

/** The words of a text, with a space between. */
type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;
/** Anything, if the words of `Text` are `Names`, all and no others. */
type Complete<Text extends string, Names> = [Words<Text>, Names] extends [Names, Words<Text>] ? unknown : never;

/** The names of the options of `T`, from texts with a space between. The compiler sees to it that they are all there. */
export function optionNames<T>(): <Text extends string>(
  ...texts: (Text & Complete<Text, keyof T>)[]
) => ReadonlySet<string> {
  return (...texts) => new Set(texts.flatMap((text) => text.split(' ')));
}

/** What is wrong with `given` as options of `what`: it has a name that is none of `known`. Only own names count. */
export function unknownOption(given: object, known: ReadonlySet<string>, what: string): string | undefined {
  let some = false;
  for (const name in given) {
    some = true;
    if (known.has(name) || !Object.hasOwn(given, name)) continue;
    const near = nearestName(name, known);
    const advice = near === undefined ? `it takes ${[...known].join(', ') || 'none'}` : `did you mean '${near}'?`;
    return `${what}: unknown option '${name.slice(0, MAX_SHOWN)}'; ${advice}`;
  }
  return some ? undefined : unnamed(given, what);
}

/** Lists, maps and promises have no names: whatever they hold would be lost. */
function unnamed(given: object, what: string): string | undefined {
  const kind = Object.prototype.toString.call(given).slice('[object '.length, -1);
  return kind === 'Object' ? undefined : `${what}: options are an object with their names, got ${kindOf(given)}`;
}

/** @throws TypeError naming the option of `given` that `what` does not have, and the nearest that it has. */
export function checkOptionNames(given: object | undefined, known: ReadonlySet<string>, what: string): void {
  if (given === undefined || given === null) return;
  const wrong = unknownOption(given, known, what);
  if (wrong !== undefined) throw new TypeError(wrong);
}

/** The one of `names` that was probably meant by `given`, if one is near enough. */
export function nearestName(given: string, names: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Infinity;
  for (const name of names) {
    const far = distance(given.slice(0, MAX_SHOWN), name);
    if (far < least) [best, least] = [name, far];
  }
  return best;
}

/** How much of a name is shown and compared. */
const MAX_SHOWN = 60;

/** Infinity for names that have nothing to do with each other. */
function distance(given: string, name: string): number {
  const [a, b] = [plain(given), plain(name)];
  if (a === b) return 0;
  // 'learningRate' for 'lr', 'timeout' for 'timeoutMs', 'secretPath' for 'secretFile'.
  if (initials(given) === b || initials(name) === a) return 1;
  if (a.length > 2 && b.length > 2 && (a.startsWith(b) || b.startsWith(a) || a.endsWith(b) || b.endsWith(a)))
    return 1.5;
  const edits = editDistance(a, b);
  return edits <= Math.max(1, Math.floor(Math.max(a.length, b.length) / 3)) ? 1 + edits : Infinity;
}

/** Without what spellings differ in: case, dashes and underscores. */
function plain(name: string): string {
  return name.replaceAll(/[-_]/g, '').toLowerCase();
}

/** 'lr' of 'learningRate' and of 'learning_rate'. */
function initials(name: string): string {
  return name
    .split(/[-_]|(?=[A-Z])/)
    .map((word) => word.slice(0, 1).toLowerCase())
    .join('');
}

/** Insertions, deletions, replacements, and neighbours that changed places. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1),
          swapped ? (before[j - 2] ?? 0) + 1 : Infinity,
        ),
      );
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}
