/** @file RRefs at work in one agent of a torch group: the protocol's tables joined to messages, promises and the collector. */
import { RpcError, rpcInfo, type CallOptions, type To, type WorkerInfo } from '@backwire/rpc';
import {
  MAX_TIMER_MS,
  checkTimeoutMs,
  collectInWaitAll,
  nameOf,
  unwatchAbort,
  watchAbort,
} from '@backwire/rpc/internal';
import type { RRef } from '@backwire/rref';
import {
  OwnedValue,
  ProtocolWorker,
  asElsewhere,
  createAnswer,
  errorOf,
  type Answer,
  type Carried,
  type Control,
  type Failure,
  type GlobalId,
  type OwnerEntry,
  type RRefSpace,
  type UserFork,
  type HandleTarget,
} from '@backwire/rref/internal';
import { Tensor, type Named } from '@backwire/tensor';
import { limitsOf, type Caller } from '../calls/caller.ts';
import { argumentsOf, targetOf, type Target as Callee } from '../calls/targets.ts';
import type { Reading, References, Values, Writing } from '../calls/values.ts';
import type { TorchPeer } from '../links/peer.ts';
import { writeCommand } from '../messages/codec.ts';
import type { Body } from '../messages/commands.ts';
import { NotOfferedError, refuse } from '../pickle/refusal.ts';
import { tupleOf } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { RRefFork } from '../values/objects.ts';
import { acknowledged } from './acknowledgement.ts';
import { ControlSender } from './controls.ts';
import { Creations } from './creation.ts';
import { PYTHON_OBJECT, TENSOR, TorchRRef, type HandleHost } from './handle.ts';
import { HandedOn } from './handed-on.ts';
import { globalId, torchId } from './ids.ts';
import { countsOf, leaksOf, listOf, waitsOf } from './inventory.ts';

export interface SessionHost {
  readonly self: WorkerInfo;
  readonly caller: Caller;
  readonly values: Values;
  find(to: To): TorchPeer;
  /** Calls a function of torch's own by its path, as the program's call: in its context, within its limits. */
  call(to: WorkerInfo, path: string, args: readonly unknown[], options: CallOptions): Promise<unknown>;
  backward(contextId: bigint, roots: readonly Tensor[], options: CallOptions & { retainGraph: boolean }): Promise<void>;
  lost(error: unknown, what: string): void;
}

const LOCAL_INVOKE = 'torch.distributed.rpc.rref_proxy._local_invoke';
const TYPE_OF = 'torch.distributed.rpc.api._rref_typeof_on_owner';

/** One per agent. */
export class RRefs implements References, RRefSpace, HandleHost {
  readonly worker: ProtocolWorker<OwnedValue>;
  closed = false;
  private readonly host: SessionHost;
  private readonly sender: ControlSender;
  private readonly creations: Creations;
  private readonly handed = new HandedOn((fork) => {
    this.worker.unshare(fork);
    this.notify();
  });
  /** torch's types of values that are owned here, where they are not told by the value. */
  private readonly types = new WeakMap<OwnedValue, string>();
  private readonly settling = new Map<UserFork, (() => void)[]>();
  private readonly registry = new FinalizationRegistry<UserFork>((fork) => this.collected(fork));
  private refusal: Failure | undefined;
  private changed: (() => void)[] = [];

  constructor(host: SessionHost) {
    this.host = host;
    this.sender = new ControlSender({
      tell: (to, body) => this.tell(to, body),
      heard: (from, message) => {
        this.worker.control(from, message);
        this.notify();
      },
      lost: (error, what) => host.lost(error, what),
      idle: () => this.notify(),
    });
    this.worker = new ProtocolWorker<OwnedValue>(host.self.id, {
      send: (to, message) => this.send(to, message),
      settled: (fork) => this.settled(fork),
      dropped: (fork) => {
        this.sender.left(fork);
        this.notify();
      },
      freed: () => this.notify(),
      failed: (entry, failure) => this.valueOf(entry).reject(errorOf(failure, host.self)),
    });
    this.creations = new Creations(host, {
      worker: this.worker,
      adopt: (target, type) => this.adopt(target, type),
      limits: (options) => this.limits(options),
      refusedBy: (fork) => this.sender.refusedBy(fork),
    });
  }

  get self(): WorkerInfo {
    return this.host.self;
  }

  // What programs ask for.

  remote(to: To, fn: Named, args: readonly unknown[], options: CallOptions): RRef<unknown> {
    this.throwIfClosed();
    return this.made(() => this.host.find(to), targetOf(nameOf(fn)), args, options);
  }

  /** An RRef of a value that is here. Nothing is registered before it is shared. */
  own(value: unknown): RRef<unknown> {
    this.throwIfClosed();
    return this.adopt({ rref: this.worker.drawId(), owned: OwnedValue.of(value) }, typeOf(value));
  }

