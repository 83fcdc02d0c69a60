/** @file What programs call: functions on other workers, streams, meetings, and who is who. */
import type { Named } from '@backwire/tensor';
import { ambient, runWith } from '@backwire/tensor/internal';
import type { CallingAgent } from './agent/calling-agent.ts';
import { agentOf, wholeAgentOf } from './agent/current-agent.ts';
import { nameOf, type AnyFn, type Callable } from './base/definitions.ts';
import { invalidArgument, RpcError } from './base/errors.ts';
import type { CallLabel } from './extensions/extension.ts';
import { InboundCall, type CallContext } from './server/inbound-call.ts';
import { MAX_HIGH_WATER_ITEMS } from './base/limits.ts';
import {
  checkArguments,
  CALL_OPTIONS,
  checkSwitch,
  checkTimeoutMs,
  DEFAULT_HIGH_WATER_ITEMS,
  refuseUnknown,
  show,
  STREAM_OPTIONS,
  type CallOptions,
  type Rest,
  type StreamOptions,
} from './base/options.ts';
import type { CallForm } from './client/pending-call.ts';
import { StreamReader } from './client/stream-reader.ts';
import { WaitAll } from './wait-all.ts';
import { type To, type WorkerInfo } from './base/worker-info.ts';

/**
 * Calls `fn` on worker `to` and resolves with its result, which the caller owns. Not collected by `waitAll`.
 * @param to a worker: its name, its rank, or a `WorkerInfo`
 * @param fn what `rpcFunction` or `remoteFunction` gave, a static method that `rpcClass` published, or an operation of tensors
 * @param rest the arguments as a list, then `CallOptions`: `timeoutMs`, `signal`, `idempotencyKey`, `ordered`, `agent`
 * @throws RpcError 'not-found' for a worker or function that there is not, 'deadline-exceeded', 'cancelled', 'peer-died', 'unavailable', …:
 *   `executed` says whether the handler ran.
 * @throws what the handler threw, rebuilt where its class is known, else as a RemoteError.
 * @example
 * ```ts workers=worker1
 * const scale = rpcFunction('example/scale', (x: Tensor, by: number) => x.mul(by));
 *
 * const y = await rpcSync('worker1', scale, [tensor([1, 2, 3]), 2], { timeoutMs: 5_000 });
 * console.log(y.toArray()); // [ 2, 4, 6 ]
 * ```
 */
export function rpcSync<F extends AnyFn>(
  to: To,
  fn: F & Callable<F>,
  ...rest: Rest<Parameters<F>>
): Promise<Awaited<ReturnType<F>>> {
  return call(to, fn, rest, 'sync', rpcSync) as Promise<Awaited<ReturnType<F>>>;
}

/**
 * As `rpcSync`; inside `waitAll` it is also waited for there.
 * @param to a worker: its name, its rank, or a `WorkerInfo`
 * @param fn what `rpcFunction` or `remoteFunction` gave, a static method that `rpcClass` published, or an operation of tensors
 * @param rest the arguments as a list, then `CallOptions`: `timeoutMs`, `signal`, `idempotencyKey`, `ordered`, `agent`
 * @throws as `rpcSync`.
 * @example
 * ```ts workers=worker1
 * const x = tensor([1, 2]);
 * const [a, b] = await Promise.all([rpcAsync('worker1', add, [x, 1]), rpcAsync('worker1', mul, [x, 2])]);
 * console.log(a.toArray(), b.toArray()); // [ 2, 3 ] [ 2, 4 ]
 * ```
 */
export function rpcAsync<F extends AnyFn>(
  to: To,
  fn: F & Callable<F>,
  ...rest: Rest<Parameters<F>>
): Promise<Awaited<ReturnType<F>>> {
  const promise = call(to, fn, rest, 'async', rpcAsync) as Promise<Awaited<ReturnType<F>>>;
  collectInWaitAll(promise);
  return promise;
}

/** Makes the innermost `waitAll`, if there is one, wait for `promise`. */
export function collectInWaitAll(promise: Promise<unknown>): void {
  (ambient().waitAll as WaitAll | undefined)?.add(promise);
}

