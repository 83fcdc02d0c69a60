/** @file The owner's side: which RRefs exist here, who holds a fork of each, and when the last one is gone. */
import { MAX_AWAITED, MAX_FORKS_PER_HOLDER } from '../limits.ts';
import { type DeadMembers, IdMap, type GlobalId, type MemberKey } from './ids.ts';
import type { Failure } from './messages.ts';
import { ALL_RULES, type Rules } from './rules.ts';
import { Tombstones, type Tombstone } from './tombstones.ts';

/**
 * Life of an entry:
 * - `awaited`: somebody already refers to it, the call that creates it has not arrived. Never freed in this phase.
 * - `created`: the creating call was delivered and has not started.
 * - `running`: its function runs.
 * - `settled`: it has a value or an error, or the creation certainly never runs.
 */
export type OwnerPhase = 'awaited' | 'created' | 'running' | 'settled';

/** An RRef that this worker owns and somebody holds; also its id. `payload` is whatever the shell keeps with it: the value. */
export class OwnerEntry<V> implements GlobalId {
  readonly member: MemberKey;
  readonly local: number;
  phase: OwnerPhase;
  /** Forks registered, the owner's own in-flight ones included. */
  forks = 0;
  payload: V | undefined;

  constructor(id: GlobalId, phase: OwnerPhase, payload: V | undefined) {
    this.member = id.member;
    this.local = id.local;
    this.phase = phase;
    this.payload = payload;
  }
}

/** A registered fork; also its id. */
export class OwnerFork<V> implements GlobalId {
  readonly member: MemberKey;
  readonly local: number;
  readonly entry: OwnerEntry<V>;
  /** Who holds it, or will when the message that carries it arrives. */
  readonly holder: MemberKey;

  constructor(id: GlobalId, entry: OwnerEntry<V>, holder: MemberKey) {
    this.member = id.member;
    this.local = id.local;
    this.entry = entry;
    this.holder = holder;
  }
}

/** What the table tells its shell. */
export interface OwnerPort<V> {
  /** The last fork is gone: let go of the value. The entry is no longer in the table. */
  freed(entry: OwnerEntry<V>): void;
  /** The creation will certainly never run: fail whoever waits for the value. */
  failed(entry: OwnerEntry<V>, failure: Failure): void;
}

/** Plain data from which an owner table can be made again. */
export interface OwnerState<V> {
  readonly entries: readonly { readonly id: GlobalId; readonly phase: OwnerPhase; readonly payload: V | undefined }[];
  readonly forks: readonly { readonly id: GlobalId; readonly rref: GlobalId; readonly holder: MemberKey }[];
  readonly tombstones: readonly Tombstone[];
}

/** What this worker made itself is in the table for as long as anybody else may mention it. */
const RELEASED: Failure = {
  code: 'rref-released',
  text: 'the owner has let go of this RRef: its last handle was released',
};
const NOT_GIVEN: Failure = {
  code: 'protocol-error',
  text: 'the owner has registered every handle that it gave away itself: this is none of them',
};
const CREATOR_DIED: Failure = {
  code: 'peer-died',
  text: 'the worker that created this RRef died before its call arrived, so its value will never exist',
};

/**
 * The RRefs owned here that others (or messages in flight) refer to. A value that only this worker's own handles refer to is not in
 * the table: those handles hold it themselves. Neither events of unknown objects nor repeated ones do harm.
 */
export class OwnerTable<V> {
  private readonly entries = new IdMap<OwnerEntry<V>>();
  private readonly forks = new IdMap<OwnerFork<V>>();
  /** Forks that another member has claimed under the same id before: whose it is, nobody here can tell, so each has one. */
  private readonly doubles = new IdMap<OwnerFork<V>[]>();
  private doubled = 0;
  private readonly perHolder = new Map<MemberKey, number>();
  private readonly tombstones = new Tombstones();
  /** By whom each entry was mentioned that is awaited, and how many of these each has mentioned. */
  private readonly mentioner = new IdMap<MemberKey>();
  private readonly awaited = new Map<MemberKey, number>();
  private readonly self: MemberKey;
  private readonly dead: DeadMembers;
  private readonly port: OwnerPort<V>;
  private readonly rules: Rules;
  private readonly maxForksPerHolder: number;
  private readonly maxAwaited: number;

