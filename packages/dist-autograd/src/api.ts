/** @file What programs call: contexts, the backward pass, gradients, counters. */
import {
  currentAgent,
  RpcError,
  type CallOptions,
  type Extension,
  type Logger,
  type RpcAgent,
  type To,
  type WorkerInfo,
} from '@backwire/rpc';
import { checkFunction, type ExtensionHost } from '@backwire/rpc/internal';
import type { RRef } from '@backwire/rref';
import type { Parameter, Tensor } from '@backwire/tensor';
import { ambient, replicas, runWith, type RunningReplica, type Turn } from '@backwire/tensor/internal';
import type { Gradients } from './engine/gradients.ts';
import type { LiveContext } from './live-context.ts';
import type { BackwardOptions } from './pass-runner.ts';
import { AutogradSession, EXTENSION_NAME } from './extension.ts';

/** The id of a distributed autograd context: the creator's id in the upper 16 bits, its counter below. */
export type ContextId = bigint & { readonly __contextId: true };

/** Distributed autograd of one agent, whatever protocol it speaks. */
export interface Autograd {
  readonly contexts: { readonly size: number; find(id: bigint): LiveContext | undefined };
  /** A new context of this worker. @throws RpcError 'resource-exhausted' */
  create(): LiveContext;
  /** @throws RpcError 'not-found' "Could not find autograd context with id: N" */
  find(id: bigint): LiveContext;
  gradients(id: bigint): Gradients;
  backward(id: bigint, roots: readonly Tensor[], options?: BackwardOptions): Promise<void>;
  /** Fails the pass in progress in a context, here and wherever that can be told. */
  abort(context: LiveContext): void;
  /** Ends a context of this worker everywhere. */
  release(context: LiveContext): void;
  debugInfo(): Record<'num_current_backward_passes' | 'num_autograd_contexts', number>;
  readonly logger: Logger;
  /** How optimisers are made and stepped on owners; undefined: as this package does it. */
  readonly optimizers?: RemoteOptimizers | undefined;
  /** How modules are made and run on other workers; undefined: as this package does it. */
  readonly modules?: RemoteModules | undefined;
}

/** Modules on other workers, in a group of another kind. */
export interface RemoteModules {
  /** `name` is that of the class, as in 'nn.Linear'. */
  create(to: To, name: string, args: readonly unknown[], device: string, options: CallOptions): RRef<unknown>;
  forward(rref: RRef<unknown>, args: readonly unknown[], device: string, options: CallOptions): Promise<unknown>;
  parameters(rref: RRef<unknown>, recurse: boolean): Promise<RRef<Parameter>[]>;
  train(rref: RRef<unknown>, mode: boolean): Promise<void>;
}

/** Optimisers on owners of parameters, in a group of another kind. */
export interface RemoteOptimizers {
  /** `name` as in 'optim.SGD'; `args` are those after the parameters. */
  create(
    owner: WorkerInfo,
    name: string,
    params: readonly RRef<Tensor>[],
    args: readonly unknown[],
  ): Promise<RRef<unknown>>;
  /** How many parameters had a gradient; undefined where that is not told. */
  step(local: RRef<unknown>, contextId: bigint, options: CallOptions): Promise<number | undefined>;
}

const sessions = new WeakMap<object, Autograd>();

/** Gives an agent distributed autograd of its own kind; once, when it is made. */
export function provideAutograd(agent: RpcAgent, autograd: Autograd): void {
  sessions.set(agent, autograd);
}

/** The extension: `initRpc({ extensions: [rrefs(), distAutograd()] })`. */
export function distAutograd(): Extension {
  return {
    name: EXTENSION_NAME,
    attach(agent) {
      replicas.onForward = noteReplica;
      const host = agent as ExtensionHost & { readonly limits?: { readonly maxContexts: number } };
      const session = new AutogradSession(host, host.limits?.maxContexts);
      sessions.set(agent, session);
      return session;
    },
  };
}

/** How the modules of an agent's group are made and run, where that is not as here. */
export function modulesOf(agent: RpcAgent): RemoteModules | undefined {
  return sessions.get(agent)?.modules;
}

/** The session of an agent. @throws RpcError 'failed-precondition' when it has no such extension. */
export function sessionOf(agent: RpcAgent = currentAgent()): Autograd {
  const session = sessions.get(agent);
  if (session !== undefined) return session;
  const text = `worker '${agent.name}' has no extension '${EXTENSION_NAME}': pass distAutograd() to initRpc({ extensions })`;
  throw new RpcError('failed-precondition', text);
}

/** A replicated module runs: in a context its gradients are its group's, whoever asks for the pass. */
function noteReplica(replica: RunningReplica, turn: Turn): void {
  const { contextId } = ambient();
  if (contextId !== undefined) sessions.get(currentAgent())?.contexts.find(contextId)?.replicas.note(replica, turn);
}

