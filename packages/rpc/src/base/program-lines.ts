/** @file Places in the program: the lines that called this library, put into words. */
import { isOwnFrame } from '@backwire/tensor/internal';
import { MAX_CALL_SITE_FRAMES } from './limits.ts';

/** A place in the program: an object whose stack is only put into words when somebody asks. */
export interface CallSite {
  readonly stack?: string;
}

/** Not every engine can do it without an error, and some only in part. */
const { captureStackTrace } = Error as { captureStackTrace?: (target: object, above?: unknown) => void };

function stackBelow(above: unknown, frames: number): CallSite {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = frames;
  const site = {};
  if (above === undefined) captureStackTrace?.(site);
  else captureStackTrace?.(site, above);
  Error.stackTraceLimit = before;
  return site;
}

/**
 * Whether a function that ends with a call leaves the stack at once, as the language says and JavaScriptCore (Bun, Safari) does it. What
 * the program has called may be gone then, and nothing is found below it.
 */
export const forgetsTailCalls = ((): boolean => {
  function last(): CallSite {
    return stackBelow(first, 1);
  }
  function first(): CallSite {
    return last();
  }
  // A program may have made something else of it than text.
  const { stack } = first();
  return typeof stack === 'string' && !stack.includes('\n');
})();

/** The frames of these packages between the program and here, where they have to be passed over one by one. */
const OWN_FRAMES = 12;

/** The lines of the program below `above`, the function that it has called. Cheap: the frames are noted, not written. */
export function callSite(above: unknown): CallSite | undefined {
  if (captureStackTrace === undefined) return undefined;
  return forgetsTailCalls
    ? stackBelow(undefined, MAX_CALL_SITE_FRAMES + OWN_FRAMES)
    : stackBelow(above, MAX_CALL_SITE_FRAMES);
}

/** The program's own lines. */
export function linesOf(site: CallSite | undefined): string[] {
  const lines = (site?.stack ?? '').split('\n').filter((line) => /^ {4}at /.test(line));
  return lines.filter((line) => !isLibraryFrame(line)).slice(0, MAX_CALL_SITE_FRAMES);
}

/** Lines of these packages, and of what runs them, say nothing to who made the call. */
function isLibraryFrame(line: string): boolean {
  if (/\.test\.[jt]s/.test(line)) return false;
  return isOwnFrame(line) || OWN.test(line) || RUNTIME.test(line);
}
/** Node's and Bun's 'node:…', Bun's 'internal:…' and '(native)', Deno's 'ext:…'. */
const RUNTIME = /(?:\(|^ {4}at (?:async )?)(?:(?:node|internal|ext):|native\b)/;
const OWN =
  /@backwire[/\\](?:rpc|rref|dist-autograd|profiler)[/\\]|packages[/\\](?:rpc|rref|dist-autograd|profiler)[/\\](?:src|dist)[/\\](?!testdata)/;

/** 'train.ts:42' of a line of a stack. */
export function placeOf(line: string): string {
  const [, path = line.trim(), at = ''] =
    /\(?((?:file:\/\/)?[^()]+?):(\d+):\d+\)?$/.exec(line.replace(/^ {4}at (?:async )?/, '')) ?? [];
  return `${path
    .replace(/^.*[ (]/, '')
    .split(/[/\\]/)
    .slice(-2)
    .join('/')}${at === '' ? '' : `:${at}`}`;
}