  constructor(
    self: MemberKey,
    dead: DeadMembers,
    port: OwnerPort<V>,
    rules: Rules = ALL_RULES,
    limits: { maxForksPerHolder?: number | undefined; maxAwaited?: number | undefined } = {},
  ) {
    this.self = self;
    this.dead = dead;
    this.port = port;
    this.rules = rules;
    this.maxForksPerHolder = limits.maxForksPerHolder ?? MAX_FORKS_PER_HOLDER;
    this.maxAwaited = limits.maxAwaited ?? MAX_AWAITED;
  }

  get size(): number {
    return this.entries.size;
  }

  get forkCount(): number {
    return this.forks.size + this.doubled;
  }

  get(rref: GlobalId): OwnerEntry<V> | undefined {
    return this.entries.get(rref);
  }

  /** Who holds a fork; undefined when it is not registered. */
  holderOf(fork: GlobalId): MemberKey | undefined {
    return this.forks.get(fork)?.holder;
  }

  all(): IterableIterator<OwnerEntry<V>> {
    return this.entries.values();
  }

  *allForks(): IterableIterator<OwnerFork<V>> {
    yield* this.forks.values();
    if (this.doubled > 0) for (const others of this.doubles.values()) yield* others;
  }

  /** A handle came home from `by`: the entry it means, made in wait for its creation if that has not arrived. The caller keeps the payload. */
  mention(rref: GlobalId, by: MemberKey): OwnerEntry<V> {
    const entry = this.obtain(rref, by);
    this.freeIfUnheld(entry);
    return entry;
  }

  /** This worker creates an RRef on itself by a call: its own fork, named like the RRef, keeps the entry until the call is over. */
  createOwn(rref: GlobalId, payload: V): OwnerEntry<V> {
    const entry = new OwnerEntry(rref, 'created', payload);
    this.entries.set(rref, entry);
    this.insert(entry, rref, this.self);
    return entry;
  }

  /** The owner itself shares a value it has: the fork is registered before the message leaves. */
  share(rref: GlobalId, payload: V, fork: GlobalId, holder: MemberKey): OwnerEntry<V> {
    let entry = this.entries.get(rref);
    if (entry === undefined) {
      entry = new OwnerEntry(rref, 'settled', payload);
      this.entries.set(rref, entry);
    }
    this.insert(entry, fork, holder);
    return entry;
  }

  /** A creating call was delivered; `fork` is the creator's. Returns why it is refused, or nothing. */
  create(rref: GlobalId, fork: GlobalId, creator: MemberKey): Failure | undefined {
    const refusal = this.refusal(fork, creator);
    if (refusal !== undefined) {
      this.abandon(rref, refusal);
      return refusal;
    }
    const entry = this.entries.get(rref) ?? this.created(rref, creator);
    if (entry.phase === 'awaited') {
      this.awaitedNoMore(entry);
      entry.phase = 'created';
    }
    if (this.find(fork, creator) === undefined) this.insert(entry, fork, creator);
    return undefined;
  }

  /** The creating call is about to run. Undefined: its creator has given up, or the call repeats: do not run it. */
  start(rref: GlobalId): OwnerEntry<V> | undefined {
    const entry = this.entries.get(rref);
    if (entry?.phase !== 'created') return undefined;
    entry.phase = 'running';
    return entry;
  }

  /** The creating call ended, well or not. */
  settle(entry: OwnerEntry<V>): void {
    entry.phase = 'settled';
    this.freeIfUnheld(entry);
  }

  /** The creator says that its call failed. A function that already runs is left alone: its outcome is the RRef's. */
  createFailed(rref: GlobalId, fork: GlobalId, creator: MemberKey, failure: Failure): void {
    if (this.find(fork, creator) === undefined && this.refusal(fork, creator) === undefined)
      this.insert(this.obtain(rref, creator), fork, creator);
    this.abandon(rref, failure);
  }

