/** @file Who and what: members, which are workers in one of their lives, the ids they draw, and a map keyed by such ids. */

/**
 * A member, a worker in one of its lives, as one number: `incarnation * 65536 + worker`. A restarted worker is another member, so nothing of its
 * former life is ever taken for something of the present one.
 */
export type MemberKey = number & { readonly __memberKey?: true };

/** An id drawn by one member; RRefs and forks share one counter, as in PyTorch. */
export interface GlobalId {
  readonly member: MemberKey;
  /** 0, 1, 2 …; below 2^53. */
  readonly local: number;
}

/** The highest id of a worker. */
export const MAX_WORKER = 0x7fff;
const WORKERS = 0x1_0000;
const MAX_INCARNATION = 0xffff_ffff;

/** The key of a worker (u16) in the life `incarnation` (u32). */
export function memberKey(worker: number, incarnation: number): MemberKey {
  if (!(Number.isInteger(worker) && worker >= 0 && worker < WORKERS))
    throw new RangeError(`worker id ${worker} is not a u16`);
  if (!(Number.isInteger(incarnation) && incarnation >= 0 && incarnation <= MAX_INCARNATION)) {
    throw new RangeError(`incarnation ${incarnation} is not a u32`);
  }
  return incarnation * WORKERS + worker;
}

export function workerOf(member: MemberKey): number {
  return member % WORKERS;
}

export function incarnationOf(member: MemberKey): number {
  return Math.floor(member / WORKERS);
}

/** PyTorch's string form. */
export function formatId(id: GlobalId): string {
  return `GloballyUniqueId(created_on=${workerOf(id.member)}, local_id=${id.local})`;
}

/** Draws the ids of one member. */
export class IdSource {
  readonly member: MemberKey;
  private drawn: number;

  constructor(member: MemberKey, drawn = 0) {
    this.member = member;
    this.drawn = drawn;
  }

  next(): GlobalId {
    return { member: this.member, local: this.drawn++ };
  }

  /** How many ids were drawn; with it the source can be made again. */
  get count(): number {
    return this.drawn;
  }
}

/** A map keyed by ids: one inner map keyed by small numbers per member, which costs far less than string or bigint keys. */
export class IdMap<T> {
  private readonly members = new Map<MemberKey, Map<number, T>>();
  private total = 0;

  get size(): number {
    return this.total;
  }

  get(id: GlobalId): T | undefined {
    return this.members.get(id.member)?.get(id.local);
  }

  has(id: GlobalId): boolean {
    return this.members.get(id.member)?.has(id.local) ?? false;
  }

  set(id: GlobalId, value: T): void {
    let inner = this.members.get(id.member);
    if (inner === undefined) {
      inner = new Map();
      this.members.set(id.member, inner);
    }
    const before = inner.size;
    inner.set(id.local, value);
    this.total += inner.size - before;
  }

  delete(id: GlobalId): boolean {
    const inner = this.members.get(id.member);
    if (inner === undefined || !inner.delete(id.local)) return false;
    if (inner.size === 0) this.members.delete(id.member);
    this.total--;
    return true;
  }

  *values(): IterableIterator<T> {
    for (const inner of this.members.values()) yield* inner.values();
  }

  /** The values whose id was drawn by `member`. */
  *valuesOf(member: MemberKey): IterableIterator<T> {
    const inner = this.members.get(member);
    if (inner !== undefined) yield* inner.values();
  }

  clear(): void {
    this.members.clear();
    this.total = 0;
  }
}

/** The worker in its latest life known to be dead: a compact set of dead members. */
export class DeadMembers {
  private readonly highest: Map<number, number>;

  constructor(entries: Iterable<readonly [number, number]> = []) {
    this.highest = new Map(entries);
  }

  /** Whether `member` is dead: that life of the worker, or a later one, was removed from the group. */
  has(member: MemberKey): boolean {
    const highest = this.highest.get(workerOf(member));
    return highest !== undefined && incarnationOf(member) <= highest;
  }

  /** Returns whether this is news. */
  add(member: MemberKey): boolean {
    if (this.has(member)) return false;
    this.highest.set(workerOf(member), incarnationOf(member));
    return true;
  }

  /** Worker and incarnation, ordered by worker. */
  entries(): [number, number][] {
    return [...this.highest].sort((a, b) => a[0] - b[0]);
  }
}
