/** @file Failed calls say what was called, on which worker, and from which line of the program. */
import { isOwnFrame } from '@backwire/tensor/internal';
import { MAX_CALL_SITE_FRAMES, MAX_CALL_SITES_A_SECOND } from '../base/limits.ts';
import { bareText, RpcError } from '../base/errors.ts';
import type { WorkerInfo } from '../base/worker-info.ts';

/** Where a call was made: an object whose stack is only put into words when somebody asks. */
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

/** Stands for the site of a call that would have been one too many to note. */
const NOT_NOTED: CallSite = Object.freeze({});

/** How many calls may note their site: so many a second that it takes less than a hundredth of the time. */
export class CallSiteBudget {
  /** How many more may before the clock is asked. */
  private left = 0;
  private since = -Infinity;

  take(now: number): boolean {
    if (this.left === 0) {
      if (now - this.since < 1_000) return false;
      this.since = now;
      this.left = MAX_CALL_SITES_A_SECOND;
    }
    this.left--;
    return true;
  }
}

/** The agents of a process share its time. */
const budgetOfProcess = new CallSiteBudget();

/** Which calls note their site: all, none, or by default as many as there is time for. */
export class CallSites {
  private readonly all: boolean | undefined;
  private readonly budget: CallSiteBudget;

  constructor(all: boolean | undefined, budget = budgetOfProcess) {
    this.all = all;
    this.budget = budget;
  }

  /** @param now in milliseconds. */
  note(above: unknown, now: number): CallSite | undefined {
    if (this.all !== undefined) return this.all ? callSite(above) : undefined;
    return this.budget.take(now) ? callSite(above) : NOT_NOTED;
  }
}

const named = new WeakSet<Error>();
/** The agent's own calls, which programs know by other names. */
const OWN_CALLS = /^rpc\//;

/**
 * Puts the function, the worker and the call site of a call that failed on its error: in the message of a failure of the system, on the
 * stack of every one. What a handler threw keeps its message.
 */
export function nameCall(error: unknown, name: string, worker: WorkerInfo, site: CallSite | undefined): void {
  if (!(error instanceof Error) || named.has(error) || name === '' || OWN_CALLS.test(name)) return;
  named.add(error);
  try {
    if (error instanceof RpcError && error.code !== 'remote-error' && !hasName(error.message, name)) {
      const on = error.message.includes(`'${worker.name}'`) ? '' : ` on worker '${worker.name}'`;
      redefine(error, 'message', `${bareText(error.code, error.message)} (calling '${name}'${on}) [${error.code}]`);
    }
    const lines = linesOf(site);
    const many = site === NOT_NOTED ? ' (one of so many that its line was not noted; callSites: true notes all)' : '';
    const at = lines[0] === undefined ? many : ` at your ${placeOf(lines[0])}`;
    const stack = [
      `${error.name}: ${error.message}`,
      `    calling '${name}' on worker '${worker.name}'${at}`,
      ...lines,
    ];
    redefine(error, 'stack', stack.join('\n'));
  } catch {
    // An error of a class that lets nothing be changed keeps what it has.
  }
}

function hasName(message: string, name: string): boolean {
  return message.includes(`'${name}'`);
}

function redefine(error: Error, name: 'message' | 'stack', value: string): void {
  Object.defineProperty(error, name, { value, writable: true, configurable: true });
}

/** The program's own lines. */
function linesOf(site: CallSite | undefined): string[] {
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
function placeOf(line: string): string {
  const [, path = line.trim(), at = ''] =
    /\(?((?:file:\/\/)?[^()]+?):(\d+):\d+\)?$/.exec(line.replace(/^ {4}at (?:async )?/, '')) ?? [];
  return `${path
    .replace(/^.*[ (]/, '')
    .split(/[/\\]/)
    .slice(-2)
    .join('/')}${at === '' ? '' : `:${at}`}`;
}
