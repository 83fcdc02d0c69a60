/** @file One life of a simulated worker: the production protocol, and a program with handles that does as it is told. */
import { kept } from '@backwire/testing';
import { memberKey, type GlobalId, type MemberKey } from '../src/protocol/ids.ts';
import type { Carried, Control, Failure } from '../src/protocol/messages.ts';
import type { OwnerEntry } from '../src/protocol/owner-table.ts';
import type { UserFork } from '../src/protocol/user-table.ts';
import { ProtocolWorker } from '../src/protocol/worker.ts';
import type { Packet, SimGroup } from './group.ts';

/** What a program does; numbers choose among what there is at that moment. */
export interface Operation {
  readonly at: number;
  readonly node: number;
  readonly kind: 'make' | 'remote' | 'share' | 'call' | 'drop' | 'give-up';
  readonly which: number;
  readonly to: number;
}

/** A handle of the program's own value. */
interface Owned {
  readonly rref: GlobalId;
}

/** A handle of a value elsewhere; one that is dropped while calls by it are open is released when they are over. */
interface Held extends Owned {
  readonly fork: UserFork;
  calls: number;
  dropped: boolean;
}

const NOBODY: ReadonlySet<MemberKey> = new Set();
const GIVEN_UP: Failure = { code: 'deadline-exceeded', text: 'given up' };

export class SimWorker {
  readonly member: MemberKey;
  readonly protocol: ProtocolWorker<string>;
  handles: (Owned | Held)[] = [];
  /** Calls that are not answered. */
  readonly calls = new Map<number, { readonly owner: MemberKey; readonly handle: Held }>();
  /** Once set, the program gives back whatever it has and gets. */
  leaving = false;
  private readonly group: SimGroup<SimWorker>;
  private epoch: number;
  private hearing = false;
  private drawnCalls = 0;
  private readonly kept = new Map<MemberKey, Control[]>();
  /** Functions that wait for the RRef in their arguments. */
  private readonly waiting = new Map<UserFork, Held>();

  constructor(group: SimGroup<SimWorker>, worker: number, incarnation: number) {
    this.group = group;
    this.member = memberKey(worker, incarnation);
    this.epoch = 0;
    this.protocol = new ProtocolWorker<string>(
      this.member,
      {
        send: (to, message) => this.send(to, message),
        settled: (fork) => this.settled(fork),
        dropped: () => undefined,
        freed: (entry) => this.freed(entry),
        failed: () => undefined,
      },
      { rules: group.rules },
    );
  }

  /** Whether it has seen the latest view. */
  get upToDate(): boolean {
    return this.epoch === this.group.view.epoch;
  }

  /** Whether nothing is left in its tables. */
  get clean(): boolean {
    const { owners, users, fence } = this.protocol;
    return (
      owners.size === 0 &&
      owners.forkCount === 0 &&
      users.size === 0 &&
      users.pendingUsers === 0 &&
      users.pendingChildren === 0 &&
      !fence.open &&
      this.waiting.size === 0 &&
      this.calls.size === 0 &&
      this.handles.length === 0
    );
  }

  /** What its tables keep, counts for limits included. */
  leftovers(): string[] {
    const { owners, users, fence } = this.protocol;
    return [...kept(owners), ...kept(users), ...kept(fence, ['members'])];
  }

  describe(): string {
    const { owners, users, fence } = this.protocol;
    return (
      `${this.group.nameOf(this.member)}: ${owners.size} owned, ${owners.forkCount} forks, ${users.size} held, ` +
      `${users.pendingChildren} children, ${this.calls.size} calls, fence ${fence.open ? 'open' : 'closed'}, ${this.upToDate ? '' : 'behind'}`
    );
  }

  play({ kind, which, to }: Operation): void {
    if (this.epoch === 0) return;
    const handle = this.handles[which % Math.max(1, this.handles.length)];
    switch (kind) {
      case 'make':
        this.add({ rref: this.protocol.drawId() });
        return;
      case 'remote':
        this.remote(this.memberAt(to));
        return;
      case 'share':
        this.share(handle, this.memberAt(to));
        return;
      case 'call':
        this.call(handle);
        return;
      case 'drop':
        this.drop(which % Math.max(1, this.handles.length));
        return;
      case 'give-up': {
        const creating = this.handles.flatMap((held) =>
          isHeld(held) && held.fork.phase === 'creating' ? [held.fork] : [],
        );
        const fork = creating[which % Math.max(1, creating.length)];
        if (fork !== undefined) this.protocol.users.createFailed(fork, GIVEN_UP);
      }
    }
  }

