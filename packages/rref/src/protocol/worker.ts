/** @file The RRef protocol of one worker: its two tables and its fence, and what each message does to them. */
import { Fence, type FenceState } from './fence.ts';
import { DeadMembers, IdSource, type GlobalId, type MemberKey } from './ids.ts';
import type { Carried, Control, Failure } from './messages.ts';
import { OwnerTable, type OwnerEntry, type OwnerState } from './owner-table.ts';
import { ALL_RULES, type Rules } from './rules.ts';
import { idOf, UserFork, UserTable, type UserState } from './user-table.ts';

/** The world outside of the protocol. Nothing here may call back into the protocol before it returns, except through `send` to a peer. */
export interface WorkerPort<V> {
  /** Exactly once and FIFO for each pair, together with carried entries. Never called for a dead member or for this worker itself. */
  send(to: MemberKey, message: Control): void;
  /** A fork held here was confirmed or failed. */
  settled(fork: UserFork): void;
  /** A fork held here left the table: it was deleted, or its owner died. */
  dropped(fork: UserFork): void;
  /** The last fork of an RRef owned here is gone. */
  freed(entry: OwnerEntry<V>): void;
  /** An RRef owned here will certainly never be created. */
  failed(entry: OwnerEntry<V>, failure: Failure): void;
}

/** What a handle that arrived turned out to be. */
export type Arrival<V> =
  | { readonly kind: 'owned'; readonly entry: OwnerEntry<V> }
  | { readonly kind: 'held'; readonly fork: UserFork }
  /** Repeated or inconsistent: nothing came of it. */
  | { readonly kind: 'ignored' };

/** Plain data from which the protocol state of a worker can be made again. */
export interface WorkerState<V> {
  readonly self: MemberKey;
  readonly drawn: number;
  readonly dead: readonly (readonly [number, number])[];
  readonly owner: OwnerState<V>;
  readonly user: UserState;
  readonly fence: FenceState;
}

/** The whole protocol of one worker. Pure: events in, effects out through the port; `V` is the value kept with an owned RRef. */
export class ProtocolWorker<V> {
  readonly self: MemberKey;
  readonly owners: OwnerTable<V>;
  readonly users: UserTable;
  readonly fence: Fence;
  private ids: IdSource;
  private readonly dead: DeadMembers;
  private readonly port: WorkerPort<V>;

  constructor(
    self: MemberKey,
    port: WorkerPort<V>,
    options: { rules?: Rules; maxForksPerHolder?: number; state?: WorkerState<V> } = {},
  ) {
    const rules = options.rules ?? ALL_RULES;
    this.self = self;
    this.port = port;
    this.ids = new IdSource(self, options.state?.drawn);
    this.dead = new DeadMembers(options.state?.dead);
    const send = (to: MemberKey, message: Control): void => this.send(to, message);
    this.owners = new OwnerTable(self, this.dead, port, rules, options);
    this.users = new UserTable(
      self,
      this.dead,
      { send, settled: (fork) => port.settled(fork), dropped: (fork) => port.dropped(fork) },
      rules,
    );
    this.fence = new Fence(self, { send, complete: (dead) => this.fenceComplete(dead) }, rules);
    if (options.state !== undefined) this.restore(options.state);
  }

  isDead(member: MemberKey): boolean {
    return this.dead.has(member);
  }

  /** An id for an RRef of a value that is here. */
  drawId(): GlobalId {
    return this.ids.next();
  }

  /** Begins `remote()` to another worker: its handle, and the entry that travels with the call. */
  create(owner: MemberKey): { fork: UserFork; carried: Carried } {
    const rref = this.ids.next();
    const fork = this.ids.next();
    return { fork: this.users.create(fork, rref, owner), carried: { kind: 'create', rref, fork } };
  }

  /** The handle of a `remote()` of which the other worker never hears: it is in no table. */
  createNever(owner: MemberKey): UserFork {
    const rref = this.ids.next();
    return new UserFork(this.ids.next(), rref, owner, this.self, 'gone');
  }

  /** Begins `remote()` to this worker itself. */
  createOwn(payload: V): OwnerEntry<V> {
    return this.owners.createOwn(this.ids.next(), payload);
  }

  /** The call to this worker itself is over, or was never sent. */
  createOwnDone(entry: OwnerEntry<V>, failure?: Failure): void {
    if (failure !== undefined) this.owners.createFailed(idOf(entry), idOf(entry), this.self, failure);
    this.owners.delete(idOf(entry), this.self);
  }