  /** A user asks for its fork to be registered. Returns why it is refused, or nothing. */
  request(rref: GlobalId, fork: GlobalId, holder: MemberKey): Failure | undefined {
    if (this.find(fork, holder) !== undefined) return undefined;
    const refusal = fork.member === this.self ? NOT_GIVEN : this.refusal(fork, holder);
    if (refusal === undefined) this.insert(this.obtain(rref, holder), fork, holder);
    return refusal;
  }

  /** `holder` lets go of a fork. Deleting one that is not there yet leaves a tombstone, so that it never comes. */
  delete(fork: GlobalId, holder: MemberKey): void {
    const known = this.find(fork, holder);
    if (known !== undefined) this.remove(known);
    else if (this.rules.tombstones) this.tombstones.add(fork, holder, false);
  }

  /** A fork that this worker drew for another will never get there. */
  unshare(fork: GlobalId): void {
    const known = this.forks.get(fork);
    if (known !== undefined) this.remove(known);
  }

  /** Entries that a dead worker was to create will never be. */
  creatorDied(member: MemberKey): void {
    for (const entry of [...this.entries.valuesOf(member)]) this.abandon(entry, CREATOR_DIED);
  }

  /** The fence for these deaths is complete: what the dead held is released. */
  releaseHeldBy(dead: ReadonlySet<MemberKey>): void {
    for (const fork of [...this.allForks()]) if (dead.has(fork.holder)) this.remove(fork);
  }

  /** Forgets everything, telling the shell of each entry. */
  clear(): void {
    const entries = [...this.entries.values()];
    this.entries.clear();
    this.forks.clear();
    this.doubles.clear();
    this.doubled = 0;
    this.perHolder.clear();
    this.mentioner.clear();
    this.awaited.clear();
    for (const entry of entries) this.port.freed(entry);
  }

  snapshot(): OwnerState<V> {
    return {
      entries: [...this.entries.values()].map(({ member, local, phase, payload }) => ({
        id: { member, local },
        phase,
        payload,
      })),
      forks: [...this.allForks()].map(({ member, local, entry, holder }) => ({
        id: { member, local },
        rref: { member: entry.member, local: entry.local },
        holder,
      })),
      tombstones: this.tombstones.snapshot(),
    };
  }

  /** Fills an empty table. */
  restore(state: OwnerState<V>): void {
    for (const { id, phase, payload } of state.entries) {
      const entry = new OwnerEntry(id, phase, payload);
      this.entries.set(id, entry);
      if (phase === 'awaited') this.awaitedNow(entry, id.member);
    }
    for (const { id, rref, holder } of state.forks) {
      const entry = this.entries.get(rref);
      if (entry !== undefined) this.insert(entry, id, holder);
    }
    for (const fork of state.tombstones) this.tombstones.add(fork, fork.holder, true);
  }

  /** Why a fork cannot be registered: it was deleted before it came, its holder is dead, or the holder has too many. */
  private refusal(fork: GlobalId, holder: MemberKey): Failure | undefined {
    if (this.rules.tombstones) {
      if (this.tombstones.has(fork, holder)) return { code: 'rref-released', text: 'this handle was deleted' };
      if (this.dead.has(holder))
        return { code: 'fenced', text: 'the holder of this handle was removed from the group' };
    }
    if ((this.perHolder.get(holder) ?? 0) < this.maxForksPerHolder) return undefined;
    return {
      code: 'resource-exhausted',
      text: `one worker may hold ${this.maxForksPerHolder} live RRef handles of another: dispose() those it needs no more, or raise limits.maxLiveForks of the owner`,
    };
  }

  private insert(entry: OwnerEntry<V>, fork: GlobalId, holder: MemberKey): void {
    const made = new OwnerFork(fork, entry, holder);
    if (!this.forks.has(fork)) this.forks.set(fork, made);
    else this.insertDouble(made);
    entry.forks++;
    this.perHolder.set(holder, (this.perHolder.get(holder) ?? 0) + 1);
  }

