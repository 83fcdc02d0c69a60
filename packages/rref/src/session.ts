/** @file The extension at work in one agent: the protocol's tables joined to messages, promises and the garbage collector. */
import type { Tensor } from '@backwire/tensor';
import {
  rpcInfo,
  rpcStream,
  RpcError,
  type CallOptions,
  type ExtensionSession,
  type Incoming,
  type RpcErrorCode,
  type WorkerInfo,
} from '@backwire/rpc';
import { callLabelled, collectInWaitAll, systemError } from '@backwire/rpc/internal';
import type { ExtensionHost, ExtensionInternals, ExtensionValue, Member, RpcMessage } from '@backwire/rpc/internal';
import type { Message, MessageType } from '@backwire/wire';
import { Carrier } from './carrier.ts';
import { Cell } from './cell.ts';
import { CreationSites } from './creation-sites.ts';
import { createRemote } from './creation.ts';
import { drain, Changes } from './drain.ts';
import { isHandle, requireTensor, RRefHandle, type Target } from './handle.ts';
import { Outbox } from './outbox.ts';
import { ParkedStreams } from './parked-streams.ts';
import { createAnswer, type Answer } from './proxy.ts';
import { formatId, incarnationOf, siteOf, workerOf, type GlobalId, type Site } from './protocol/ids.ts';
import type { Failure } from './protocol/messages.ts';
import type { OwnerEntry } from './protocol/owner-table.ts';
import { idOf, type UserFork } from './protocol/user-table.ts';
import { ProtocolWorker } from './protocol/worker.ts';
import {
  askTypeName,
  invokeAndKeep,
  invokeMethod,
  openStream,
  type MethodResult,
  type Reference,
} from './remote-methods.ts';
import { requestHandlers } from './serving.ts';
import { Sites } from './sites.ts';
import { CONTROL_DECODERS } from './wire-format.ts';

export const EXTENSION_NAME = 'rref';

/** What an owner says of an RRef that it does not have (any more, or yet). */
const NOT_HERE = 'is not on worker';

/** What the autograd extension offers here. */
interface DistAutograd {
  backward(
    contextId: bigint,
    roots: readonly Tensor[],
    options: CallOptions & { retainGraph?: boolean },
  ): Promise<void>;
}

/** One per agent. Lifetime: made by `attach`, drained by a graceful shutdown, closed with the agent. */
export class RRefSession implements ExtensionSession, ExtensionInternals {
  readonly name = EXTENSION_NAME;
  readonly host: ExtensionHost;
  readonly sites: Sites;
  readonly worker: ProtocolWorker<Cell>;
  readonly streams = new ParkedStreams();
  readonly creationSites: CreationSites;
  readonly changes = new Changes();
  readonly values: readonly ExtensionValue[];
  readonly messages: ReadonlyMap<MessageType, (call: Incoming) => Promise<Message>>;
  readonly controls: ReadonlyMap<MessageType, (from: WorkerInfo, payload: Uint8Array) => void>;
  closed = false;
  /** Handles that the collector released because nobody had disposed them. */
  collected = 0;
  private readonly carrier: Carrier;
  private readonly outbox: Outbox;
  private leaked: string[] | undefined;
  private members: readonly Site[] = [];
  private readonly confirmations = new Map<UserFork, (() => void)[]>();
  private readonly deathListeners = new Map<UserFork, Set<() => void>>();
  private readonly registry: FinalizationRegistry<UserFork>;

  constructor(host: ExtensionHost, options: { creationSites: boolean }) {
    this.host = host;
    this.sites = new Sites(host);
    this.outbox = new Outbox(host, this.sites);
    this.creationSites = new CreationSites(options.creationSites);
    this.worker = new ProtocolWorker<Cell>(
      this.sites.self,
      {
        send: (to, message) => this.outbox.send(to, message),
        settled: (fork) => this.settled(fork),
        dropped: (fork) => this.dropped(fork),
        freed: () => this.changes.notify(),
        failed: (entry, failure) => this.cellOfEntry(entry).reject(this.errorOf(failure, host.self)),
      },
      { maxForksPerHolder: host.limits.maxLiveForks },
    );
    this.carrier = new Carrier(this);
    this.values = [this.carrier.value];
    this.messages = requestHandlers(this);
    this.controls = new Map(
      [...CONTROL_DECODERS].map(([type, decode]) => [
        type,
        (from: WorkerInfo, payload: Uint8Array): void => {
          if (this.closed) return;
          this.worker.control(this.sites.of(from), decode(payload));
          this.changes.notify();
        },
      ]),
    );
    this.registry = new FinalizationRegistry((fork) => this.collect(fork));
  }