/** As `rpcSync`, under a label of the caller's. */
export function callLabelled(
  to: To,
  fn: Named,
  args: readonly unknown[],
  options: CallOptions | undefined,
  label: CallLabel,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    refuseUnknown(options, CALL_OPTIONS, `a call of '${label.name}'`);
    const agent = running(agentOf(options));
    const form: CallForm = { mode: 'value', label };
    agent.caller.call(agent.members.find(to), nameOf(fn), args, options, form, { resolve, reject });
  });
}

/**
 * Calls `fn` and wants no answer: what it returns or throws is dropped. Without `timeoutMs` it has no deadline.
 * @param to a worker: its name, its rank, or a `WorkerInfo`
 * @param fn what `rpcFunction` or `remoteFunction` gave, a static method that `rpcClass` published, or an operation of tensors
 * @param rest the arguments as a list, then `CallOptions`: `timeoutMs`, `signal`, `idempotencyKey`, `ordered`, `agent`
 * @throws RpcError when it cannot even be queued; TypeError for an argument that cannot travel.
 * @example
 * ```ts workers=worker1
 * const note = rpcFunction('example/note', (text: string) => console.log(text));
 * rpcOneway('worker1', note, ['epoch 3']);
 * await rpcSync('worker1', note, ['epoch 4']); // calls start in the order in which they were made: // epoch 3
 * ```
 */
export function rpcOneway<F extends AnyFn>(to: To, fn: F & Callable<F>, ...rest: Rest<Parameters<F>>): void {
  const [args, options] = rest as unknown as Given<CallOptions>;
  const agent = running(agentOf(options));
  const name = nameOf(fn);
  checkArguments(args, name);
  agent.caller.oneway(agent.members.find(to), name, args ?? [], options);
}

/**
 * Calls a generator and gives its items as they come; starts at once. The producer is at most `highWaterItems` ahead; leaving the loop
 * cancels it, without waiting for that: its `finally` blocks run a little later. `timeoutMs` bounds the whole stream and defaults to 0.
 * @param to a worker: its name, its rank, or a `WorkerInfo`
 * @param fn a generator, synchronous or not, with a name
 * @param rest the arguments as a list, then `StreamOptions`: `CallOptions`, `idleTimeoutMs`, `highWaterItems` (16)
 * @throws RpcError as `rpcSync`, from the loop, and 'not-found' for a worker that there is not at once; RangeError for `highWaterItems` out of range.
 * @example
 * ```ts workers=worker1
 * const countTo = rpcFunction('example/countTo', async function* (n: number) {
 *   for (let i = 1; i <= n; i++) yield i;
 * });
 *
 * for await (const i of rpcStream('worker1', countTo, [1_000_000])) {
 *   if (i === 3) break; // ends the generator, whose finally blocks run
 *   console.log(i); // 1
 * }
 * ```
 */
export function rpcStream<A extends unknown[], I>(
  to: To,
  fn: ((...args: A) => AsyncIterable<I> | Iterable<I>) & Named,
  ...rest: Rest<A, StreamOptions>
): AsyncGenerator<I, void, void> {
  const [args, options] = rest as unknown as Given<StreamOptions>;
  refuseUnknown(options, STREAM_OPTIONS, `a stream of '${nameOf(fn)}'`);
  const agent = running(wholeAgentOf('streams', options));
  const items = options?.highWaterItems ?? DEFAULT_HIGH_WATER_ITEMS;
  if (!Number.isInteger(items) || items < 1 || items > MAX_HIGH_WATER_ITEMS)
    throw new RangeError(`highWaterItems must be positive and at most ${MAX_HIGH_WATER_ITEMS}, got ${show(items)}`);
  const stream = new StreamReader(
    agent.caller.calls,
    items,
    checkTimeoutMs(options?.idleTimeoutMs ?? 0, 'idleTimeoutMs'),
  );
  const name = nameOf(fn);
  checkArguments(args, name);
  const label = { kind: 'stream' as const, name };
  const form: CallForm = { mode: 'stream', label, defaultTimeoutMs: 0, items, above: rpcStream };
  stream.follow(agent.caller.call(agent.members.find(to), name, args ?? [], options, form, stream));
  return stream as unknown as AsyncGenerator<I, void, void>;
}

