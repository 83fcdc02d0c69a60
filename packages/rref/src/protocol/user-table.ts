/** @file The user's side: the forks this worker holds of RRefs owned elsewhere, and the children it handed on. */
import { MAX_PENDING_PER_PARENT } from '../limits.ts';
import { type DeadMembers, IdMap, type GlobalId, type MemberKey } from './ids.ts';
import type { Control, Failure } from './messages.ts';
import { ALL_RULES, type Rules } from './rules.ts';

/**
 * Life of a fork:
 * - `creating`: drawn here by `remote()`; the creating call has not been answered.
 * - `pending`: came from another user; the owner has not acknowledged it.
 * - `confirmed`: the owner knows it.
 * - `refused`: the owner would not register it; it stands in for its children and is then reported to its parent.
 * - `gone`: its owner died, it was deleted, or its creating call could not be sent. Not in the table any more.
 */
export type UserPhase = 'creating' | 'pending' | 'confirmed' | 'refused' | 'gone';

/** A handle on a value elsewhere; also its fork id. */
export class UserFork implements GlobalId {
  readonly member: MemberKey;
  readonly local: number;
  readonly rref: GlobalId;
  readonly owner: MemberKey;
  /** Who handed it to us: the owner, another user, or ourselves when we created it. */
  readonly parent: MemberKey;
  phase: UserPhase;
  /** The program let go of it; what is left is to wait for children and confirmation, and to tell the owner. */
  released = false;
  /** Children that were handed on and not accepted yet. They keep this fork registered. */
  children = 0;
  /** Why it cannot be used: creation failed, registration refused, owner died. */
  failure: Failure | undefined;

  constructor(id: GlobalId, rref: GlobalId, owner: MemberKey, parent: MemberKey, phase: UserPhase) {
    this.member = id.member;
    this.local = id.local;
    this.rref = rref;
    this.owner = owner;
    this.parent = parent;
    this.phase = phase;
  }

  get confirmed(): boolean {
    return this.phase === 'confirmed' && this.failure === undefined;
  }

  /** Whether nothing more will be learnt about it. */
  get settled(): boolean {
    return this.phase !== 'creating' && this.phase !== 'pending';
  }
}

export interface UserPort {
  send(to: MemberKey, message: Control): void;
  /** The fork was confirmed or failed; told once. */
  settled(fork: UserFork): void;
  /** The fork left the table. */
  dropped(fork: UserFork): void;
}

interface PendingChild {
  readonly id: GlobalId;
  readonly parent: UserFork;
  /** Where the child went. */
  readonly at: MemberKey;
}

/** Plain data from which a user table can be made again. */
export interface UserState {
  readonly forks: readonly {
    readonly id: GlobalId;
    readonly rref: GlobalId;
    readonly owner: MemberKey;
    readonly parent: MemberKey;
    readonly phase: UserPhase;
    readonly released: boolean;
    readonly failure: Failure | undefined;
  }[];
  readonly children: readonly { readonly id: GlobalId; readonly parent: GlobalId; readonly at: MemberKey }[];
}

const OWNER_DIED: Failure = { code: 'owner-died', text: 'the owner of this RRef died' };

/**
 * The forks held here. A fork is deleted at its owner once the program has released it, the owner has confirmed it, and every
 * child it was forked into has been accepted: so the owner hears of a child before it can lose the child's parent.
 */
export class UserTable {
  private readonly forks = new IdMap<UserFork>();
  private readonly children = new IdMap<PendingChild>();
  private readonly self: MemberKey;
  private readonly dead: DeadMembers;
  private readonly port: UserPort;
  private readonly rules: Rules;
  private unsettled = 0;
  /** Of these, how many each member has handed on. */
  private readonly pendingOf = new Map<MemberKey, number>();
  private readonly maxPending: number;

  constructor(
    self: MemberKey,
    dead: DeadMembers,
    port: UserPort,
    rules: Rules = ALL_RULES,
    maxPending = MAX_PENDING_PER_PARENT,
  ) {
    this.self = self;
    this.dead = dead;
    this.port = port;
    this.rules = rules;
    this.maxPending = maxPending;
  }

  get size(): number {
    return this.forks.size;
  }

  /** Forks that wait for their owner. */
  get pendingUsers(): number {
    return this.unsettled;
  }