  leave(): void {
    this.leaving = true;
    while (this.handles.length > 0) this.drop(0);
  }

  receive(from: MemberKey, packet: Packet): void {
    switch (packet.kind) {
      case 'create':
        if (this.protocol.createArrived(from, packet) === undefined) this.runLater(packet.rref, packet.fork);
        return;
      case 'created': {
        const fork = this.protocol.users.get(packet.fork);
        if (fork !== undefined) this.protocol.users.created(fork);
        return;
      }
      case 'fork':
        this.forkArrives(from, packet);
        return;
      case 'call':
        this.group.ledger.callArrives(this, from, packet.rref, packet.fork);
        if (!this.protocol.isDead(from)) this.group.send(this.member, from, { ...packet, kind: 'answer' });
        return;
      case 'answer':
        this.callOver(packet.call);
        return;
      default:
        this.control(from, packet);
    }
  }

  /** Views are seen one after the other, each some time after it was made. */
  hearOfView(): void {
    if (this.hearing || this.upToDate) return;
    this.hearing = true;
    this.group.later(this.group.pace.viewMs, `${this.group.nameOf(this.member)} sees a view`, () => {
      this.hearing = false;
      if (!this.group.isUp(this.member)) return;
      this.see();
      this.hearOfView();
    });
  }

  private control(from: MemberKey, message: Control): void {
    if (message.kind === 'user-delete') this.group.ledger.deleteArrives(this, from, message.forks);
    this.protocol.control(from, message);
    if (message.kind === 'fork-request') this.group.ledger.accepted(message.fork);
  }

  /** A handle in a result, or in the arguments of a function, which starts when it is confirmed. */
  private forkArrives(from: MemberKey, packet: Carried & { kind: 'fork' }): void {
    const arrival = this.protocol.forkArrived(from, packet);
    if (arrival.kind === 'owned') {
      this.group.ledger.accepted(packet.fork);
      this.add({ rref: packet.rref });
    } else if (arrival.kind === 'held') {
      const { fork } = arrival;
      const handle = { rref: packet.rref, fork, calls: 0, dropped: false };
      if (fork.settled) this.group.ledger.starts(this, fork);
      else if (fork.local % 2 === 0) this.waiting.set(fork, handle);
      if (fork.parent === fork.owner) this.group.ledger.accepted(fork);
      this.add(handle);
    }
  }

  private settled(fork: UserFork): void {
    if (this.waiting.delete(fork)) this.group.ledger.starts(this, fork);
  }

  private see(): void {
    // A new member begins with the first view that has it; what was before is none of its business.
    const next = this.group.views.find(
      ({ epoch, members }) => epoch > this.epoch && (this.epoch > 0 || members.includes(this.member)),
    );
    if (next === undefined) return;
    this.epoch = next.epoch;
    for (const member of next.died) {
      this.group.cut(member, this.member);
      this.kept.delete(member);
    }
    this.protocol.viewChanged(next.epoch, next.members, next.died);
    for (const [call, { owner }] of [...this.calls]) if (this.protocol.isDead(owner)) this.callOver(call);
    this.dropUnstarted();
    for (const member of next.members) {
      const messages = this.kept.get(member);
      this.kept.delete(member);
      for (const message of messages ?? []) this.send(member, message);
    }
  }

  /** A function whose caller is dead before it could start never runs: the handles in its arguments are nobody's. */
  private dropUnstarted(): void {
    for (const [fork, handle] of [...this.waiting]) {
      if (!this.protocol.isDead(fork.parent)) continue;
      this.waiting.delete(fork);
      this.group.ledger.counts.unstarted++;
      const index = this.handles.indexOf(handle);
      if (index < 0) continue;
      if (this.group.rules.givesBackUnstarted) this.drop(index);
      else this.handles.splice(index, 1);
    }
  }

  private members(): readonly MemberKey[] {
    return this.group.views[this.epoch - 1]?.members ?? [];
  }

  private memberSet(): ReadonlySet<MemberKey> {
    return this.group.views[this.epoch - 1]?.set ?? NOBODY;
  }

  private memberAt(which: number): MemberKey {
    const members = this.members();
    return members[which % members.length] ?? this.member;
  }