  /** As `own`, of a type of torch's that the value does not tell. */
  ownTyped(value: unknown, type: string): RRef<unknown> {
    const owned = OwnedValue.of(value);
    this.typed(owned, type);
    return this.adopt({ rref: this.worker.drawId(), owned }, type);
  }

  debugInfo(): Record<string, number> {
    return { ...countsOf(this.worker), num_pending_futures: this.settling.size };
  }

  list(): { id: string; owner: string; holders: string[]; type: string }[] {
    return listOf(this.worker, this.host.self.name, (id) => this.nameOf(id));
  }

  // Handles in messages.

  receive(fork: RRefFork, reading: Reading): object {
    const carried = { kind: 'fork', rref: globalId(fork.rref), owner: fork.owner, fork: globalId(fork.fork) } as const;
    const arrival = this.worker.forkArrived(reading.from.id, carried);
    if (arrival.kind === 'ignored') throw refuse('a handle on an RRef that has come before');
    if (arrival.kind === 'owned') {
      const { entry } = arrival;
      return this.adopt({ rref: { member: entry.member, local: entry.local }, owned: this.valueOf(entry) }, fork.type);
    }
    const handle = this.adopt({ rref: arrival.fork.rref, fork: arrival.fork }, fork.type);
    reading.handles.add(handle);
    // Functions wait until the owner knows of what they were given.
    if (arrival.fork.phase === 'pending') reading.pending.push(this.whenSettled(arrival.fork));
    return handle;
  }

  share(value: object, { to, undo, answered, failed }: Writing): RRefFork | undefined {
    if (!(value instanceof TorchRRef)) return undefined;
    const handle = value as TorchRRef<unknown>;
    if (handle.host !== this) throw new TypeError('an RRef of another agent');
    const failure = handle.failure();
    if (failure !== undefined) throw asElsewhere(failure.error);
    handle.throwIfDeleted('send it');
    const { target } = handle;
    const carried: Carried & { kind: 'fork' } =
      'owned' in target
        ? this.worker.shareOwned(target.rref, target.owned, to.id)
        : this.worker.shareHeld(target.fork, to.id);
    undo.push(() => {
      this.handed.accepted(carried.fork);
      this.worker.unshare(carried);
    });
    // An owner that has answered holds its own value itself, or could not read the handle: then it never says that it has it.
    if (carried.owner === to.id) answered.push(() => this.worker.unshare(carried));
    else {
      this.handed.add(carried, to.id);
      failed.push(() => this.handed.doubt(carried));
    }
    const type = 'owned' in target ? this.typeOfOwned(target.owned, handle.torchType) : handle.torchType;
    return new RRefFork(carried.owner, torchId(carried.rref), torchId(carried.fork), this.self.id, type);
  }

  // What handles need.

  timeoutMs({ timeoutMs }: CallOptions): number {
    return timeoutMs === undefined ? this.host.caller.defaultTimeoutMs : checkTimeoutMs(timeoutMs);
  }

