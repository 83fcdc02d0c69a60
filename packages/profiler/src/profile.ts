/** @file `profile` and `recordFunction`: what runs inside is recorded, here and on the workers it calls. */
import { memory } from '@backwire/tensor';
import { runWith } from '@backwire/tensor/internal';
import { chromeTrace, type ChromeTrace, type TraceSource } from './chrome-trace.ts';
import { checkProfileOptions, type ProfileEvent, type ProfileOptions, publicEvents } from './events.ts';
import { RpcError, type RpcAgent } from '@backwire/rpc';
import { checkFunction, refuseUnknown, show } from '@backwire/rpc/internal';
import { agentHere, groupNames } from './identity.ts';
import { clockOf } from './now.ts';
import { currentScope, ProfileScope } from './profile-scope.ts';
import { Recorder } from './recorder.ts';
import { writeChromeTrace } from './trace-file.ts';
import { Summary, SUMMARY_OPTIONS, type SummaryOptions, type TableOptions } from './summary.ts';

/** What a profile found. */
export interface Profile {
  /** In the order they began to be known: what other workers did comes when the reply does. */
  events(): readonly ProfileEvent[];
  /** How many events there was no room for: then sums are too small. A profile holds a million, a reply brings ten thousand. */
  readonly dropped: number;
  /** Sums by name, or by name and worker. */
  keyAverages(options?: SummaryOptions): { table(options?: TableOptions): string };
  /** For ui.perfetto.dev and chrome://tracing: a row per worker, arrows from calls to their handlers. */
  toChromeTrace(): { traceEvents: object[] };
  /** Writes the trace as a JSON file, of any length. @throws when the file cannot be written. */
  writeChromeTrace(path: string): Promise<void>;
}

/**
 * Runs `fn` and records the tensor operations, `recordFunction` labels and remote calls inside, and what the called workers did for
 * them. Calls that are still in flight when `fn` settles are shown as lasting until then. A profile inside a profile goes to both.
 * @param fn what is profiled
 * @param options what is recorded beside names and times
 * @throws what `fn` threw; TypeError for an option that there is not.
 * @example
 * ```ts workers=worker1
 * const { value, profile } = await profiler.profile(() => rpcSync('worker1', add, [ones([2]), 1]));
 * console.log(value.toArray()); // [ 2, 2 ]
 * console.log(profile.keyAverages().table({ limit: 5 })); // … add …
 * // await profile.writeChromeTrace('trace.json') writes what ui.perfetto.dev opens.
 * ```
 */
export async function profile<T>(
  fn: () => T | Promise<T>,
  options: ProfileOptions = {},
): Promise<{ value: T; profile: Profile }> {
  checkFunction(fn, 'profile()');
  checkProfileOptions(options, 'profile()');
  const outer = currentScope();
  const recorder = newRecorder(agentHere(), options);
  const names = groupNames();
  try {
    const value = await runWith({ profile: new ProfileScope(recorder, -1) }, fn);
    return { value, profile: new FinishedProfile(recorder, names) };
  } finally {
    recorder.finish();
    outer?.recorder.absorb(recorder, outer.innermost());
  }
}

/** A label that is being recorded. */
export interface Label {
  /**
   * Lets the label last until `promise` settles instead of until its function is done, and gives the promise back.
   * @throws RpcError 'failed-precondition' when it was called before: "… can only be called once."; TypeError for what is no promise.
   */
  endWith<P extends PromiseLike<unknown>>(promise: P): P;
}

/**
 * Labels what `fn` does: an event named `name` that lasts until `fn` returns, or the promise it returns settles, or the one it gives to
 * `label.endWith`. Without a profile in force this is just `fn`. The label follows a remote call: on the called worker it appears under
 * the call's key.
 * @param name what the event is called
 * @param fn what it lasts for; its argument lets the event last until some other promise settles
 * @throws what `fn` threw; TypeError for a name that is no text and for what is no function.
 * @example
 * ```ts
 * const { profile } = await profiler.profile(() => profiler.recordFunction('load data', () => ones([4]).sum()));
 * console.log(profile.events().some((event) => event.name === 'load data')); // true
 * ```
 */
export function recordFunction<T>(name: string, fn: (label: Label) => T): T {
  if (typeof name !== 'string' || typeof fn !== 'function')
    throw new TypeError(
      `recordFunction() takes a name and a function, as in recordFunction('load', () => …); got ${show(name)} and ${show(fn)}`,
    );
  const scope = currentScope();
  if (scope === undefined) return fn(new OpenLabel(() => undefined));
  const { recorder } = scope;
  const event = recorder.begin('scope', name, scope.innermost());
  const end = (): void => recorder.end(event);
  const label = new OpenLabel(end);
  let result: T;
  try {
    result = runWith({ profile: scope.inside(event) }, () => fn(label));
  } catch (error) {
    end();
    throw error;
  }
  if (label.followed) return result;
  if (isThenable(result)) result.then(end, end);
  else end();
  return result;
}

class OpenLabel implements Label {
  followed = false;
  private readonly end: () => void;

  constructor(end: () => void) {
    this.end = end;
  }

  endWith<P extends PromiseLike<unknown>>(promise: P): P {
    if (this.followed) throw new RpcError('failed-precondition', 'endWith of a label can only be called once.');
    if (!isThenable(promise)) throw new TypeError(`endWith of a label takes a promise, got ${show(promise)}`);
    this.followed = true;
    promise.then(this.end, this.end);
    return promise;
  }
}

/** A recorder on the clock of a worker and on this process's tensor memory. */
export function newRecorder(agent: RpcAgent | undefined, options: ProfileOptions): Recorder {
  const { nowUs, epochUs } = clockOf(agent);
  return new Recorder({ ...options, node: agent?.id ?? 0, nowUs, epochUs, memoryBytes: () => memory().bytes });
}

class FinishedProfile implements Profile {
  readonly source: TraceSource;
  readonly dropped: number;

  constructor(recorder: Recorder, names: ReadonlyMap<number, string>) {
    const { node } = recorder.options;
    this.source = { events: recorder.finish(), originUs: recorder.epochUs(0), names, node, clocks: recorder.clocks };
    this.dropped = recorder.dropped;
  }

  events(): readonly ProfileEvent[] {
    return publicEvents(this.source.events);
  }

  keyAverages(options: SummaryOptions = {}): Summary {
    refuseUnknown(options, SUMMARY_OPTIONS, 'keyAverages()');
    return new Summary(this.source.events, options, this.dropped);
  }

  toChromeTrace(): ChromeTrace {
    return chromeTrace([this.source]);
  }

  async writeChromeTrace(path: string): Promise<void> {
    await writeChromeTrace(path, this.toChromeTrace());
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