  get pendingChildren(): number {
    return this.children.size;
  }

  get(fork: GlobalId): UserFork | undefined {
    return this.forks.get(fork);
  }

  all(): IterableIterator<UserFork> {
    return this.forks.values();
  }

  /** Where children are that were not accepted yet. */
  *childHolders(): IterableIterator<MemberKey> {
    for (const { at } of this.children.values()) yield at;
  }

  /** A handle for an RRef that a call about to be sent will create. */
  create(fork: GlobalId, rref: GlobalId, owner: MemberKey): UserFork {
    return this.add(new UserFork(fork, rref, owner, this.self, 'creating'));
  }

  /** The creating call was answered. */
  created(fork: UserFork): void {
    if (fork.phase === 'creating') this.settle(fork, 'confirmed');
  }

  /**
   * The creating call failed in a way that does not say what the owner knows. The owner is told, which registers the fork there if
   * nothing else did, so that the later delete is always of something known.
   */
  createFailed(fork: UserFork, failure: Failure): void {
    if (fork.phase !== 'creating') return;
    this.port.send(fork.owner, { kind: 'create-failed', rref: fork.rref, fork: idOf(fork), failure });
    this.settle(fork, 'confirmed', failure);
  }

  /** A handle arrived in a message of `parent`. Undefined when this fork is here already. */
  arrive(fork: GlobalId, rref: GlobalId, owner: MemberKey, parent: MemberKey): UserFork | undefined {
    if (this.forks.has(fork)) return undefined;
    if (this.dead.has(owner)) {
      const born = new UserFork(fork, rref, owner, parent, 'gone');
      born.failure = OWNER_DIED;
      return born;
    }
    if (owner === parent) return this.add(new UserFork(fork, rref, owner, parent, 'confirmed'));
    if ((this.pendingOf.get(parent) ?? 0) >= this.maxPending) {
      const born = new UserFork(fork, rref, owner, parent, 'gone');
      born.failure = tooManyPending(this.maxPending);
      this.acceptedByOwner(born);
      return born;
    }
    const made = this.add(new UserFork(fork, rref, owner, parent, 'pending'));
    this.port.send(owner, { kind: 'fork-request', rref, fork });
    return made;
  }

  /** The owner answered a fork request. */
  acknowledged(fork: GlobalId, refused: Failure | undefined, from: MemberKey): void {
    const known = this.forks.get(fork);
    if (known?.phase !== 'pending' || known.owner !== from) return;
    if (refused === undefined) {
      this.acceptedByOwner(known);
      this.settle(known, 'confirmed');
    } else {
      known.released = true;
      this.settle(known, 'refused', refused);
    }
  }

  /** A child of `fork` is about to travel to `to`. The fork stays registered until it is accepted, even when released meanwhile. */
  share(fork: UserFork, child: GlobalId, to: MemberKey): void {
    this.children.set(child, { id: child, parent: fork, at: to });
    fork.children++;
  }

  /** The child arrived and is known to the owner (or came home to it), or it certainly never arrived. */
  childDone(child: GlobalId, from?: MemberKey): void {
    const known = this.children.get(child);
    if (known !== undefined && (from === undefined || known.at === from)) this.removeChild(known);
  }

  /** The program let go of the fork. */
  release(fork: UserFork): void {
    if (fork.released) return;
    fork.released = true;
    this.deleteIfDone(fork);
  }

  /** A worker was removed from the group: what it owned is lost, and what it was given will not be accepted. */
  died(member: MemberKey): void {
    for (const child of [...this.children.values()]) {
      if (child.parent.owner !== member) continue;
      this.children.delete(child.id);
      child.parent.children--;
    }
    for (const fork of [...this.forks.values()]) if (fork.owner === member) this.lose(fork);
    if (!this.rules.childrenWaitForFence) this.clearChildren((child) => child.at === member);
  }

  /**
   * These workers were removed from the group, whose members are `present`. An owner that is none of them was not there when one of the dead
   * handed on a handle of its: no answer will come.
   */
  orphaned(dead: readonly MemberKey[], present: readonly MemberKey[]): void {
    if (!dead.some((member) => this.pendingOf.has(member))) return;
    const [parents, owners] = [new Set(dead), new Set(present)];
    for (const fork of [...this.forks.values()])
      if (fork.phase === 'pending' && parents.has(fork.parent) && !owners.has(fork.owner)) this.lose(fork);
  }

