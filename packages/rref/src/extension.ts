/** @file The extension at work in one agent: the protocol's tables joined to messages, promises and the garbage collector. */
import {
  RpcError,
  type CallOptions,
  type ExtensionSession,
  type Incoming,
  type RpcAgent,
  type WorkerInfo,
} from '@backwire/rpc';
import { InvariantError, type ExtensionHost, type ExtensionInternals } from '@backwire/rpc/internal';
import type { ExtensionValue, Member } from '@backwire/rpc/internal';
import type { Message, MessageType } from '@backwire/wire';
import { ForkWatchers } from './client/fork-watchers.ts';
import { RRefHandle, type HandleHost } from './client/handle.ts';
import { OwnerRequests, type RequestHost } from './client/owner-requests.ts';
import { CreationSites } from './creation-sites.ts';
import { Changes, drain, type DrainHost } from './drain.ts';
import { errorOf } from './failure.ts';
import { lookAt } from './inspection.ts';
import { MAX_INSPECTED } from './limits.ts';
import { MemberDirectory } from './members.ts';
import { CONTROL_DECODERS } from './messages/control-codec.ts';
import { ControlSender } from './messages/control-sender.ts';
import { HandleTransfer, type Target, type TransferHost } from './messages/handle-transfer.ts';
import { EXTENSION_NAME, lacksExtension } from './names.ts';
import { OwnedValue } from './owner/owned-value.ts';
import { OwnedValues } from './owner/owned-values.ts';
import { ParkedStreams } from './owner/parked-streams.ts';
import { methodHostOf, type MethodHost } from './owner/remote-methods.ts';
import { requestHandlers, type OwnerHost } from './owner/request-handlers.ts';
import { formatId, workerOf, type GlobalId, type MemberKey } from './protocol/ids.ts';
import type { OwnerEntry } from './protocol/owner-table.ts';
import { idOf, type UserFork } from './protocol/user-table.ts';
import { ProtocolWorker } from './protocol/worker.ts';

type Hosts = HandleHost & RequestHost & OwnerHost & MethodHost & TransferHost<OwnedValue> & DrainHost;

/** One per agent. Lifetime: made by `attach`, drained by a graceful shutdown, closed with the agent. */
export class RRefSession implements ExtensionSession, ExtensionInternals, Hosts {
  readonly name = EXTENSION_NAME;
  readonly host: ExtensionHost;
  readonly members: MemberDirectory;
  readonly worker: ProtocolWorker<OwnedValue>;
  readonly owned: OwnedValues;
  readonly streams = new ParkedStreams();
  readonly creationSites: CreationSites;
  readonly changes = new Changes();
  readonly requests: OwnerRequests;
  readonly values: readonly ExtensionValue[];
  readonly messages: ReadonlyMap<MessageType, (call: Incoming) => Promise<Message>>;
  readonly controls: ReadonlyMap<MessageType, (from: WorkerInfo, payload: Uint8Array) => void>;
  closed = false;
  /** Handles that the collector released because nobody had disposed them. */
  private collected = 0;
  private readonly transfer: HandleTransfer<OwnedValue>;
  private readonly sender: ControlSender;
  private readonly watchers: ForkWatchers;
  private leaked: string[] | undefined;
  private readonly registry: FinalizationRegistry<UserFork>;

  constructor(host: ExtensionHost, options: { creationSites: boolean }) {
    this.host = host;
    this.members = new MemberDirectory(host);
    this.sender = new ControlSender(host, this.members);
    this.creationSites = new CreationSites(options.creationSites);
    this.watchers = new ForkWatchers(host.logger);
    this.worker = new ProtocolWorker<OwnedValue>(
      this.members.self,
      {
        send: (to, message) => this.sender.send(to, message),
        settled: (fork) => {
          this.watchers.settled(fork);
          this.changes.notify();
        },
        dropped: (fork) => {
          if (fork.failure?.code === 'owner-died') this.sender.lost(fork.owner);
          this.watchers.dropped(fork);
          this.changes.notify();
        },
        freed: (entry) => {
          if (entry.payload?.held === false) entry.payload.abandon();
          this.changes.notify();
        },
        failed: (entry, failure) => this.owned.of(entry).reject(errorOf(failure, host.self)),
      },
      { maxForksPerHolder: host.limits.maxLiveForks },
    );
    this.owned = new OwnedValues(this.worker.owners, host.name);
    this.requests = new OwnerRequests(this);
    this.transfer = new HandleTransfer(this);
    this.values = [this.transfer.value];
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
    return this.closed ? undefined : this.transfer.delivered(this.members.of(from), entry);
  }

  undelivered(_to: WorkerInfo, entry: Uint8Array): void {
    if (this.closed) return;
    this.transfer.undelivered(entry);
    this.changes.notify();
  }

