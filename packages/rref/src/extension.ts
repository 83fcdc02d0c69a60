/** @file The extension at work in one agent: the protocol's tables joined to messages, promises and the garbage collector. */
import { RpcError, type ExtensionSession, type Incoming, type WorkerInfo } from '@backwire/rpc';
import { isRpcErrorCode, systemError } from '@backwire/rpc/internal';
import type { ExtensionHost, ExtensionInternals, ExtensionValue, Member } from '@backwire/rpc/internal';
import type { Message, MessageType } from '@backwire/wire';
import { Carrier } from './messages/handle-transfer.ts';
import { Cell } from './owner/owned-value.ts';
import { CreationSites } from './creation-sites.ts';
import { drain, Changes } from './drain.ts';
import { isHandle, RRefHandle, type Target } from './client/handle.ts';
import { inspect } from './inspection.ts';
import { EXTENSION_NAME, NOT_HERE } from './names.ts';
import { Outbox } from './messages/control-sender.ts';
import { ParkedStreams } from './owner/parked-streams.ts';
import { formatId, memberKey, workerOf, type GlobalId, type MemberKey } from './protocol/ids.ts';
import type { Failure } from './protocol/messages.ts';
import type { OwnerEntry } from './protocol/owner-table.ts';
import { idOf, type UserFork } from './protocol/user-table.ts';
import { ProtocolWorker } from './protocol/worker.ts';
import type { Reference } from './owner/remote-methods.ts';
import { requestHandlers } from './owner/request-handlers.ts';
import { MemberDirectory } from './members.ts';
import { Uses } from './client/owner-requests.ts';
import { CONTROL_DECODERS } from './messages/control-codec.ts';

/** One per agent. Lifetime: made by `attach`, drained by a graceful shutdown, closed with the agent. */
export class RRefSession implements ExtensionSession, ExtensionInternals {
  readonly name = EXTENSION_NAME;
  readonly host: ExtensionHost;
  readonly members: MemberDirectory;
  readonly worker: ProtocolWorker<Cell>;
  readonly streams = new ParkedStreams();
  readonly creationSites: CreationSites;
  readonly changes = new Changes();
  /** What handles ask of owners. */
  readonly uses: Uses;
  readonly values: readonly ExtensionValue[];
  readonly messages: ReadonlyMap<MessageType, (call: Incoming) => Promise<Message>>;
  readonly controls: ReadonlyMap<MessageType, (from: WorkerInfo, payload: Uint8Array) => void>;
  closed = false;
  /** Handles that the collector released because nobody had disposed them. */
  collected = 0;
  private readonly carrier: Carrier;
  private readonly outbox: Outbox;
  private leaked: string[] | undefined;
  private present: readonly MemberKey[] = [];
  private readonly confirmations = new Map<UserFork, (() => void)[]>();
  private readonly deathListeners = new Map<UserFork, Set<() => void>>();
  private readonly registry: FinalizationRegistry<UserFork>;

  constructor(host: ExtensionHost, options: { creationSites: boolean }) {
    this.host = host;
    this.members = new MemberDirectory(host);
    this.outbox = new Outbox(host, this.members);
    this.creationSites = new CreationSites(options.creationSites);
    this.worker = new ProtocolWorker<Cell>(
      this.members.self,
      {
        send: (to, message) => this.outbox.send(to, message),
        settled: (fork) => this.settled(fork),
        dropped: (fork) => this.dropped(fork),
        freed: () => this.changes.notify(),
        failed: (entry, failure) => this.cellOfEntry(entry).reject(this.errorOf(failure, host.self)),
      },
      { maxForksPerHolder: host.limits.maxLiveForks },
    );
    this.uses = new Uses(this);
    this.carrier = new Carrier(this);
    this.values = [this.carrier.value];
    this.messages = requestHandlers(this);
    this.controls = new Map(
      [...CONTROL_DECODERS].map(([type, decode]) => [
        type,
        (from: WorkerInfo, payload: Uint8Array): void => {
          if (this.closed) return;
          this.worker.control(this.members.of(from), decode(payload));
          this.changes.notify();
        },
      ]),
    );
    this.registry = new FinalizationRegistry((fork) => this.collect(fork));
  }

  // What the agent tells the extension.

  delivered(from: WorkerInfo, entry: Uint8Array): (() => void) | undefined {
    return this.closed ? undefined : this.carrier.delivered(this.members.of(from), entry);
  }

  undelivered(_to: WorkerInfo, entry: Uint8Array): void {
    if (this.closed) return;
    this.carrier.undelivered(entry);
    this.changes.notify();
  }

  peerJoined(peer: WorkerInfo, incarnation: number): void {
    this.outbox.met(this.members.seen(peer, incarnation));
  }

  /** Whoever is not a member any more is dead to us, in whatever way it went. */
  viewChanged(epoch: number, members: readonly Member[], dead: readonly Member[], left: readonly Member[] = []): void {
    const present = members.map(({ worker, incarnation }) => this.members.seen(worker, incarnation));
    const gone = new Set([...dead, ...left].map(({ worker, incarnation }) => this.members.seen(worker, incarnation)));
    const still = new Set(present);
    for (const member of this.present) if (!still.has(member)) gone.add(member);
    this.present = present;
    this.members.setMembers(present);
    for (const member of gone) {
      this.outbox.lost(member);
      this.streams.callerGone(workerOf(member));
    }
    // A member without this extension has never had a handle of anybody, and would not answer a fence.
    const speaking = present.filter((member) => this.speaks(this.members.worker(member)));
    this.worker.viewChanged(epoch, speaking, [...gone]);
    for (const member of present) this.outbox.met(member);
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
      num_delete_messages: this.outbox.deletesSent,
    };
  }

  inspect(): Record<string, unknown> {
    return inspect(this);
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

  /** The forks of what is owned here, a line each; without those of members that cannot be reached, who cannot give anything back. */
  private heldByOthers(): string[] {
    const forks = [...this.worker.owners.allForks()].filter(({ holder }) => this.members.reachable(holder));
    return forks.map((fork) => {
      const made = this.creationSites.of(fork.entry.payload);
      const holder = this.members.worker(fork.holder).name;
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
        return this.cellOfId({ member: memberKey(worker, incarnation), local: local as number });
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
    // What came from a peer may be of a later version.
    const code = isRpcErrorCode(failure.code) ? failure.code : 'failed-precondition';
    return new RpcError(code, failure.text, { peer });
  }

  failureOf(error: unknown): Failure {
    const { code, message } = RpcError.from(error);
    return { code, text: message };
  }

  private speaks(worker: WorkerInfo): boolean {
    return worker.id === this.host.self.id || this.host.extensionsOf(worker).has(EXTENSION_NAME);
  }

  lacks(worker: WorkerInfo, extension: string): RpcError {
    return new RpcError('failed-precondition', `worker '${worker.name}' has no extension '${extension}'`, {
      peer: worker,
    });
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
