/** @file Failed calls say what was called, on which worker, and from which line of the program. */
import { bareText, RpcError } from '../base/errors.ts';
import { MAX_CALL_SITES_A_SECOND } from '../base/limits.ts';
import { callSite, linesOf, placeOf, type CallSite } from '../base/program-lines.ts';
import type { WorkerInfo } from '../base/worker-info.ts';

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