/**
 * Runs `fn` and then waits for every `rpcAsync` made in it, and in what it awaited. Rejects at the first call that fails; the others are
 * still seen to, so that none becomes an unhandled rejection. Where `fn` itself throws, its calls are waited for and its error is thrown.
 * @param fn makes the calls; what it returns is the result
 * @throws what the first call that failed rejected with; TypeError when `fn` is no function.
 * @example
 * ```ts workers=worker1
 * let done = 0;
 * const work = rpcFunction('example/work', () => void done++);
 *
 * await waitAll(() => {
 *   for (let i = 0; i < 8; i++) void rpcAsync('worker1', work);
 * });
 * console.log(done); // 8
 * ```
 */
export async function waitAll<T>(fn: () => T | Promise<T>): Promise<T> {
  if (typeof fn !== 'function')
    throw new TypeError(
      `waitAll(fn) takes a function that makes the calls, got ${show(fn)}; promises go to Promise.all`,
    );
  const pending = new WaitAll();
  return pending.run(() => runWith({ waitAll: pending }, fn));
}

/**
 * Of the call that is being handled here.
 * @throws RpcError 'failed-precondition' outside of a handler.
 * @example
 * ```ts workers=worker1
 * const search = rpcFunction('example/search', async (steps: number) => {
 *   const { caller, signal } = callContext(); // before the first await, where pages are workers, too
 *   for (let i = 0; i < steps; i++) {
 *     signal.throwIfAborted(); // the caller has left, or its time is up
 *     await new Promise((resolve) => setImmediate(resolve));
 *   }
 *   return `for ${caller.name}`;
 * });
 * console.log(await rpcSync('worker1', search, [3])); // for worker0
 * ```
 */
export function callContext(): CallContext {
  const { call: current } = ambient();
  if (current instanceof InboundCall) return current;
  throw new RpcError('failed-precondition', 'callContext() is for handlers of calls; no call is being handled here');
}

const COLLECTIVE_OPTIONS: ReadonlySet<string> = new Set([...CALL_OPTIONS, 'workers']);

/** Of the options of calls a meeting takes those that mean something there. @throws RpcError 'invalid-argument', TypeError. */
function checkMeeting(options: CallOptions, what: string): void {
  refuseUnknown(options, COLLECTIVE_OPTIONS, what);
  checkSwitch(options.ordered, 'ordered');
  if (options.ordered === false)
    throw invalidArgument(`${what} cannot go without its order: the workers meet in the order of their calls`);
  if (options.idempotencyKey !== undefined)
    throw invalidArgument(`${what} takes no idempotency key: every call of it is a meeting of its own`);
}

/**
 * Brings `value` together with those of all others: every one gets the map from name to value. No time limit by default.
 * @param value what travels: a tensor, a plain value, a registered type, an RRef
 * @param options `timeoutMs`, `signal` and `agent` as in `CallOptions`, and `workers`: the names of those who take part, all by default
 * @throws RpcError 'barrier-broken' when one of them dies or leaves, 'deadline-exceeded' naming who is missing.
 * @example
 * ```ts
 * const common = { worldSize: 2, store: 'memory://example-gather' };
 * const [a, b] = await Promise.all([0, 1].map((rank) => createAgent({ name: `w${rank}`, rank, ...common })));
 *
 * const [names] = await Promise.all([allGather('of a', { agent: a! }), allGather('of b', { agent: b! })]);
 * console.log(names); // Map(2) { 'w0' => 'of a', 'w1' => 'of b' }
 * await Promise.all([a!.shutdown(), b!.shutdown()]);
 * ```
 */
export function allGather<T>(
  value: T,
  options: CallOptions & { workers?: readonly string[] } = {},
): Promise<Map<string, T>> {
  checkMeeting(options, 'allGather()');
  return running(agentOf(options)).collectives.gather(value, options);
}

