/**
 * @file What an onlooker knows of a simulated group, and the invariants it holds the workers to. They are those of PyTorch's protocol
 * (numbered P1 to P8) and of ours (S, L, F), each with its own name in a failure:
 *
 * - P1, L1: at the end, with no handle left, every table of every worker is empty, and no call is open.
 * - P2: a fork is registered with one owner, under one holder.
 * - P3: the owner knows every confirmed fork.
 * - P4: no delete is processed before its registration.
 * - P5: a parent is deleted only when all its children have been accepted.
 * - P6: a fork is confirmed or pending, never both: it has one phase; settled ones are never pending again.
 * - P7: a function gets its RRefs confirmed, or failed.
 * - P8: at the end no message is under way.
 * - S1: nothing is freed that a handle, or a message that will arrive, can reach.
 * - S2: no call and no delete of a live fork reaches a freed RRef.
 * - F1: once a worker has seen the view without an owner, it holds nothing of that owner, and no call to it is open.
 * - F2: what the dead held is gone by the end (a part of P1).
 */
import { type GlobalId, type MemberKey } from '../src/protocol/ids.ts';
import type { Carried } from '../src/protocol/messages.ts';
import type { OwnerEntry } from '../src/protocol/owner-table.ts';
import type { ProtocolWorker } from '../src/protocol/worker.ts';

/** A worker, as far as an onlooker looks into it. */
export interface Seen {
  readonly member: MemberKey;
  readonly protocol: ProtocolWorker<string>;
  /** Its calls that have not been answered. */
  readonly calls: ReadonlyMap<number, { readonly owner: MemberKey }>;
}

/** What an onlooker sees of a group. */
export interface SeenGroup {
  readonly workers: ReadonlyMap<MemberKey, Seen>;
  nameOf(member: MemberKey): string;
  isUp(member: MemberKey): boolean;
  /** Handles under way that will be delivered. */
  handlesUnderWay(): Iterable<{ from: MemberKey; to: MemberKey; packet: Carried & { kind: 'fork' } }>;
  /** Ends the run: a rule was broken. */
  fail(rule: string, detail: string): never;
}

interface Child {
  readonly parent: string;
  readonly at: MemberKey;
}

export class Ledger {
  /** How often each kind of thing happened. */
  readonly counts = { shared: 0, calls: 0, freed: 0, starts: 0, unstarted: 0 };
  /** RRefs whose value existed at some time. */
  private readonly existed = new Set<string>();
  /** Children of users that their owner has not heard of, by child. */
  private readonly unaccepted = new Map<string, Child>();
  private readonly childrenOf = new Map<string, Set<string>>();
  private readonly group: SeenGroup;

  constructor(group: SeenGroup) {
    this.group = group;
  }

  exists(rref: GlobalId): void {
    this.existed.add(keyOf(rref));
  }

  /** A handle goes into a message. */
  shared(carried: Carried & { kind: 'fork' }, parent: GlobalId | undefined, at: MemberKey): void {
    this.counts.shared++;
    if (parent === undefined) return;
    const child = keyOf(carried.fork);
    this.unaccepted.set(child, { parent: keyOf(parent), at });
    let children = this.childrenOf.get(keyOf(parent));
    if (children === undefined) this.childrenOf.set(keyOf(parent), (children = new Set()));
    children.add(child);
  }

  /** The owner knows of a child now, or it came home, or was never sent. */
  accepted(fork: GlobalId): void {
    const key = keyOf(fork);
    const child = this.unaccepted.get(key);
    if (child === undefined) return;
    this.unaccepted.delete(key);
    const siblings = this.childrenOf.get(child.parent);
    siblings?.delete(key);
    if (siblings?.size === 0) this.childrenOf.delete(child.parent);
  }

  /** P5. */
  deleteSent(worker: Seen, forks: readonly GlobalId[]): void {
    for (const fork of forks) {
      for (const child of this.childrenOf.get(keyOf(fork)) ?? []) {
        const { at } = this.unaccepted.get(child) as Child;
        if (this.group.isUp(at))
          this.fail(
            'P5: a parent is deleted before its child is accepted',
            `${keyOf(fork)} by ${this.name(worker.member)}`,
          );
      }
    }
  }