  peerJoined(peer: WorkerInfo, incarnation: number): void {
    this.sender.met(this.members.seen(peer, incarnation));
  }

  /** Whoever is not a member any more is dead to us, in whatever way it went. */
  viewChanged(epoch: number, members: readonly Member[], dead: readonly Member[], left: readonly Member[] = []): void {
    const keyOf = ({ worker, incarnation }: Member): MemberKey => this.members.seen(worker, incarnation);
    const present = members.map(keyOf);
    const gone = new Set([...dead, ...left].map(keyOf));
    for (const member of this.members.viewChanged(present)) gone.add(member);
    for (const member of gone) {
      this.sender.lost(member);
      this.streams.callerGone(workerOf(member));
    }
    // A member without this extension has never had a handle of anybody, and would not answer a fence.
    const speaking = present.filter((member) => this.speaks(this.members.worker(member)));
    this.worker.viewChanged(epoch, speaking, [...gone]);
    for (const member of present) this.sender.met(member);
    this.changes.notify();
  }

  get self(): WorkerInfo {
    return this.host.self;
  }

  workerOf(member: MemberKey): WorkerInfo {
    return this.members.worker(member);
  }

  timeoutMs(options: CallOptions): number {
    return this.host.timeoutMs(options);
  }

  debugInfo(): Record<string, number> {
    const { owners, users } = this.worker;
    return {
      num_owner_rrefs: owners.size,
      num_forks: owners.forkCount,
      num_pending_users: users.pendingUsers,
      num_pending_children: users.pendingChildren,
      num_pending_futures: this.watchers.size,
      num_collected_rrefs: this.collected,
      num_delete_messages: this.sender.deletesSent,
    };
  }

  inspect(): Record<string, unknown> {
    return lookAt(this, MAX_INSPECTED);
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

  flush(): void {
    this.sender.flush();
  }

  close(): void {
    if (this.closed) return;
    this.sender.close();
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
    return this.toSend(value).holdValue();
  }

  /** The same, only to be sent: others hold the value then, this handle does not. */
  toSend(value: unknown): RRefHandle<unknown> {
    this.throwIfClosed();
    const owned = OwnedValue.of(value);
    this.creationSites.record(owned);
    return new RRefHandle(this, { rref: this.worker.drawId(), owned });
  }

  /** Makes the handle for something in the tables, and sees to it that it is released when the program loses it. */
  adopt(target: Target<OwnedValue>, type?: string): RRefHandle<unknown> {
    const handle = new RRefHandle<unknown>(this, target, type).holdValue();
    if (handle.fork !== undefined && handle.fork.phase !== 'gone') this.registry.register(handle, handle.fork, handle);
    this.creationSites.record('fork' in target ? target.fork : target.owned);
    return handle;
  }

  release(handle: object, fork: UserFork): void {
    this.registry.unregister(handle);
    if (this.closed) return;
    this.worker.users.release(fork);
    this.changes.notify();
  }

  hold(owned: OwnedValue): void {
    owned.hold();
  }

  letGo(rref: GlobalId, owned: OwnedValue): void {
    owned.drop();
    if (!owned.held && this.worker.owners.get(rref) === undefined) owned.abandon();
  }

  whenSettled(fork: UserFork): Promise<void> {
    return this.watchers.whenSettled(fork);
  }

  onOwnerDied(fork: UserFork, listener: () => void): () => void {
    return this.watchers.onOwnerDied(fork, listener);
  }

  requireExtension(worker: WorkerInfo, extension: string): void {
    const here = worker.id === this.host.self.id;
    const has = here
      ? extension === EXTENSION_NAME || this.host.session(extension) !== undefined
      : this.host.extensionsOf(worker).has(extension);
    if (!has) throw lacksExtension(worker, extension);
  }

  throwIfClosed(): void {
    if (this.closed) throw new RpcError('failed-precondition', `worker '${this.host.name}' has shut down`);
  }

  // What serving needs.

  valueOf(entry: OwnerEntry<OwnedValue>): OwnedValue {
    return this.owned.of(entry);
  }

  creationRefused(rref: GlobalId, from: WorkerInfo): RpcError {
    const failure = this.transfer.refused.get(rref);
    if (failure !== undefined) return errorOf(failure, from);
    return new RpcError('cancelled', 'the creator of this RRef has given it up', { peer: from });
  }

  private speaks(worker: WorkerInfo): boolean {
    return worker.id === this.host.self.id || this.host.extensionsOf(worker).has(EXTENSION_NAME);
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

/** The extension at work in an agent. @throws RpcError 'failed-precondition' when the agent was made without it. */
export function sessionOf(agent: RpcAgent): RRefSession {
  const session = methodHostOf(agent);
  if (session instanceof RRefSession) return session;
  throw new InvariantError('RRefs are served by something else than their extension');
}