  /** What `holder` has under this id. */
  private find(fork: GlobalId, holder: MemberKey): OwnerFork<V> | undefined {
    const known = this.forks.get(fork);
    if (known === undefined || known.holder === holder || this.doubled === 0)
      return known?.holder === holder ? known : undefined;
    return this.doubles.get(fork)?.find((other) => other.holder === holder);
  }

  private insertDouble(fork: OwnerFork<V>): void {
    const others = this.doubles.get(fork);
    if (others === undefined) this.doubles.set(fork, [fork]);
    else others.push(fork);
    this.doubled++;
  }

  /** Takes it out of the maps; the next that has the same id stands in its place. */
  private take(fork: OwnerFork<V>): void {
    const others = this.doubled === 0 ? undefined : this.doubles.get(fork);
    if (others === undefined) {
      this.forks.delete(fork);
      return;
    }
    if (this.forks.get(fork) === fork) this.forks.set(fork, others.shift() as OwnerFork<V>);
    else others.splice(others.indexOf(fork), 1);
    if (others.length === 0) this.doubles.delete(fork);
    this.doubled--;
  }

  private remove(fork: OwnerFork<V>): void {
    this.take(fork);
    if (this.rules.tombstones && fork.holder !== this.self) this.tombstones.add(fork, fork.holder, true);
    const rest = (this.perHolder.get(fork.holder) ?? 1) - 1;
    if (rest === 0) this.perHolder.delete(fork.holder);
    else this.perHolder.set(fork.holder, rest);
    fork.entry.forks--;
    this.freeIfUnheld(fork.entry);
  }

  private awaitedNow(entry: OwnerEntry<V>, by: MemberKey): number {
    const count = (this.awaited.get(by) ?? 0) + 1;
    this.awaited.set(by, count);
    this.mentioner.set(entry, by);
    return count;
  }

  private awaitedNoMore(entry: OwnerEntry<V>): void {
    const by = this.mentioner.get(entry) ?? entry.member;
    this.mentioner.delete(entry);
    const rest = (this.awaited.get(by) ?? 1) - 1;
    if (rest === 0) this.awaited.delete(by);
    else this.awaited.set(by, rest);
  }

  /** Nobody has mentioned it before its creation came. */
  private created(rref: GlobalId, creator: MemberKey): OwnerEntry<V> {
    if (this.dead.has(creator)) return this.obtain(rref, creator);
    const entry = new OwnerEntry<V>(rref, 'created', undefined);
    this.entries.set(rref, entry);
    return entry;
  }

  private obtain(rref: GlobalId, by: MemberKey): OwnerEntry<V> {
    const known = this.entries.get(rref);
    if (known !== undefined) return known;
    const entry = new OwnerEntry<V>(rref, 'awaited', undefined);
    this.entries.set(rref, entry);
    const count = this.awaitedNow(entry, by);
    if (rref.member === this.self) this.fail(entry, RELEASED);
    else if (this.dead.has(rref.member)) this.fail(entry, CREATOR_DIED);
    else if (count > this.maxAwaited) this.fail(entry, tooManyAwaited(this.maxAwaited));
    return entry;
  }

  /** Fails an entry whose creation has not started. */
  private abandon(rref: GlobalId, failure: Failure): void {
    const entry = this.entries.get(rref);
    if (entry?.phase !== 'awaited' && entry?.phase !== 'created') return;
    this.fail(entry, failure);
    this.freeIfUnheld(entry);
  }

  private fail(entry: OwnerEntry<V>, failure: Failure): void {
    if (entry.phase === 'awaited') this.awaitedNoMore(entry);
    entry.phase = 'settled';
    this.port.failed(entry, failure);
  }

  private freeIfUnheld(entry: OwnerEntry<V>): void {
    if (entry.forks > 0 || entry.phase === 'awaited' || this.entries.get(entry) !== entry) return;
    this.entries.delete(entry);
    this.port.freed(entry);
  }
}

function tooManyAwaited(limit: number): Failure {
  const text = `more than ${limit} RRefs are mentioned whose creation has not arrived: await confirmed() of some before more are handed on`;
  return { code: 'resource-exhausted', text };
}