/**
 * Resolves when every one of `workers` (default: all) has called it. No time limit by default.
 * @param options `timeoutMs`, `signal` and `agent` as in `CallOptions`, and `workers`: the names of those who take part, all by default
 * @throws RpcError 'barrier-broken' when one of them dies or leaves, 'deadline-exceeded' naming who is missing.
 * @example
 * ```ts workers=worker1
 * const meet = rpcFunction('example/meet', () => barrier({ timeoutMs: 10_000 }));
 * await Promise.all([meet(), rpcSync('worker1', meet)]); // here, and on worker1
 * ```
 */
export async function barrier(options: CallOptions & { workers?: readonly string[] } = {}): Promise<void> {
  checkMeeting(options, 'barrier()');
  await running(agentOf(options)).collectives.barrier(options);
}

/**
 * The worker that `to` means; without it, this one.
 * @param to a worker: its name, its rank, or a `WorkerInfo`; this worker by default
 * @throws RpcError 'not-found', or 'peer-died' or 'unavailable' for one that was a member.
 * @example
 * ```ts workers=worker1
 * console.log(getWorkerInfo().name, getWorkerInfo(1).name, getWorkerInfo('worker1').id); // worker0 worker1 1
 * ```
 */
export function getWorkerInfo(to?: To): WorkerInfo {
  const agent = agentOf();
  return to === undefined ? agent.self : agent.members.find(to).worker;
}

/** All workers of the group, by id. */
export function getWorkerInfos(): WorkerInfo[] {
  const agent = agentOf();
  return [agent.self, ...agent.members.others().map(({ worker }) => worker)].sort((a, b) => a.id - b.id);
}

/** The time a call may take when it says nothing, in milliseconds; 0 = no limit. */
export function getRpcTimeoutMs(): number {
  return agentOf().caller.defaultTimeoutMs;
}

/**
 * Sets it for calls made from now on.
 * @param ms milliseconds; 0 is no limit
 * @throws RangeError when it is negative or not a number.
 * @example
 * ```ts workers=worker1
 * setRpcTimeoutMs(5_000);
 * console.log(getRpcTimeoutMs()); // 5000
 * ```
 */
export function setRpcTimeoutMs(ms: number): void {
  agentOf().caller.defaultTimeoutMs = checkTimeoutMs(ms);
}

/** What cannot even be sent rejects as well: a caller has one place to look. */
function call(to: To, fn: unknown, rest: readonly unknown[], kind: 'sync' | 'async', above: unknown): Promise<unknown> {
  // Not taken apart as a list: that goes through an iterator, a twentieth of what a call allocates.
  const args = rest[0] as readonly unknown[] | undefined;
  const options = rest[1] as CallOptions | undefined;
  return new Promise((resolve, reject) => {
    const agent = running(agentOf(options));
    const name = nameOf(fn);
    checkArguments(args, name);
    if (options !== undefined) refuseUnknown(options, CALL_OPTIONS, `a call of '${name}'`);
    agent.caller.call(agent.members.find(to), name, args ?? NO_ARGS, options, formOf(kind, name, above), {
      resolve,
      reject,
    });
  });
}

/** The forms made last: most programs make the same call many times. */
const forms: Record<'sync' | 'async', CallForm> = {
  sync: { mode: 'value', label: { kind: 'sync', name: '' } },
  async: { mode: 'value', label: { kind: 'async', name: '' } },
};
const NO_ARGS: readonly unknown[] = Object.freeze([]);

function formOf(kind: 'sync' | 'async', name: string, above: unknown): CallForm {
  const last = forms[kind];
  return last.label.name === name ? last : (forms[kind] = { mode: 'value', label: { kind, name }, above });
}

/** What a call was given after its function. */
type Given<O> = [args?: readonly unknown[], options?: O];

export function running<A extends CallingAgent>(agent: A): A {
  if (agent.isClosed)
    throw new RpcError('failed-precondition', 'RPC has not been initialized: this agent has shut down');
  return agent;
}
