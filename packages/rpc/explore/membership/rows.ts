/** @file What the row of a world says: who is on, who reaches whom, what each could find out, and how it has ended. */
import type { Bounds } from './bounds.ts';
import type { Facts, Locals, StoreFacts } from './locals.ts';
import type { Life } from '../../src/protocol/membership.ts';
import type { Opinion } from '../../src/protocol/opinions.ts';

/** What can happen from outside, once each. */
const EVENTS = ['death', 'stall', 'wakes', 'cut', 'mended', 'store goes', 'store returns'] as const;
export type Event = (typeof EVENTS)[number];
export const BIT = Object.fromEntries(EVENTS.map((event, i) => [event, 1 << i])) as Readonly<Record<Event, number>>;

/**
 * A row has a number for the state of each worker, one for what is under way from each to each other, one for the store, and a bit for each
 * thing that has happened.
 */
export class Rows {
  readonly bounds: Bounds;
  readonly size: number;
  readonly width: number;
  readonly storeAt: number;
  readonly eventsAt: number;
  private readonly locals: Locals;
  private readonly lives: readonly Life[];
  /** By rank: the ranks that it does not reach while the cut lasts; the store is the rank after the last. */
  private readonly cut: readonly number[];

  constructor(bounds: Bounds, locals: Locals, lives: readonly Life[]) {
    const { size } = bounds;
    this.bounds = bounds;
    this.size = size;
    this.storeAt = size * size;
    this.eventsAt = this.storeAt + 1;
    this.width = this.eventsAt + 1;
    this.locals = locals;
    this.lives = lives;
    this.cut = lives.map((_, rank) =>
      (bounds.cut ?? []).reduce((mask, pair) => {
        const [other] = pair.includes(rank) ? pair.filter((end) => end !== rank) : [];
        return other === undefined ? mask : mask | (1 << (other === 'store' ? size : other));
      }, 0),
    );
  }

  /** Where in a row is what one has sent to another. */
  wire(from: number, to: number): number {
    return this.size + from * (this.size - 1) + (to < from ? to : to - 1);
  }

  /**
   * Whether what one has sent to another may still be read: a member that is none any more does not become one again, and some cuts are not
   * mended.
   */
  isRead(row: Uint32Array, from: number, to: number): boolean {
    const isMember = (this.facts(row, to).members & (1 << from)) !== 0;
    return isMember && (this.bounds.mended !== false || this.reaches(row, to, from));
  }

  facts(row: Uint32Array, rank: number): Facts {
    return this.locals.facts[row[rank] as number] as Facts;
  }

  store(row: Uint32Array): StoreFacts {
    return this.locals.stores[row[this.storeAt] as number] as StoreFacts;
  }

  lifeOf(rank: number): Life {
    return this.lives[rank] as Life;
  }

  storeRuns(row: Uint32Array): boolean {
    return !this.has(row, 'store goes') || this.has(row, 'store returns');
  }

  isCut(row: Uint32Array): boolean {
    return this.has(row, 'cut') && !this.has(row, 'mended');
  }

  /** Whether one reaches another, or the store, which is the rank after the last. */
  reaches(row: Uint32Array, a: number, b: number): boolean {
    return !this.isCut(row) || ((this.cut[a] as number) & (1 << b)) === 0;
  }

  has(row: Uint32Array, event: Event): boolean {
    return ((row[this.eventsAt] as number) & BIT[event]) !== 0;
  }

  answers(row: Uint32Array, rank: number): boolean {
    return this.storeRuns(row) && this.reaches(row, rank, this.size);
  }

  claims(row: Uint32Array, rank: number): boolean {
    return (this.store(row).claimants & (1 << rank)) !== 0;
  }

  isRefused(row: Uint32Array, a: number, b: number): boolean {
    const { isOn, members } = this.facts(row, b);
    return isOn && this.reaches(row, a, b) && (members & (1 << a)) !== 0;
  }

  /** Whether a worker would learn something from the store: that it is away or back, or its view. */
  storeNews(row: Uint32Array, rank: number, { isStoreUp, certain, leaseless, epoch }: Facts): boolean {
    const answers = this.answers(row, rank);
    if (answers !== isStoreUp) return true;
    if (!answers) return false;
    const store = this.store(row);
    // Whoever is certain that a member is gone tries to put it out until it is: the store may have been away at the first try.
    return (certain & store.members) !== 0 || store.isEmpty || leaseless || store.epoch > epoch;
  }

  /** What a worker can find out about another. */
  truth(row: Uint32Array, a: number, b: number): Opinion {
    const [by, of] = [this.facts(row, a), this.facts(row, b)];
    const reached = this.reaches(row, a, b);
    const asksStore = this.answers(row, a) && by.isStoreUp && !this.store(row).isEmpty;
    if (asksStore && (!of.alive || (of.leaseless && !reached))) return 'gone';
    if (!reached) return 'doubted';
    if (of.alive) return of.stalled ? 'stuck' : 'heard';
    // What was found out once is known, also after the store went away.
    if (by.opinions[b] === 'gone') return 'gone';
    const how = this.bounds.death?.how;
    return how === 'proved' ? 'gone' : how === 'refused' ? 'refused' : 'doubted';
  }

  /** Whether time has to pass until somebody does more. */
  isWaiting(row: Uint32Array): boolean {
    for (let rank = 0; rank < this.size; rank++) {
      const { isOn, leaseless, timeless } = this.facts(row, rank);
      if (!isOn) continue;
      if (!timeless || (!leaseless && this.storeRuns(row) && !this.reaches(row, rank, this.size))) return true;
    }
    return false;
  }

  /** The ranks that have ended by themselves or were put out. */
  ended(row: Uint32Array): number[] {
    const ranks = this.lives.map((_, rank) => rank);
    return ranks.filter((rank) => ['fenced', 'stop'].includes(this.facts(row, rank).end ?? ''));
  }

  /** How everybody ended, whom they count as members and as gone, and what the store has. */
  verdict(row: Uint32Array): string {
    const workers = this.lives.map((_, rank) => {
      const { end, members, unwritten } = this.facts(row, rank);
      return end ?? `${members}-${unwritten}`;
    });
    const { isEmpty, members } = this.store(row);
    return [...workers, isEmpty ? 'nothing' : members].join(' ');
  }
}