  // What the agent tells the extension.

  delivered(from: WorkerInfo, entry: Uint8Array): (() => void) | undefined {
    return this.closed ? undefined : this.carrier.delivered(this.sites.of(from), entry);
  }

  undelivered(_to: WorkerInfo, entry: Uint8Array): void {
    if (this.closed) return;
    this.carrier.undelivered(entry);
    this.changes.notify();
  }

  peerJoined(peer: WorkerInfo, incarnation: number): void {
    this.outbox.met(this.sites.seen(peer, incarnation));
  }

  /** Whoever is not a member any more is dead to us, in whatever way it went. */
  viewChanged(epoch: number, members: readonly Member[], dead: readonly Member[], left: readonly Member[] = []): void {
    const present = members.map(({ worker, incarnation }) => this.sites.seen(worker, incarnation));
    const gone = new Set([...dead, ...left].map(({ worker, incarnation }) => this.sites.seen(worker, incarnation)));
    const still = new Set(present);
    for (const site of this.members) if (!still.has(site)) gone.add(site);
    this.members = present;
    this.sites.setMembers(present);
    for (const site of gone) {
      this.outbox.lost(site);
      this.streams.callerGone(workerOf(site));
    }
    // A member without this extension has never had a handle of anybody, and would not answer a fence.
    const speaking = present.filter((site) => this.speaks(this.sites.worker(site)));
    this.worker.viewChanged(epoch, speaking, [...gone]);
    for (const site of present) this.outbox.met(site);
    this.changes.notify();
  }

  debugInfo(): Record<string, number> {
    const { owners, users } = this.worker;
    return {
      num_owner_rrefs: owners.size,
      num_forks: owners.forkCount,
      num_pending_users: users.pendingUsers,
      num_pending_children: users.pendingChildren,
      num_pending_futures: this.confirmations.size,
      num_collected_rrefs: this.collected,
    };
  }

  async drain(deadlineMs: number): Promise<void> {
    await drain(this, deadlineMs);
    // Members leave from here on, and take their handles along: what they had not given back by now is what leaked.
    this.leaked = this.heldByOthers();
  }

  /** What others still hold of this worker's, in PyTorch's words, with the holder and the place of creation. */
  leaks(): string[] {
    return (this.leaked ??= this.heldByOthers());
  }

  /** The forks of what is owned here, a line each. */
  private heldByOthers(): string[] {
    return [...this.worker.owners.allForks()].map((fork) => {
      const made = this.creationSites.of(fork.entry.payload);
      const holder = this.sites.worker(fork.holder).name;
      return `Leaking RRef ${formatId(fork.entry)} with fork Id ${formatId(fork)}, held by '${holder}'${made === undefined ? '' : `, created ${made}`}`;
    });
  }

  flush(): void {
    this.outbox.flush();
  }

  close(): void {
    if (this.closed) return;
    this.outbox.close();
    this.closed = true;
    const gone = new RpcError('rref-released', 'the agent that owned this RRef has shut down');
    for (const entry of this.worker.owners.all()) entry.payload?.reject(gone);
    this.worker.owners.clear();
    this.worker.users.clear();
    this.streams.close();
    this.changes.notify();
  }

  // What handles need.

  /** An RRef of a value that is here. Nothing is registered before it is shared. */
  own(value: unknown): RRefHandle<unknown> {
    this.throwIfClosed();
    const cell = Cell.of(value);
    this.creationSites.record(cell);
    return new RRefHandle(this, { rref: this.worker.drawId(), cell });
  }

  /** Makes the handle for something in the tables, and sees to it that it is released when the program loses it. */
  adopt<T>(target: Target, type?: string): RRefHandle<T> {
    const handle = new RRefHandle<T>(this, target, type);
    if (handle.fork !== undefined && handle.fork.phase !== 'gone') this.registry.register(handle, handle.fork, handle);
    this.creationSites.record(handle.fork ?? (handle.cell as Cell));
    return handle;
  }

  release(handle: object, fork: UserFork): void {
    this.registry.unregister(handle);
    if (this.closed) return;
    this.worker.users.release(fork);
    this.changes.notify();
  }

  /** Resolves when the fork was confirmed, or failed, or the agent closed; never rejects. */
  whenSettled(fork: UserFork): Promise<void> {
    if (fork.settled) return Promise.resolve();
    return new Promise((resolve) => {
      const list = this.confirmations.get(fork);
      if (list === undefined) this.confirmations.set(fork, [resolve]);
      else list.push(resolve);
    });
  }