  /** A value owned here goes into a message to `to`. */
  shareOwned(rref: GlobalId, payload: V, to: MemberKey): Carried & { kind: 'fork' } {
    const fork = this.ids.next();
    this.owners.share(rref, payload, fork, to);
    return { kind: 'fork', rref: idOf(rref), owner: this.self, fork };
  }

  /** A handle held here goes into a message to `to`. */
  shareHeld(parent: UserFork, to: MemberKey): Carried & { kind: 'fork' } {
    const fork = this.ids.next();
    this.users.share(parent, fork, to);
    return { kind: 'fork', rref: parent.rref, owner: parent.owner, fork };
  }

  /** The message that carried this entry certainly never arrived. For a `create`, see `UserTable.createFailed`. */
  unshare(carried: Carried): void {
    if (carried.kind === 'create') return;
    if (carried.owner === this.self) this.owners.unshare(carried.fork);
    else this.users.childDone(carried.fork);
  }

  /** A creating call was delivered. Returns why it must not run, or nothing. */
  createArrived(from: MemberKey, carried: Carried & { kind: 'create' }): Failure | undefined {
    const own = carried.rref.member === from && carried.fork.member === from && from !== this.self;
    if (!own) return { code: 'protocol-error', text: 'a creation with ids that its sender did not draw' };
    return this.owners.create(carried.rref, carried.fork, from);
  }

  /** A handle was delivered. */
  forkArrived(from: MemberKey, carried: Carried & { kind: 'fork' }): Arrival<V> {
    const { rref, owner, fork } = carried;
    if (fork.member !== from) return { kind: 'ignored' };
    if (owner === this.self) {
      const entry = this.owners.mention(rref, from);
      if (from === this.self) this.owners.delete(fork, this.self);
      else this.send(from, { kind: 'child-accept', fork });
      return { kind: 'owned', entry };
    }
    const made = this.users.arrive(fork, rref, owner, from);
    return made === undefined ? { kind: 'ignored' } : { kind: 'held', fork: made };
  }

  /** A control message was delivered. What the dead still seem to say is not heard. */
  control(from: MemberKey, message: Control): void {
    switch (message.kind) {
      case 'fork-request': {
        const refused = this.owners.request(message.rref, message.fork, from);
        this.send(from, { kind: 'fork-ack', fork: message.fork, refused });
        return;
      }
      case 'fork-ack':
        return this.users.acknowledged(message.fork, message.refused, from);
      case 'child-accept':
        return this.users.childDone(message.fork, from);
      case 'user-delete':
        for (const fork of message.forks) this.owners.delete(fork, from);
        return;
      case 'create-failed':
        if (message.rref.member === from && message.fork.member === from) {
          this.owners.createFailed(message.rref, message.fork, from, message.failure);
        }
        return;
      case 'fence':
        return this.fence.request(from, message.epoch, message.dead);
      case 'fence-ack':
        return this.fence.acknowledged(from, message.epoch);
      case 'fence-done':
        return this.users.fenced(from, new Set(message.dead));
    }
  }

  /**
   * The group's view changed. Every session with a member in `died` is cut by now: nothing of it is delivered afterwards.
   * An epoch that is not news is ignored.
   */
  viewChanged(epoch: number, members: readonly MemberKey[], died: readonly MemberKey[]): void {
    if (epoch <= this.fence.currentEpoch) return;
    const news = died.filter((member) => member !== this.self && this.dead.add(member));
    for (const member of news) {
      this.owners.creatorDied(member);
      this.users.died(member);
    }
    this.users.orphaned(news, members);
    this.fence.viewChanged(epoch, members, news);
  }

  /** Whether nothing here waits for anybody: no unconfirmed fork, no unaccepted child, no open fence. */
  get quiet(): boolean {
    return this.users.pendingUsers === 0 && this.users.pendingChildren === 0 && !this.fence.open;
  }

  snapshot(): WorkerState<V> {
    return {
      self: this.self,
      drawn: this.ids.count,
      dead: this.dead.entries(),
      owner: this.owners.snapshot(),
      user: this.users.snapshot(),
      fence: this.fence.snapshot(),
    };
  }

  private restore(state: WorkerState<V>): void {
    this.owners.restore(state.owner);
    this.users.restore(state.user);
    this.fence.restore(state.fence);
  }

  private fenceComplete(dead: ReadonlySet<MemberKey>): void {
    this.owners.releaseHeldBy(dead);
    this.users.fenced(this.self, dead);
  }

  private send(to: MemberKey, message: Control): void {
    if (to === this.self) this.control(this.self, message);
    else if (!this.dead.has(to)) this.port.send(to, message);
  }
}