  private send(to: MemberKey, message: Control): void {
    if (this.memberSet().has(to)) {
      if (message.kind === 'user-delete') this.group.ledger.deleteSent(this, message.forks);
      this.group.send(this.member, to, message);
      return;
    }
    this.kept.set(to, [...(this.kept.get(to) ?? []), message]);
  }

  private remote(owner: MemberKey): void {
    if (owner === this.member) {
      this.remoteToSelf();
      return;
    }
    const { fork, carried } = this.protocol.create(owner);
    this.add({ rref: fork.rref, fork, calls: 0, dropped: false });
    if (this.group.random(1) < this.group.pace.loss) this.protocol.users.createFailed(fork, GIVEN_UP);
    else this.group.send(this.member, owner, carried);
  }

  private remoteToSelf(): void {
    const entry = this.protocol.createOwn('value');
    const rref = { member: entry.member, local: entry.local };
    this.add({ rref });
    this.group.later(this.group.pace.runMs, `${this.group.nameOf(this.member)} runs its own creation`, () => {
      if (!this.group.isUp(this.member)) return;
      const started = this.protocol.owners.start(rref);
      if (started !== undefined) this.protocol.owners.settle(started);
      this.protocol.createOwnDone(entry);
    });
  }

  private runLater(rref: GlobalId, fork: GlobalId): void {
    this.group.ledger.exists(rref);
    this.group.later(this.group.pace.runMs, `${this.group.nameOf(this.member)} runs a creation`, () => {
      const entry = this.group.isUp(this.member) ? this.protocol.owners.start(rref) : undefined;
      if (entry === undefined) return;
      this.group.later(this.group.pace.runMs, `${this.group.nameOf(this.member)} ends a creation`, () => {
        if (!this.group.isUp(this.member)) return;
        this.protocol.owners.settle(entry);
        if (!this.protocol.isDead(rref.member)) this.group.send(this.member, rref.member, { kind: 'created', fork });
      });
    });
  }

  private share(handle: Owned | Held | undefined, to: MemberKey): void {
    if (handle === undefined || this.protocol.isDead(to)) return;
    const held = isHeld(handle) ? handle.fork : undefined;
    if (held !== undefined && (held.failure !== undefined || held.phase === 'gone')) return;
    if (held === undefined) this.group.ledger.exists(handle.rref);
    const carried =
      held === undefined ? this.protocol.shareOwned(handle.rref, 'value', to) : this.protocol.shareHeld(held, to);
    this.group.ledger.shared(carried, held, to);
    if (this.group.random(1) < this.group.pace.loss) {
      this.group.ledger.accepted(carried.fork);
      this.protocol.unshare(carried);
    } else this.group.send(this.member, to, carried);
  }

  /** Uses an RRef; the handle is kept until the answer, whatever the program does with it. */
  private call(handle: Owned | Held | undefined): void {
    if (handle === undefined || !isHeld(handle)) return;
    const { fork } = handle;
    if (fork.failure !== undefined || fork.phase === 'gone' || fork.released) return;
    if (!this.memberSet().has(fork.owner) || this.group.random(1) < this.group.pace.loss) return;
    const call = this.drawnCalls++;
    handle.calls++;
    this.calls.set(call, { owner: fork.owner, handle });
    this.group.send(this.member, fork.owner, {
      kind: 'call',
      call,
      rref: fork.rref,
      fork: { member: fork.member, local: fork.local },
    });
  }

  private callOver(call: number): void {
    const open = this.calls.get(call);
    if (open === undefined) return;
    this.calls.delete(call);
    open.handle.calls--;
    this.releaseIfUnused(open.handle);
  }

  private add(handle: Owned | Held): void {
    this.handles.push(handle);
    if (this.leaving) this.drop(this.handles.length - 1);
  }

  private drop(index: number): void {
    const [handle] = this.handles.splice(index, 1);
    if (handle === undefined || !isHeld(handle)) return;
    handle.dropped = true;
    this.releaseIfUnused(handle);
  }

  private releaseIfUnused({ fork, calls, dropped }: Held): void {
    if (dropped && calls === 0 && fork.phase !== 'gone') this.protocol.users.release(fork);
  }

  private freed(entry: OwnerEntry<string>): void {
    this.group.simulation.record(`${this.group.nameOf(this.member)} frees ${entry.member}.${entry.local}`);
    this.group.ledger.freed(this, entry);
  }
}

function isHeld(handle: Owned | Held): handle is Held {
  return 'fork' in handle;
}