  onOwnerDied(fork: UserFork, listener: () => void): () => void {
    if (fork.failure?.code === 'owner-died') {
      let wanted = true;
      queueMicrotask(() => void (wanted && this.tell(listener)));
      return () => void (wanted = false);
    }
    const listeners = this.deathListeners.get(fork) ?? new Set();
    // One entry a registration: the same function may listen twice.
    const entry = (): void => listener();
    this.deathListeners.set(fork, listeners.add(entry));
    return () => void listeners.delete(entry);
  }

  /** Sends a request to the owner of a handle. */
  ask(handle: RRefHandle<unknown>, message: RpcMessage, options: CallOptions, name: string): Promise<Message> {
    const label = { kind: 'other' as const, name: `rref.${name}` };
    return this.atOwner(handle, (owner) => this.host.call(owner, message, { ...options, label }));
  }

  callMethod(
    handle: RRefHandle<unknown>,
    kind: 'sync' | 'async',
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): Answer {
    const result = handle.use(`rpc_${kind}()`, async () => {
      const given = [this.reference(handle), method, args];
      const label = { kind, name: handle.nameOf(method) };
      const send = (owner: WorkerInfo): Promise<unknown> =>
        callLabelled(owner, invokeMethod, given, { ...options, agent: this.host }, label);
      const [value, ticket] = (await this.atOwner(handle, send)) as MethodResult;
      if (ticket === undefined) return value;
      return rpcStream(handle.owner(), openStream, [ticket], { agent: this.host, signal: options.signal });
    });
    if (kind === 'async') collectInWaitAll(result);
    return createAnswer(method, result);
  }

  callMethodRemotely(
    handle: RRefHandle<unknown>,
    method: string,
    args: readonly unknown[],
    options: CallOptions,
  ): RRefHandle<unknown> {
    handle.throwIfUnusable('call remote() on it');
    const given = [this.reference(handle), method, args];
    const made = createRemote(this, handle.owner(), invokeAndKeep, given, { name: handle.nameOf(method) }, options);
    // The method still needs this value: the handle is in use until the creation is over.
    const created = made.creation ?? Promise.resolve();
    handle.use('remote()', () => created).catch(() => undefined);
    return made;
  }

  askType(handle: RRefHandle<unknown>, options: CallOptions): Promise<string> {
    const label = { kind: 'other' as const, name: 'rref.type_name' };
    const given = [this.reference(handle)];
    return this.atOwner(
      handle,
      (owner) => callLabelled(owner, askTypeName, given, { ...options, agent: this.host }, label) as Promise<string>,
    );
  }

  /** Runs the backward pass of a value that is here. */
  async backwardHere(
    value: unknown,
    contextId: bigint | undefined,
    options: CallOptions & { retainGraph: boolean },
  ): Promise<void> {
    const root = requireTensor(value);
    if (contextId === undefined) {
      root.backward(undefined, { retainGraph: options.retainGraph });
      return;
    }
    const session = this.host.session('dist-autograd') as Partial<DistAutograd> | undefined;
    if (session?.backward === undefined) throw this.lacks(this.host.self, 'dist-autograd');
    await session.backward(contextId, [root], options);
  }

  /** @throws RpcError 'failed-precondition' when the worker is known to lack the extension. */
  requireExtension(worker: WorkerInfo, extension: string): void {
    if (worker.id === this.host.self.id) {
      if (extension !== EXTENSION_NAME && this.host.session(extension) === undefined)
        throw this.lacks(worker, extension);
      return;
    }
    if (!this.host.extensionsOf(worker).has(extension)) throw this.lacks(worker, extension);
  }

  // What serving needs.

  cellOfEntry(entry: OwnerEntry<Cell>): Cell {
    return (entry.payload ??= Cell.empty());
  }

  /** The value of an RRef that a peer names by its id. @throws RpcError 'rref-released' when there is none. */
  cellOfId(rref: GlobalId): Cell {
    const entry = this.worker.owners.get(rref);
    if (entry === undefined) {
      throw systemError(
        new RpcError(
          'rref-released',
          `${formatId(rref)} ${NOT_HERE} '${this.host.name}': its last handle was released`,
        ),
      );
    }
    return this.cellOfEntry(entry);
  }

  /** The value meant in a method call: by id, or by the handle itself on its owner. */
  cellOf(reference: Reference | undefined): Cell {
    if (isHandle(reference)) {
      if (reference.cell !== undefined) return reference.cell;
    } else if (Array.isArray(reference)) {
      const [worker, incarnation, local] = reference as unknown[];
      if (typeof worker === 'number' && typeof incarnation === 'number' && Number.isSafeInteger(local)) {
        return this.cellOfId({ site: siteOf(worker, incarnation), local: local as number });
      }
    }
    throw systemError(new RpcError('decode-error', 'malformed method call'));
  }

