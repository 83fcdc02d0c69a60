/** @file Values that stand for others, which are where this protocol does not reach: what is asked of an RRef of one is asked there. */
import { callContext, type CallOptions } from '@backwire/rpc';
import { thrownError, withoutSlot } from '@backwire/rpc/internal';

/** How long something may take, in milliseconds, 0 = no limit; and what cancels it. */
export type Within = Pick<CallOptions, 'timeoutMs' | 'signal'>;

/** What is rejected with goes to whoever asked, as what a method of the value has thrown. */
export abstract class StandIn {
  /** What `localValue()` of an RRef gives on its owner. */
  abstract readonly local: unknown;
  /** A copy of what it stands for. The caller owns it. */
  abstract fetch(within: Within): Promise<unknown>;
  /** The name of its class. */
  abstract typeName(within: Within): Promise<string>;
  /** Calls one of its methods. The caller owns the result. */
  abstract call(method: string, args: readonly unknown[], within: Within): Promise<unknown>;
  /** The same; what stands for the result, which stays where it is. */
  abstract callAndKeep(method: string, args: readonly unknown[], within: Within): Promise<StandIn>;
  /** No RRef of it is left. What is under way may go on. Called more than once it does nothing more. */
  abstract release(): void;
}

/** As it is for a call that is being handled. */
interface InCall {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** What is left of the time of the call that is being handled, and its signal. */
function withinCall(): InCall {
  const call = callContext();
  const left = call.remainingMs();
  return { signal: call.signal, timeoutMs: left === Infinity ? 0 : Math.max(1, Math.ceil(left)) };
}

/** Asks something of a stand-in for the call that is being handled, which leaves its place to other handlers meanwhile. */
export async function elsewhere<T>(ask: (within: InCall) => Promise<T>): Promise<T> {
  const within = withinCall();
  try {
    return await withoutSlot(ask(within));
  } catch (error) {
    // Told to stop, it says no more than that: whoever asked hears why.
    throw thrownError(within.signal.aborted ? within.signal.reason : error);
  }
}

const makers = new WeakSet<object>();

/** Lets members call what `fn` makes, where it is served: without this the methods of RRefs are served only where some class is. */
export function makesStandIns<F extends object>(fn: F): F {
  makers.add(fn);
  return fn;
}

/** Whether what calls of it leave behind are stand-ins. */
export function isMaker(fn: object): boolean {
  return makers.has(fn);
}