  /** The fence of `owner` for these deaths is complete: children that sit there will never be accepted, and need not be. */
  fenced(owner: MemberKey, dead: ReadonlySet<MemberKey>): void {
    this.clearChildren((child) => child.parent.owner === owner && dead.has(child.at));
  }

  /** Forgets everything without telling anybody. */
  clear(): void {
    const forks = [...this.forks.values()];
    this.forks.clear();
    this.children.clear();
    this.unsettled = 0;
    this.pendingOf.clear();
    for (const fork of forks) {
      const news = !fork.settled;
      fork.phase = 'gone';
      if (news) this.port.settled(fork);
    }
  }

  snapshot(): UserState {
    return {
      forks: [...this.forks.values()].map((fork) => ({
        id: idOf(fork),
        rref: fork.rref,
        owner: fork.owner,
        parent: fork.parent,
        phase: fork.phase,
        released: fork.released,
        failure: fork.failure,
      })),
      children: [...this.children.values()].map(({ id, parent, at }) => ({ id, parent: idOf(parent), at })),
    };
  }

  /** Fills an empty table. */
  restore(state: UserState): void {
    for (const saved of state.forks) {
      const fork = this.add(new UserFork(saved.id, saved.rref, saved.owner, saved.parent, saved.phase));
      fork.released = saved.released;
      fork.failure = saved.failure;
    }
    for (const { id, parent, at } of state.children) {
      const fork = this.forks.get(parent);
      if (fork !== undefined) this.share(fork, id, at);
    }
  }

  private add(fork: UserFork): UserFork {
    this.forks.set(fork, fork);
    if (!fork.settled) this.unsettled++;
    if (fork.phase === 'pending') this.pendingOf.set(fork.parent, (this.pendingOf.get(fork.parent) ?? 0) + 1);
    return fork;
  }

  private settle(fork: UserFork, phase: UserPhase, failure?: Failure): void {
    if (!fork.settled) this.noLongerUnsettled(fork);
    fork.phase = phase;
    fork.failure = failure;
    this.port.settled(fork);
    this.deleteIfDone(fork);
  }

  private noLongerUnsettled(fork: UserFork): void {
    this.unsettled--;
    if (fork.phase !== 'pending') return;
    const rest = (this.pendingOf.get(fork.parent) ?? 1) - 1;
    if (rest === 0) this.pendingOf.delete(fork.parent);
    else this.pendingOf.set(fork.parent, rest);
  }

  private acceptedByOwner(fork: UserFork): void {
    if (!this.dead.has(fork.parent)) this.port.send(fork.parent, { kind: 'child-accept', fork: idOf(fork) });
  }

  private deleteIfDone(fork: UserFork): void {
    if (!fork.released || fork.children > 0 || !fork.settled || fork.phase === 'gone') return;
    const refused = fork.phase === 'refused';
    this.drop(fork);
    if (refused) this.acceptedByOwner(fork);
    else this.port.send(fork.owner, { kind: 'user-delete', forks: [idOf(fork)] });
  }

  private drop(fork: UserFork): void {
    this.forks.delete(fork);
    fork.phase = 'gone';
    this.port.dropped(fork);
  }

  private lose(fork: UserFork): void {
    const news = !fork.settled;
    if (news) this.noLongerUnsettled(fork);
    fork.failure = OWNER_DIED;
    this.drop(fork);
    if (news) this.port.settled(fork);
  }

  private clearChildren(condition: (child: PendingChild) => boolean): void {
    for (const child of [...this.children.values()]) if (condition(child)) this.removeChild(child);
  }

  private removeChild(child: PendingChild): void {
    this.children.delete(child.id);
    child.parent.children--;
    this.deleteIfDone(child.parent);
  }
}

function tooManyPending(limit: number): Failure {
  const text = `one worker has handed on more than ${limit} RRefs whose owners have not answered: await confirmed() of some before more are handed on`;
  return { code: 'resource-exhausted', text };
}

/** The fork id alone: what may go into a message. */
export function idOf(id: GlobalId): GlobalId {
  return { member: id.member, local: id.local };
}