  /** Why a creating call is not run. */
  creationRefused(rref: GlobalId, from: WorkerInfo): RpcError {
    const failure = this.carrier.refused.get(rref);
    if (failure !== undefined) return this.errorOf(failure, from);
    return new RpcError('cancelled', 'the creator of this RRef has given it up', { peer: from });
  }

  // Errors.

  throwIfClosed(): void {
    if (this.closed) throw new RpcError('failed-precondition', `worker '${this.host.name}' has shut down`);
  }

  errorOf(failure: Failure, peer: WorkerInfo): RpcError {
    return new RpcError(failure.code as RpcErrorCode, failure.text, { peer });
  }

  failureOf(error: unknown): Failure {
    const { code, message } = RpcError.from(error);
    return { code, text: message };
  }

  ownerDied(handle: RRefHandle<unknown>): RpcError {
    const peer = handle.owner();
    const made = this.creationSites.of(handle.fork);
    const where = made === undefined ? '' : `, created ${made}`;
    return new RpcError(
      'owner-died',
      `the owner '${peer.name}' of ${handle.toString()} was removed from the group${where}`,
      { executed: 'maybe', peer },
    );
  }

  /** What a failed use means: the death of the owner under its own name. */
  explain(handle: RRefHandle<unknown>, error: unknown): unknown {
    const info = rpcInfo(error);
    if (info === undefined || handle.fork === undefined || info.peer?.id !== handle.owner().id) return error;
    const died =
      info.code === 'peer-died' ||
      (info.code !== 'owner-died' && handle.fork.failure?.code === 'owner-died' && info.executed !== 'yes');
    if (!died) return error;
    const peer = handle.owner();
    const text = `the owner '${peer.name}' of ${handle.toString()} was removed from the group`;
    return new RpcError('owner-died', text, { executed: info.executed, peer, cause: error });
  }

  private speaks(worker: WorkerInfo): boolean {
    return worker.id === this.host.self.id || this.host.extensionsOf(worker).has(EXTENSION_NAME);
  }

  private lacks(worker: WorkerInfo, extension: string): RpcError {
    return new RpcError('failed-precondition', `worker '${worker.name}' has no extension '${extension}'`, {
      peer: worker,
    });
  }

  private reference(handle: RRefHandle<unknown>): Reference {
    const { site, local } = handle.rref;
    return handle.fork === undefined ? handle : [workerOf(site), incarnationOf(site), local];
  }

  /**
   * Sends something to the owner of a handle, and gives up when a creation that is under way fails. The creating call may be overtaken
   * (its tensors still come from a device, or it was held back): then the owner knows nothing yet, nothing was done, and it is sent
   * again when the creation is over.
   */
  private async atOwner<T>(handle: RRefHandle<unknown>, send: (owner: WorkerInfo) => Promise<T>): Promise<T> {
    const { fork, creation } = handle;
    // An owner that no view has shown yet: the handle is registered once one does.
    if (fork?.phase === 'pending' && this.sites.member(fork.owner) === undefined) await this.whenSettled(fork);
    handle.throwIfUnusable('call its owner');
    const owner = handle.owner();
    this.requireExtension(owner, EXTENSION_NAME);
    try {
      return await handle.unlessCreationFails(send(owner));
    } catch (error) {
      if (creation === undefined || !rpcInfo(error)?.message.includes(NOT_HERE)) throw error;
      await creation;
      handle.throwIfCreationFailed();
      return send(owner);
    }
  }

  private settled(fork: UserFork): void {
    const waiting = this.confirmations.get(fork);
    this.confirmations.delete(fork);
    for (const resolve of waiting ?? []) resolve();
    this.changes.notify();
  }

  private dropped(fork: UserFork): void {
    const listeners = this.deathListeners.get(fork);
    this.deathListeners.delete(fork);
    this.changes.notify();
    if (listeners === undefined) return;
    // The table records why right after it has dropped the fork.
    queueMicrotask(() => {
      if (fork.failure?.code === 'owner-died') for (const listener of listeners) this.tell(listener);
    });
  }

  private tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.host.logger.error({ error }, 'a listener for the death of an owner failed');
    }
  }

  private collect(fork: UserFork): void {
    if (this.closed || fork.released || fork.phase === 'gone') return;
    this.collected++;
    const created = this.creationSites.of(fork);
    this.host.logger.debug(
      { rref: formatId(fork.rref), fork: formatId(idOf(fork)), created },
      'an RRef that was never disposed was collected',
    );
    this.worker.users.release(fork);
    this.changes.notify();
  }
}