  /** P4. */
  deleteArrives(owner: Seen, from: MemberKey, forks: readonly GlobalId[]): void {
    for (const fork of forks) {
      if (owner.protocol.owners.holderOf(fork) !== from)
        this.fail('P4: a delete before its registration', `${keyOf(fork)} at ${this.name(owner.member)}`);
    }
  }

  /** P7. */
  starts(worker: Seen, fork: { readonly settled: boolean } & GlobalId): void {
    this.counts.starts++;
    if (!fork.settled)
      this.fail('P7: a function starts with an unconfirmed RRef', `${keyOf(fork)} at ${this.name(worker.member)}`);
  }

  /** S2: a call by a fork that its sender may use finds the RRef. */
  callArrives(owner: Seen, from: MemberKey, rref: GlobalId, fork: GlobalId): void {
    this.counts.calls++;
    if (owner.protocol.owners.get(rref) !== undefined) return;
    const held = this.group.workers.get(from)?.protocol.users.get(fork);
    if (held !== undefined && held.failure === undefined)
      this.fail('S2: a call reaches a freed RRef', `${keyOf(rref)} by ${this.name(from)}`);
  }

  /** S1. */
  freed(owner: Seen, rref: OwnerEntry<string>): void {
    this.counts.freed++;
    if (!this.existed.has(keyOf(rref))) return;
    const reason = this.whoReaches(owner, rref);
    if (reason !== undefined) this.fail('S1: freed too early', `${keyOf(rref)} while ${reason}`);
  }

  /** P2, P3, P6 and F1, over everything there is: for now and then, and for the end. */
  audit(): void {
    const registered = new Map<string, MemberKey>();
    for (const owner of this.group.workers.values()) {
      for (const fork of owner.protocol.owners.allForks()) {
        const key = keyOf(fork);
        if (registered.has(key)) this.fail('P2: a fork is registered twice', key);
        registered.set(key, owner.member);
        if (owner.protocol.owners.holderOf(fork) !== fork.holder) this.fail('P2: a fork has two holders', key);
      }
    }
    for (const worker of this.group.workers.values()) {
      let pending = 0;
      for (const fork of worker.protocol.users.all()) {
        const key = keyOf(fork);
        if (!fork.settled) pending++;
        if (worker.protocol.isDead(fork.owner))
          this.fail('F1: a handle outlives its owner', `${key} at ${this.name(worker.member)}`);
        if (fork.confirmed && this.group.isUp(fork.owner) && registered.get(key) !== fork.owner)
          this.fail('P3: a confirmed fork is unknown to its owner', `${key} at ${this.name(worker.member)}`);
      }
      if (pending !== worker.protocol.users.pendingUsers)
        this.fail('P6: pending forks are miscounted', this.name(worker.member));
      for (const { owner } of worker.calls.values())
        if (worker.protocol.isDead(owner)) this.fail('F1: a call outlives its callee', this.name(worker.member));
    }
  }

  /** Who can still reach an RRef that its owner lets go of; undefined when nobody can. */
  private whoReaches(owner: Seen, rref: GlobalId): string | undefined {
    for (const worker of this.group.workers.values()) {
      if (worker === owner) continue;
      for (const fork of worker.protocol.users.all()) {
        const usable = !fork.released && fork.failure === undefined;
        if (usable && fork.owner === owner.member && same(fork.rref, rref))
          return `${this.name(worker.member)} holds it`;
      }
    }
    for (const { from, to, packet } of this.group.handlesUnderWay()) {
      if (packet.owner === owner.member && same(packet.rref, rref))
        return `a handle is on its way from ${this.name(from)} to ${this.name(to)}`;
    }
    return undefined;
  }

  private name(member: MemberKey): string {
    return this.group.nameOf(member);
  }

  private fail(rule: string, detail: string): never {
    return this.group.fail(rule, detail);
  }
}

function keyOf({ member, local }: GlobalId): string {
  return `${member}.${local}`;
}

function same(a: GlobalId, b: GlobalId): boolean {
  return a.member === b.member && a.local === b.local;
}
