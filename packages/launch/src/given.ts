/** @file What `launch()` was given, by its kinds: programs without types may have misspelt an option, or have given it another way. */
import { optionNames, show, unknownOption, withoutPassword } from '@backwire/rpc/internal';
import { UsageError } from './errors.ts';
import type { LaunchOptions } from './options.ts';

const OPTIONS = optionNames<LaunchOptions>()(
  'program args processes nodes minNodes membership nodeRank joinTimeoutMs lastCallMs rendezvous',
  'rendezvousStore localAddr local masterAddr masterPort runId role maxRestarts stopGraceMs env label inherit shown',
  'redirects tee logDir stdout stderr signals signal native execArgv cwd onGroup onStart',
);

/** Options that are one of a few words, */
const WORDS = {
  membership: ['static', 'dynamic'],
  rendezvous: ['hosted', 'etcd', 'redis'],
} as const satisfies { readonly [K in keyof LaunchOptions]?: readonly LaunchOptions[K][] };

/** What a value is, in words; of one that holds others, what each of these is. */
type Kind = readonly [words: string, fits: (value: unknown) => boolean, each?: (value: unknown) => boolean];

const isText = (value: unknown): boolean => typeof value === 'string';
/** A number is written as it is. */
const isWritten = (value: unknown): boolean => isText(value) || typeof value === 'number';
const isVariable = (value: unknown): boolean => value === undefined || isWritten(value);
const isCount = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;
const isList = (value: unknown, fits: (each: unknown) => boolean): boolean =>
  Array.isArray(value) && Array.from(value as unknown[]).every(fits);
const has = (value: unknown, ...methods: string[]): boolean =>
  typeof value === 'object' &&
  value !== null &&
  methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');

const TEXT: Kind = ['a text', isText];
const TEXTS: Kind = ['a list of texts', (value) => isList(value, isText), isText];
const FUNCTION: Kind = ['a function', (value) => typeof value === 'function'];
const STREAM: Kind = ['a stream that is written to', (value) => has(value, 'write', 'on')];

/** and those of other kinds. Numbers are looked at where their bounds are known. */
const KINDS = {
  rendezvousStore: TEXT,
  localAddr: TEXT,
  masterAddr: TEXT,
  runId: TEXT,
  role: TEXT,
  logDir: TEXT,
  cwd: TEXT,
  args: ['a list of texts', (value) => isList(value, isWritten), isWritten],
  execArgv: TEXTS,
  signals: TEXTS,
  inherit: ['a list of ranks, whole numbers from 0', (value) => isList(value, isCount), isCount],
  label: FUNCTION,
  shown: FUNCTION,
  redirects: FUNCTION,
  tee: FUNCTION,
  onGroup: FUNCTION,
  onStart: FUNCTION,
  stdout: STREAM,
  stderr: STREAM,
  native: ['true or false', (value) => typeof value === 'boolean'],
  signal: [
    'an AbortSignal',
    (value) => has(value, 'addEventListener') && typeof (value as AbortSignal).aborted === 'boolean',
  ],
  local: [
    '{ first, size }, whole numbers',
    (value) => {
      const { first, size } = (value ?? {}) as { first?: unknown; size?: unknown };
      return isCount(first) && isCount(size) && (size as number) > 0;
    },
  ],
  // What is undefined is left out, as in any environment of Node.
  env: [
    'an object of texts',
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      Object.prototype.toString.call(value) === '[object Object]' &&
      Object.values(value).every(isVariable),
    isVariable,
  ],
} as const satisfies { readonly [K in keyof LaunchOptions]?: Kind };

/** @throws UsageError for what is no option, or of another kind than its option is. */
export function checkGiven(options: unknown): void {
  if (typeof options !== 'object' || options === null)
    throw new UsageError("launch() needs options: at least { program: 'worker.ts' }");
  const wrong = unknownOption(options, OPTIONS, 'launch()');
  if (wrong !== undefined) throw new UsageError(wrong);
  const { program } = options as { program?: unknown };
  if (typeof program !== 'string' || program === '')
    throw new UsageError(
      `launch() needs the path of a program: launch({ program: 'worker.ts' }), got ${show(program)}`,
    );
  const given = options as Readonly<Record<string, unknown>>;
  for (const [name, words] of Object.entries(WORDS))
    if (given[name] !== undefined && !words.some((word) => word === given[name]))
      throw new UsageError(
        `${name} has to be ${words.map((word) => `'${word}'`).join(' or ')}, got ${withoutPassword(show(given[name]))}`,
      );
  for (const [name, [words, fits, each]] of Object.entries<Kind>(KINDS))
    if (given[name] !== undefined && !fits(given[name]))
      throw new UsageError(`${name} has to be ${words}, got ${withoutPassword(shown(given[name], each))}`);
}

/** What is wrong of a list, or of an object, is the first in it that does not fit. */
function shown(value: unknown, fits?: (each: unknown) => boolean): string {
  const isPlain = Object.prototype.toString.call(value) === '[object Object]';
  if (fits === undefined || !(Array.isArray(value) || isPlain)) return show(value);
  // Also the holes of a list.
  const all = Array.isArray(value) ? [...(value as unknown[]).entries()] : Object.entries(value as object);
  const wrong = all.find(([, each]) => !fits(each));
  return wrong === undefined ? show(value) : `${show(wrong[1])} ${Array.isArray(value) ? 'at' : 'for'} ${wrong[0]}`;
}