/**
 * Runs `fn` in a new distributed autograd context: calls it makes, and calls that those make, are recorded for `backward`. When `fn`
 * returns, the context waits for calls and steps of optimizers still in flight and is then released on every worker; when it throws, they are cancelled. A
 * backward pass still in progress fails. Streams carry no gradients: their items need none in a context, and arguments that do are
 * refused with 'failed-precondition'. Gradients taken with `getGradients` outlive the context.
 *
 * @param fn gets the id of the context; what it resolves with is the result
 * @throws RpcError 'failed-precondition' "Already have an autograd context id for this thread." when called inside another one.
 * @example
 * ```ts workers=worker1
 * const w = tensor([2], { requiresGrad: true });
 * await distAutograd.context(async (id) => {
 *   const y = await rpcSync('worker1', mul, [w, tensor([5])]); // recorded on both workers
 *   await distAutograd.backward(id, [y.sum()]);
 *   console.log(distAutograd.getGradients(id).get(w)?.toArray()); // [ 5 ]
 * });
 * ```
 */
export async function context<T>(fn: (contextId: ContextId) => Promise<T>): Promise<T> {
  checkFunction(fn, 'context()');
  const session = sessionOf();
  const outer = ambient().contextId;
  if (outer !== undefined && session.contexts.find(outer) !== undefined) {
    throw new RpcError('failed-precondition', `Already have an autograd context id for this thread. (${outer})`);
  }
  const own = session.create();
  try {
    // The body is awaited here, and its `then` may be anything: it runs in the context as a whole.
    const value = await runWith({ contextId: own.id }, async () => fn(own.id as ContextId));
    session.abort(own);
    if (own.callsInFlight > 0) await own.whenIdle();
    return value;
  } catch (error) {
    own.cancelCalls(error);
    throw error;
  } finally {
    session.release(own);
  }
}

/**
 * Computes the gradients of `roots`, scalars on this worker that are summed, for all leaves on all workers that they depend on, and adds
 * them to the context, each on its leaf's worker; no `.grad` is touched. Resolves when every worker is done. A pass that fails on any
 * worker leaves no gradients behind on any. After one that fails, or cannot begin, the groups of the context's replicated modules are told,
 * as they wait for this worker: they make no further pass with them.
 *
 * `timeoutMs` bounds the whole pass; the default is the agent's.
 *
 * @param contextId what `context` gave its function
 * @param roots scalars on this worker that require grad, usually one loss
 * @param options `timeoutMs` and `signal` of the whole pass, `retainGraph`, `mode`: 'smart' (default) or 'fast'
 * @throws RpcError 'not-found' for an unknown or released context, 'invalid-argument' for roots that cannot be one, 'peer-died' when a
 * worker of the context dies, 'failed-precondition' when another pass is in progress in the context.
 * @throws Error "Error on Node N: …" when a function of the graph threw on worker N, with a prefix for each worker on the way.
 * @example
 * ```ts workers=worker1
 * const x = tensor([1, 2], { requiresGrad: true });
 * await distAutograd.context(async (id) => {
 *   const a = (await rpcSync('worker1', square, [x])).sum();
 *   const b = (await rpcSync('worker1', mul, [x, 10])).sum();
 *   await distAutograd.backward(id, [a, b]); // of their sum
 *   console.log(distAutograd.getGradients(id).get(x)?.toArray()); // [ 12, 14 ]
 * });
 * ```
 */
export async function backward(
  contextId: bigint,
  roots: readonly Tensor[],
  options: BackwardOptions = {},
): Promise<void> {
  // That they are options at all is seen with all else that is checked: there the context's replicas are known.
  const agent = (options as BackwardOptions | null)?.agent ?? currentAgent();
  await sessionOf(agent).backward(contextId, roots, options);
}

/**
 * The gradients that this worker holds in a context. A snapshot: later passes do not change it, and the tensors are the caller's.
 * @param contextId what `context` gave its function
 * @throws RpcError 'not-found' "Could not find autograd context with id: N"
 * @example
 * ```ts
 * await initRpc({ name: 'worker0', rank: 0, worldSize: 1, store: 'memory://example-gradients' });
 * const w = tensor([3], { requiresGrad: true });
 * const gradients = await distAutograd.context(async (id) => {
 *   await distAutograd.backward(id, [w.square().sum()]);
 *   return distAutograd.getGradients(id);
 * });
 * console.log(gradients.get(w)?.toArray(), w.grad); // [ 6 ] null
 * await shutdown();
 * ```
 */
export function getGradients(contextId: bigint): Gradients {
  return sessionOf().gradients(contextId);
}

/** PyTorch's counters of the current agent. */
export function distAutogradDebugInfo(): Record<'num_current_backward_passes' | 'num_autograd_contexts', number> {
  return sessionOf().debugInfo();
}
