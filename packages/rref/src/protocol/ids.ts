/** @file Who and what: workers in one of their lives (sites), the ids they draw, and a map keyed by such ids. */

/**
 * A worker in one of its lives, as one number: `incarnation * 65536 + worker`. A restarted worker is another site, so nothing of its
 * former life is ever taken for something of the present one.
 */
export type Site = number & { readonly __site?: true };

/** An id drawn by one site; RRefs and forks share one counter, as in PyTorch. */
export interface GlobalId {
  readonly site: Site;
  /** 0, 1, 2 …; below 2^53. */
  readonly local: number;
}

const WORKERS = 0x1_0000;
const MAX_INCARNATION = 0xffff_ffff;

/** The site of a worker (u16) in the life `incarnation` (u32). */
export function siteOf(worker: number, incarnation: number): Site {
  if (!(Number.isInteger(worker) && worker >= 0 && worker < WORKERS))
    throw new RangeError(`worker id ${worker} is not a u16`);
  if (!(Number.isInteger(incarnation) && incarnation >= 0 && incarnation <= MAX_INCARNATION)) {
    throw new RangeError(`incarnation ${incarnation} is not a u32`);
  }
  return incarnation * WORKERS + worker;
}

export function workerOf(site: Site): number {
  return site % WORKERS;
}

export function incarnationOf(site: Site): number {
  return Math.floor(site / WORKERS);
}

export function sameId(a: GlobalId, b: GlobalId): boolean {
  return a.local === b.local && a.site === b.site;
}

/** PyTorch's string form. */
export function formatId(id: GlobalId): string {
  return `GloballyUniqueId(created_on=${workerOf(id.site)}, local_id=${id.local})`;
}

/** Draws the ids of one site. */
export class IdSource {
  readonly site: Site;
  private drawn: number;

  constructor(site: Site, drawn = 0) {
    this.site = site;
    this.drawn = drawn;
  }

  next(): GlobalId {
    return { site: this.site, local: this.drawn++ };
  }

  /** How many ids were drawn; with it the source can be made again. */
  get count(): number {
    return this.drawn;
  }
}

/** A map keyed by ids: one inner map keyed by small numbers per site, which costs far less than string or bigint keys. */
export class IdMap<T> {
  private readonly sites = new Map<Site, Map<number, T>>();
  private total = 0;

  get size(): number {
    return this.total;
  }

  get(id: GlobalId): T | undefined {
    return this.sites.get(id.site)?.get(id.local);
  }

  has(id: GlobalId): boolean {
    return this.sites.get(id.site)?.has(id.local) ?? false;
  }

  set(id: GlobalId, value: T): void {
    let inner = this.sites.get(id.site);
    if (inner === undefined) {
      inner = new Map();
      this.sites.set(id.site, inner);
    }
    const before = inner.size;
    inner.set(id.local, value);
    this.total += inner.size - before;
  }

  delete(id: GlobalId): boolean {
    const inner = this.sites.get(id.site);
    if (inner === undefined || !inner.delete(id.local)) return false;
    if (inner.size === 0) this.sites.delete(id.site);
    this.total--;
    return true;
  }

  *values(): IterableIterator<T> {
    for (const inner of this.sites.values()) yield* inner.values();
  }

  /** The values whose id was drawn by `site`. */
  *valuesOf(site: Site): IterableIterator<T> {
    const inner = this.sites.get(site);
    if (inner !== undefined) yield* inner.values();
  }

  clear(): void {
    this.sites.clear();
    this.total = 0;
  }
}

/** The worker in its latest life known to be dead: a compact set of dead sites. */
export class DeadSites {
  private readonly highest: Map<number, number>;

  constructor(entries: Iterable<readonly [number, number]> = []) {
    this.highest = new Map(entries);
  }

  /** Whether `site` is dead: that life of the worker, or a later one, was removed from the group. */
  has(site: Site): boolean {
    const highest = this.highest.get(workerOf(site));
    return highest !== undefined && incarnationOf(site) <= highest;
  }

  /** Returns whether this is news. */
  add(site: Site): boolean {
    if (this.has(site)) return false;
    this.highest.set(workerOf(site), incarnationOf(site));
    return true;
  }

  /** Worker and incarnation, ordered by worker. */
  entries(): [number, number][] {
    return [...this.highest].sort((a, b) => a[0] - b[0]);
  }
}
