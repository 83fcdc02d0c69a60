/** @file The functions that programs call: making RRefs, recognising them, and looking at those there are. */
import type { Named } from '@backwire/tensor';
import {
  currentAgent,
  RpcError,
  rpcInfo,
  type AnyCtor,
  type AnyFn,
  type CallOptions,
  type Extension,
  type Rest,
  type RpcAgent,
  type To,
  type WorkerInfo,
} from '@backwire/rpc';
import {
  CALL_OPTIONS,
  checkArguments,
  checkSwitch,
  nameOf,
  optionNames,
  refuseUnknown,
  type ExtensionHost,
  type NotGenerator,
} from '@backwire/rpc/internal';
import { createFailed, createRemote } from './client/creation.ts';
import { RRefSession, sessionOf } from './extension.ts';
import { isHandle } from './handle-brand.ts';
import { lookAt } from './inspection.ts';
import { EXTENSION_NAME } from './names.ts';
import { serveMethods } from './owner/remote-methods.ts';
import { spaceOf, type RRefSpace } from './space.ts';
import type { RRef } from './types.ts';

/** What `rrefs()` may be told. */
export interface RRefOptions {
  /** Remember where each RRef was made, for leak reports and `listRRefs`. Takes a stack trace for each. @default false */
  readonly creationSites?: boolean;
}

const RREF_OPTIONS = optionNames<RRefOptions>()('creationSites');

/** The extension: `initRpc({ extensions: [rrefs()] })`. One object may be given to several agents. */
export function rrefs(options: RRefOptions = {}): Extension {
  refuseUnknown(options, RREF_OPTIONS, 'rrefs()');
  checkSwitch(options.creationSites, 'creationSites');
  return {
    name: EXTENSION_NAME,
    attach(agent) {
      const session = new RRefSession(agent as ExtensionHost, { creationSites: options.creationSites ?? false });
      serveMethods(agent, session);
      return session;
    },
  };
}

/** What `remote` calls: a function that peers know by a name. The compiler shows the text where something else is given. */
type Leaving<F> = F extends Named
  ? F extends AnyFn
    ? NotGenerator<ReturnType<F>>
    : 'the arguments are not those of the constructor: remote(to, Class, [ … ])'
  : "not known to peers: give rpcFunction('name', fn), or a class with a static [rpcName] to rpcClass";

/**
 * Calls `fn`, a function or a class, on `to`, where the result stays, and answers at once with an RRef of it. Arguments that cannot
 * travel throw here; whatever fails elsewhere (the function, a worker that is gone, an RRef among the arguments) shows when the RRef is
 * used, never as an unhandled rejection.
 * @param to a worker: its name, its rank, or a `WorkerInfo`
 * @param ctor a class that `rpcClass` published there
 * @param rest the arguments as a list, then `CallOptions`
 * @throws RpcError 'not-found' for a worker that there never was, 'rref-released' for an RRef that was disposed; TypeError for an argument
 * that cannot travel.
 * @example
 * ```ts workers=ps
 * using made = remote('ps', add, [tensor([1, 2]), 1]); // the result stays on ps
 * const norm = rpcFunction('example/normOf', async (x: RRef<Tensor>) => (await x.toHere()).sum().item());
 * console.log(await rpcSync('ps', norm, [made])); // 5
 * ```
 */
