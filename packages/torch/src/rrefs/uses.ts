/** @file What a program does with a handle: the value, its type, its methods and its gradients, asked of the owner. */
import { RpcError, type CallOptions, type To, type WorkerInfo } from '@backwire/rpc';
import { checkTimeoutMs, collectInWaitAll, unwatchAbort, watchAbort } from '@backwire/rpc/internal';
import type { RRef } from '@backwire/rref';
import { createAnswer, type Answer, type UserFork } from '@backwire/rref/internal';
import type { Tensor } from '@backwire/tensor';
import { limitsOf, type Caller } from '../calls/caller.ts';
import { argumentsOf, type Target as Callee } from '../calls/targets.ts';
import type { TorchPeer } from '../links/peer.ts';
import { writeCommand } from '../messages/codec.ts';
import { NotOfferedError } from '../pickle/refusal.ts';
import { tupleOf } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { acknowledged } from './acknowledgement.ts';
import type { Creations } from './creation.ts';
import { PYTHON_OBJECT, type HandleHost, type TorchRRef } from './handle.ts';
import { torchId } from './ids.ts';

/** What is done with handles needs this of the agent. */
export interface UsesHost {
  readonly self: WorkerInfo;
  readonly caller: Caller;
  find(to: To): TorchPeer;
  /** Calls a function of torch's own by its path, as the program's call: in its context, within its limits. */
  call(to: WorkerInfo, path: string, args: readonly unknown[], options: CallOptions): Promise<unknown>;
  backward(contextId: bigint, roots: readonly Tensor[], options: CallOptions & { retainGraph: boolean }): Promise<void>;
}

/** How long handles live. */
export interface Lifetimes {
  readonly closed: boolean;
  /** Resolves when the owner has said that it knows of the fork, or why it does not. */
  whenSettled(fork: UserFork): Promise<void>;
  release(handle: object, fork: UserFork): void;
}

const INVOKE_MODULE = 'torch.distributed.rpc.rref_proxy';
const INVOKE = '_local_invoke';
const TYPE_OF = 'torch.distributed.rpc.api._rref_typeof_on_owner';

/** One per agent; all its handles use it. */
export class HandleUses implements HandleHost {
  private readonly host: UsesHost;
  private readonly creations: Creations;
  private readonly lifetimes: Lifetimes;

  constructor(host: UsesHost, creations: Creations, lifetimes: Lifetimes) {
    this.host = host;
    this.creations = creations;
    this.lifetimes = lifetimes;
  }

  get self(): WorkerInfo {
    return this.host.self;
  }

  get closed(): boolean {
    return this.lifetimes.closed;
  }

  timeoutMs({ timeoutMs }: CallOptions): number {
    return timeoutMs === undefined ? this.host.caller.defaultTimeoutMs : checkTimeoutMs(timeoutMs);
  }

  workerOf(id: number): WorkerInfo {
    return this.host.find(id).worker;
  }

  whenSettled(fork: UserFork): Promise<void> {
    return this.lifetimes.whenSettled(fork);
  }

  release(handle: object, fork: UserFork): void {
    this.lifetimes.release(handle, fork);
  }

  fetch(handle: TorchRRef<unknown>, options: CallOptions): Promise<unknown> {
    const kind = handle.torchType === PYTHON_OBJECT ? 'python-rref-fetch-call' : 'script-rref-fetch-call';
    const rref = torchId(handle.target.rref);
    const { caller } = this.host;
    return whileCreated(handle, this.limits(options), (limits) =>
      caller.ask(
        this.ownerOf(handle),
        () => writeCommand({ kind, rref, from: this.self.id }),
        limits,
        (response, reading) => caller.valueOf(response, reading),
      ),
    );
  }

  async typeName(handle: TorchRRef<unknown>, options: CallOptions): Promise<string> {
    try {
      const type = await this.host.call(handle.owner(), TYPE_OF, [handle, true], this.limits(options));
      return type instanceof PyName ? (type.name.split('.').at(-1) as string) : String(type);
    } catch (error) {
      // A class that Python has and this worker does not is known by its name all the same.
      const why = error instanceof RpcError ? error.cause : error;
      if (why instanceof NotOfferedError) return why.global.split('.').at(-1) as string;
      throw error;
    }
  }

  invoke(
    handle: TorchRRef<unknown>,
    kind: 'sync' | 'async',
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): Answer {
    const result = handle.use(`rpc_${kind}()`, async () => {
      const { owned } = handle;
      const invoked = invocation(handle, method, args);
      if (owned !== undefined) await owned.wait();
      return this.host.call(handle.owner(), `${INVOKE_MODULE}.${INVOKE}`, invoked, this.limits(options));
    });
    if (kind === 'async') collectInWaitAll(result);
    return createAnswer(method, result);
  }

  invokeRemotely(
    handle: TorchRRef<unknown>,
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): RRef<unknown> {
    const callee: Callee = { kind: 'python', name: new PyName(INVOKE_MODULE, INVOKE) };
    const failure = handle.failure();
    if (failure !== undefined)
      return this.creations.createFailed(handle.fork?.owner ?? this.self.id, callee, failure.error);
    handle.throwIfDeleted('call remote() on it');
    const made = this.creations.createAt(() => this.ownerOf(handle), callee, invocation(handle, method, args), options);
    // The method still needs this value: the handle is in use until the creation is over.
    handle.use('remote()', async () => made.creation).catch(() => undefined);
    return made;
  }

  async backward(
    handle: TorchRRef<unknown>,
    context: bigint,
    options: CallOptions & { retainGraph: boolean },
  ): Promise<void> {
    const { retainGraph } = options;
    const rref = torchId(handle.target.rref);
    const { caller } = this.host;
    await caller.ask(
      this.ownerOf(handle),
      () => writeCommand({ kind: 'rref-backward-req', rref, context, retainGraph }),
      this.limits(options),
      (response, { from }) => acknowledged(response, 'rref-backward-resp', from),
    );
  }

  backwardHere(value: Tensor, contextId: bigint, options: CallOptions & { retainGraph: boolean }): Promise<void> {
    return this.host.backward(contextId, [value], options);
  }

  private limits(options: CallOptions): CallOptions {
    return limitsOf(options, this.host.caller.defaultTimeoutMs);
  }

  private ownerOf(handle: TorchRRef<unknown>): TorchPeer {
    return this.host.find(handle.owner());
  }
}

function invocation(handle: TorchRRef<unknown>, method: string, args: readonly unknown[]): readonly unknown[] {
  const { positional, kwargs } = argumentsOf(args);
  return [handle, method, tupleOf(positional), new Map(kwargs)];
}

/**
 * Asks with `options` until the creation of the value has failed: torch never answers who asks for what it would not create.
 * `AbortSignal.any` would not do: it holds its sources weakly, and a time limit that nobody else holds may be gone before it is over.
 */
async function whileCreated<T>(
  handle: TorchRRef<unknown>,
  options: CallOptions,
  ask: (options: CallOptions) => Promise<T>,
): Promise<T> {
  const { creation } = handle;
  if (creation === undefined) return ask(options);
  const over = new AbortController();
  const { signal } = options;
  const abort = (): void => over.abort(signal?.reason);
  if (signal?.aborted === true) abort();
  else if (signal !== undefined) watchAbort(signal, abort);
  void creation.then(() => {
    // The handle tells the failure itself, before this is heard.
    if (handle.failure() !== undefined) setImmediate(() => over.abort());
  });
  try {
    return await ask({ ...options, signal: over.signal });
  } finally {
    if (signal !== undefined) unwatchAbort(signal, abort);
  }
}