  workerOf(id: number): WorkerInfo {
    return this.host.find(id).worker;
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
      const invoked = this.invocation(handle, method, args);
      if (owned !== undefined) await owned.wait();
      return this.host.call(handle.owner(), LOCAL_INVOKE, invoked, this.limits(options));
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
    const dot = LOCAL_INVOKE.lastIndexOf('.');
    const callee: Callee = {
      kind: 'python',
      name: new PyName(LOCAL_INVOKE.slice(0, dot), LOCAL_INVOKE.slice(dot + 1)),
    };
    const failure = handle.failure();
    if (failure !== undefined)
      return this.creations.createFailed(handle.fork?.owner ?? this.self.id, callee, failure.error);
    handle.throwIfDeleted('call remote() on it');
    const made = this.made(() => this.ownerOf(handle), callee, this.invocation(handle, method, args), options);
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

  whenSettled(fork: UserFork): Promise<void> {
    if (fork.settled) return Promise.resolve();
    return new Promise((resolve) => {
      const known = this.settling.get(fork);
      if (known === undefined) this.settling.set(fork, [resolve]);
      else known.push(resolve);
    });
  }

  release(handle: object, fork: UserFork): void {
    this.registry.unregister(handle);
    if (this.closed) return;
    this.worker.users.release(fork);
    this.notify();
  }

  /** A worker is no member any more, and holds nothing. */
  forget(id: number): void {
    this.handed.gone(id);
    this.worker.owners.releaseHeldBy(new Set([id]));
  }

  // What serving needs.

  accepted(fork: GlobalId, from: number): void {
    this.handed.accepted(fork, from);
    this.worker.control(from, { kind: 'child-accept', fork });
  }

  valueOf(entry: OwnerEntry<OwnedValue>): OwnedValue {
    return (entry.payload ??= OwnedValue.empty());
  }

  takeRefusal(): Failure | undefined {
    const { refusal } = this;
    this.refusal = undefined;
    return refusal;
  }

  typed(owned: OwnedValue, type: string): void {
    this.types.set(owned, type);
  }

  // The end.

  /** Lets go of all that is held here, and waits until nobody holds anything of this worker's. @throws RpcError 'deadline-exceeded' */
  async drain(timeoutMs: number): Promise<void> {
    const { users, owners } = this.worker;
    for (const fork of [...users.all()]) users.release(fork);
    this.handed.settle();
    const end = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
    while (owners.size > 0 || users.size > 0 || this.sender.pending > 0) {
      const left = end - performance.now();
      if (left <= 0) throw this.undrained(timeoutMs);
      await this.nextChange(left);
    }
  }

  /** What others hold of this worker's, a line each. */
  leaks(): string[] {
    return leaksOf(this.worker, (id) => this.nameOf(id));
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.handed.clear();
    const gone = new RpcError('rref-released', 'the agent that owned this RRef has shut down');
    for (const entry of this.worker.owners.all()) entry.payload?.reject(gone);
    this.worker.owners.clear();
    this.worker.users.clear();
    this.notify();
  }

  private made(
    find: () => TorchPeer,
    callee: Callee,
    args: readonly unknown[],
    options: CallOptions,
  ): TorchRRef<unknown> {
    let peer: TorchPeer;
    try {
      peer = find();
    } catch (error) {
      // One that was there once, as only its error names it.
      const left = rpcInfo(error)?.peer;
      if (left === undefined) throw error;
      return this.creations.createFailed(left.id, callee, error);
    }
    return this.creations.create(peer, callee, args, options);
  }

  private invocation(handle: TorchRRef<unknown>, method: string, args: readonly unknown[]): readonly unknown[] {
    const { positional, kwargs } = argumentsOf(args);
    return [handle, method, tupleOf(positional), new Map(kwargs)];
  }

  private limits(options: CallOptions): CallOptions {
    return limitsOf(options, this.host.caller.defaultTimeoutMs);
  }

  private ownerOf(handle: TorchRRef<unknown>): TorchPeer {
    return this.host.find(handle.owner());
  }

  private adopt(target: HandleTarget, type: string): TorchRRef<unknown> {
    const handle = new TorchRRef<unknown>(this, target, type);
    if (handle.fork !== undefined && handle.fork.phase !== 'gone') this.registry.register(handle, handle.fork, handle);
    return handle;
  }

  private typeOfOwned(owned: OwnedValue, fallback: string): string {
    const known = this.types.get(owned);
    if (known !== undefined) return known;
    return owned.settled && fallback !== PYTHON_OBJECT ? typeOf(owned.now()) : fallback;
  }

  private send(to: number, message: Control): void {
    if (message.kind === 'fork-ack') this.refusal = message.refused;
    else this.sender.send(to, message);
  }

  private async tell(to: number, body: Body): Promise<unknown> {
    const { caller } = this.host;
    return caller.tell(this.host.find(to), body, (response, { from }) => acknowledged(response, 'rref-ack', from));
  }

  private settled(fork: UserFork): void {
    const waiting = this.settling.get(fork) ?? [];
    this.settling.delete(fork);
    for (const resolve of waiting) resolve();
    this.notify();
  }

  private collected(fork: UserFork): void {
    if (this.closed || fork.released || fork.phase === 'gone') return;
    this.worker.users.release(fork);
    this.notify();
  }

  private throwIfClosed(): void {
    if (this.closed) throw new RpcError('failed-precondition', `worker '${this.self.name}' has shut down`);
  }

  private nameOf(worker: number): string {
    try {
      return this.host.find(worker).worker.name;
    } catch {
      return `worker ${worker}`; // has left
    }
  }

  private undrained(timeoutMs: number): RpcError {
    const lines = [...this.leaks(), ...waitsOf(this.worker, (id) => this.nameOf(id))];
    return new RpcError(
      'deadline-exceeded',
      `RRefs were not let go of within ${timeoutMs} ms: ${lines.slice(0, 10).join('; ')}`,
    );
  }

  /** Resolves when the tables have changed, or the time is over. Never at once: what changes them comes from the network. */
  private nextChange(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = withinMs === Infinity ? undefined : setTimeout(resolve, Math.min(withinMs, MAX_TIMER_MS));
      this.changed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  private notify(): void {
    for (const resolve of this.changed.splice(0)) resolve();
  }
}

function typeOf(value: unknown): string {
  return value instanceof Tensor ? TENSOR : PYTHON_OBJECT;
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
