/** @file Flags of a program, declared once: their parsing, their checks and their help. */
import { accessSync, constants, mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

/** A mistake on the command line; the message says which. */
export class OptionError extends Error {
  override readonly name = 'OptionError';
}

/** One flag. */
export interface Flag<T> {
  /** What stands for its value in the help; undefined = a switch. */
  readonly placeholder: string | undefined;
  readonly help: string;
  /** The value of the text, or of undefined when the flag is not given. @throws OptionError */
  read(flag: string, text: string | undefined): T;
}

export type Flags = Readonly<Record<string, Flag<unknown>>>;
export type OptionsOf<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

/** A whole number from `least` to `most`. */
export function count(help: string, fallback: number, range: { least?: number; most?: number } = {}): Flag<number> {
  const { least = 1, most = 2 ** 31 - 1 } = range;
  return {
    placeholder: 'N',
    help: `${help} (default ${fallback})`,
    read: (flag, text) => (text === undefined ? fallback : wholeNumber(flag, text, least, most)),
  };
}

/** A number above zero. */
export function positive(help: string, fallback: number): Flag<number> {
  return {
    placeholder: 'X',
    help: `${help} (default ${fallback})`,
    read: (flag, text) => (text === undefined ? fallback : positiveNumber(flag, text)),
  };
}

/** Any text; with `choices`, one of them. */
export function text(placeholder: string, help: string, fallback: string, choices?: readonly string[]): Flag<string> {
  const listed = choices === undefined ? '' : `: ${choices.join(', ')}`;
  return {
    placeholder,
    help: `${help}${listed}${fallback === '' ? '' : ` (default ${fallback})`}`,
    read: (flag, value = fallback) => {
      if (choices !== undefined && !choices.includes(value))
        throw new OptionError(`--${flag} has to be one of ${choices.join(', ')}, got '${value}'`);
      return value;
    },
  };
}

/** Off unless given. */
export function toggle(help: string): Flag<boolean> {
  return { placeholder: undefined, help, read: (_, given) => given !== undefined };
}

/**
 * Reads the flags of `argv`; undefined = help was asked for. Underscores may stand for the dashes inside a name.
 * @throws OptionError naming the flag that is unknown or has a value it cannot have.
 */
export function parseFlags<F extends Flags>(argv: readonly string[], flags: F): OptionsOf<F> | undefined {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { placeholder }]) => [
      name,
      { type: placeholder === undefined ? ('boolean' as const) : ('string' as const) },
    ]),
  );
  const dashed = argv.map((token) =>
    token.startsWith('--') ? token.replace(/^--[^=]*/, (name) => name.replaceAll('_', '-')) : token,
  );
  const values = strictly(() =>
    parseArgs({ args: dashed, options: { ...options, help: { type: 'boolean', short: 'h' } } }),
  ).values as Readonly<Record<string, string | boolean | undefined>>;
  if (values['help'] === true) return undefined;
  return Object.fromEntries(
    Object.entries(flags).map(([name, flag]) => {
      const value = values[name];
      return [name, flag.read(name, value === true ? '' : (value as string | undefined))];
    }),
  ) as OptionsOf<F>;
}

/** The lines of the help that list the flags. */
export function flagsHelp(flags: Flags): string {
  const rows = [...Object.entries(flags), ['help', { placeholder: undefined, help: 'this text' }] as const].map(
    ([name, { placeholder, help }]) => ({
      left: `--${name}${placeholder === undefined ? '' : ` ${placeholder}`}`,
      help,
    }),
  );
  const width = Math.max(...rows.map(({ left }) => left.length));
  return rows.map(({ left, help }) => `  ${left.padEnd(width)}  ${help}\n`).join('');
}

/** @throws OptionError unless `value` is a whole number from `least` to `most`. */
export function wholeNumber(flag: string, value: string, least: number, most: number): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < least || number > most || value.trim() === '')
    throw new OptionError(`--${flag} has to be a whole number from ${least} to ${most}, got '${value}'`);
  return number;
}

/** @throws OptionError unless `value` is a number above zero. */
export function positiveNumber(flag: string, value: string): number {
  const number = Number(value);
  if (!Number.isFinite(number) || number <= 0)
    throw new OptionError(`--${flag} has to be a positive number, got '${value}'`);
  return number;
}

/** Runs `parseArgs`, whose errors name the flag in their first sentence; the rest is about positional arguments. */
export function strictly<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new OptionError((error as Error).message.split(/\.(?:\s|$)/)[0] ?? '', { cause: error });
  }
}

/** Makes sure before the work, not after it, that its results can be written to `folder`, the value of --out. */
export function prepareOutput(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new OptionError(`--out ${folder}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