export function remote<C extends AnyCtor & Named>(
  to: To,
  ctor: C,
  ...rest: Rest<ConstructorParameters<C>>
): RRef<InstanceType<C>>;
export function remote<F extends AnyFn | AnyCtor>(
  to: To,
  fn: F & Leaving<F>,
  ...rest: Rest<F extends AnyFn ? Parameters<F> : readonly unknown[]>
): RRef<F extends AnyFn ? Awaited<ReturnType<F>> : never>;
export function remote(to: To, fn: Named, args: readonly unknown[] = [], options: CallOptions = {}): RRef<unknown> {
  refuseUnknown(options, CALL_OPTIONS, 'remote()');
  const agent = options.agent ?? currentAgent();
  const space = spaceOf(agent);
  if (space !== undefined) {
    checkArguments(args, nameOf(fn));
    return space.remote(to, fn, args, options);
  }
  const session = sessionOf(agent);
  const name = nameOf(fn);
  checkArguments(args, name);
  let worker: WorkerInfo;
  try {
    worker = session.host.resolve(to);
  } catch (error) {
    // One that was there once, as only its error names it.
    const left = rpcInfo(error)?.peer;
    if (left === undefined) throw error;
    return createFailed(session, session.members.last(left), error);
  }
  session.requireExtension(worker, EXTENSION_NAME);
  // Only classes have a prototype that cannot be replaced.
  const isClass = Object.getOwnPropertyDescriptor(fn, 'prototype')?.writable === false;
  return createRemote(session, worker, fn, args, { name, className: isClass ? name : undefined }, options);
}

/**
 * An RRef of a value that is here. It borrows the value: nothing is copied or disposed.
 * @param value what is referred to; it stays here
 * @throws RpcError 'failed-precondition' when there is no agent.
 * @example
 * ```ts workers=worker1
 * const weights = tensor([1, 2]);
 * const twice = rpcFunction('example/twice', async (w: RRef<Tensor>) => (await w.toHere()).mul(2));
 * const y = await rpcSync('worker1', twice, [createRRef(weights)]);
 * console.log(y.toArray()); // [ 2, 4 ]
 * ```
 */
export function createRRef<T>(value: T): RRef<T> {
  return here(agentForRRef()).own(value) as RRef<T>;
}

/** Whether `value` is an RRef, of whatever agent and installed copy of the package. */
export function isRRef(value: unknown): value is RRef<unknown> {
  return isHandle(value);
}

/** PyTorch's counters of the current agent. */
export function rrefDebugInfo(): Record<
  'num_owner_rrefs' | 'num_forks' | 'num_pending_users' | 'num_pending_children' | 'num_pending_futures',
  number
> {
  const {
    num_owner_rrefs = 0,
    num_forks = 0,
    num_pending_users = 0,
    num_pending_children = 0,
    num_pending_futures = 0,
  } = here(currentAgent()).debugInfo();
  return { num_owner_rrefs, num_forks, num_pending_users, num_pending_children, num_pending_futures };
}

/**
 * The RRefs in the tables of the current agent: those it owns that others hold, and those it holds.
 * @example
 * ```ts workers=ps
 * using made = remote('ps', add, [ones([2]), 1]);
 * await made.confirmed();
 * console.log(listRRefs().map(({ owner, holders }) => `${owner}: ${holders.join()}`)); // [ 'ps: worker0' ]
 * ```
 */
export function listRRefs(): {
  id: string;
  /** The owner's name. */
  owner: string;
  /** Who holds it: names, one for each handle. Of an RRef owned elsewhere only this worker's own handles are known. */
  holders: string[];
  /** The type of the value; 'unknown' while it is being created, and of values elsewhere. */
  type: string;
  /** Where it was made; with `rrefs({ creationSites: true })`. */
  createdAt?: string;
}[] {
  const space = spaceOf(currentAgent());
  if (space !== undefined) return space.list();
  const session = sessionOf(currentAgent());
  const { name } = session.host;
  const { owned, held } = lookAt(session);
  return [
    ...owned.map((look) => ({ ...look, owner: name })),
    ...held.map(({ handles, confirmed: _, ...look }) => ({
      ...look,
      holders: Array.from({ length: handles }, () => name),
      type: 'unknown',
    })),
  ];
}

/** The RRefs of an agent, of whatever kind it is. */
function here(agent: RpcAgent): Pick<RRefSpace, 'own' | 'debugInfo'> {
  return spaceOf(agent) ?? sessionOf(agent);
}

function agentForRRef(): RpcAgent {
  try {
    return currentAgent();
  } catch (cause) {
    const text = 'Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling `rpc.init_rpc`)?';
    throw new RpcError('failed-precondition', text, { cause });
  }
}
