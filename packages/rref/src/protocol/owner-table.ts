/** @file The owner's side: which RRefs exist here, who holds a fork of each, and when the last one is gone. */
import { MAX_AWAITED, MAX_FORKS_PER_HOLDER } from '../limits.ts';
import { type DeadMembers, IdMap, type GlobalId, type MemberKey } from './ids.ts';
import type { Failure } from './messages.ts';
import { ALL_RULES, type Rules } from './rules.ts';
import { Tombstones } from './tombstones.ts';

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
  readonly tombstones: readonly GlobalId[];
}

/** What this worker made itself is in the table for as long as anybody else may mention it. */
const RELEASED: Failure = {
  code: 'rref-released',
  text: 'the owner has let go of this RRef: its last handle was released',
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
  private readonly perHolder = new Map<MemberKey, number>();
  private readonly tombstones = new Tombstones();
  private awaited = 0;
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
    return this.forks.size;
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

  allForks(): IterableIterator<OwnerFork<V>> {
    return this.forks.values();
  }

  /** A handle came home: the entry it means, made in wait for its creation if that has not arrived. The caller keeps the payload. */
  mention(rref: GlobalId): OwnerEntry<V> {
    const entry = this.obtain(rref);
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
    const entry = this.obtain(rref);
    if (entry.phase === 'awaited') {
      this.awaited--;
      entry.phase = 'created';
    }
    if (!this.forks.has(fork)) this.insert(entry, fork, creator);
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
    if (!this.forks.has(fork) && this.refusal(fork, creator) === undefined)
      this.insert(this.obtain(rref), fork, creator);
    this.abandon(rref, failure);
  }

  /** A user asks for its fork to be registered. Returns why it is refused, or nothing. */
  request(rref: GlobalId, fork: GlobalId, holder: MemberKey): Failure | undefined {
    if (this.forks.has(fork)) return undefined;
    const refusal = this.refusal(fork, holder);
    if (refusal === undefined) this.insert(this.obtain(rref), fork, holder);
    return refusal;
  }

  /** `holder` lets go of a fork. Deleting one that is not there yet leaves a tombstone, so that it never comes. */
  delete(fork: GlobalId, holder: MemberKey): void {
    const known = this.forks.get(fork);
    if (known === undefined) {
      if (this.rules.tombstones) this.tombstones.add(fork);
    } else if (known.holder === holder) {
      this.remove(known);
    }
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
    for (const fork of [...this.forks.values()]) if (dead.has(fork.holder)) this.remove(fork);
  }

  /** Forgets everything, telling the shell of each entry. */
  clear(): void {
    const entries = [...this.entries.values()];
    this.entries.clear();
    this.forks.clear();
    this.perHolder.clear();
    this.awaited = 0;
    for (const entry of entries) this.port.freed(entry);
  }

  snapshot(): OwnerState<V> {
    return {
      entries: [...this.entries.values()].map(({ member, local, phase, payload }) => ({
        id: { member, local },
        phase,
        payload,
      })),
      forks: [...this.forks.values()].map(({ member, local, entry, holder }) => ({
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
      this.entries.set(id, new OwnerEntry(id, phase, payload));
      if (phase === 'awaited') this.awaited++;
    }
    for (const { id, rref, holder } of state.forks) {
      const entry = this.entries.get(rref);
      if (entry !== undefined) this.insert(entry, id, holder);
    }
    for (const fork of state.tombstones) this.tombstones.add(fork);
  }

  /** Why a fork cannot be registered: it was deleted before it came, its holder is dead, or the holder has too many. */
  private refusal(fork: GlobalId, holder: MemberKey): Failure | undefined {
    if (this.rules.tombstones) {
      if (this.tombstones.has(fork)) return { code: 'rref-released', text: 'this handle was deleted' };
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
    this.forks.set(fork, new OwnerFork(fork, entry, holder));
    entry.forks++;
    this.perHolder.set(holder, (this.perHolder.get(holder) ?? 0) + 1);
  }

  private remove(fork: OwnerFork<V>): void {
    this.forks.delete(fork);
    if (this.rules.tombstones && fork.holder !== this.self)
      this.tombstones.add({ member: fork.member, local: fork.local });
    const rest = (this.perHolder.get(fork.holder) ?? 1) - 1;
    if (rest === 0) this.perHolder.delete(fork.holder);
    else this.perHolder.set(fork.holder, rest);
    fork.entry.forks--;
    this.freeIfUnheld(fork.entry);
  }

  private obtain(rref: GlobalId): OwnerEntry<V> {
    const known = this.entries.get(rref);
    if (known !== undefined) return known;
    const entry = new OwnerEntry<V>(rref, 'awaited', undefined);
    this.entries.set(rref, entry);
    this.awaited++;
    if (rref.member === this.self) this.fail(entry, RELEASED);
    else if (this.dead.has(rref.member)) this.fail(entry, CREATOR_DIED);
    else if (this.awaited > this.maxAwaited) this.fail(entry, tooManyAwaited(this.maxAwaited));
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
    if (entry.phase === 'awaited') this.awaited--;
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
