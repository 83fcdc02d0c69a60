/** @file The seats of replicas in their groups: which of them each is, and whom its failures are told to. */
import { inExchange, type ReplicaSeat, type Room, type Told } from './exchange.ts';

/** By which a group gives seats: a property, so that a wrapper which inherits from a group gives them, too. */
export const takeSeat: unique symbol = Symbol.for('backwire.takeSeat');

export interface SeatingGroup {
  readonly rank: number;
  readonly size: number;
  readonly [takeSeat]?: () => ReplicaSeat;
}

/** Enough to keep a line full; little beside what may wait for a worker. */
export const MOST_ROOM: Room = Object.freeze({ bytes: 64 * 2 ** 20, buckets: 64 });

/** The replicas over one group of the program's: how many there are, and what is known of the group behind it. */
interface Behind {
  count: number;
  seatAt: SeatAt | undefined;
  /** Those with something to tell, or to hear, when it is known. */
  readonly waiting: Set<LooseSeat>;
}

type SeatAt = (number: number) => ReplicaSeat;

const groups = new WeakMap<object, Behind>();

/**
 * A seat in a group. A class of the program's gives none; the group behind it does when it is asked for anything by the class: for its
 * size here, if the class keeps no copy of that.
 */
export function seatIn(group: SeatingGroup): ReplicaSeat {
  const given = group[takeSeat]?.();
  if (given !== undefined) return given;
  const behind = groups.get(group) ?? { count: 0, seatAt: undefined, waiting: new Set() };
  groups.set(group, behind);
  const seat = new LooseSeat(++behind.count, group, behind);
  const { signal } = new AbortController();
  inExchange({ seat, tags: {}, bucket: undefined, signal, goesOn: () => true }, () => group.size);
  return seat;
}

/** The seat of a replica whose group gives none, counted by that: nobody else hears of it before the group behind is known. */
export class LooseSeat implements ReplicaSeat {
  readonly number: number;
  private readonly rank: number;
  private readonly size: number;
  private readonly behind: Behind;
  private known: ReplicaSeat | undefined;
  private told: Told | undefined;
  private unwatch: (() => void) | undefined;
  /** What nobody could be told yet. */
  private failed: { readonly cause: unknown; readonly after: number } | undefined;

  constructor(number: number, { rank, size }: SeatingGroup, behind: Behind) {
    this.number = number;
    this.rank = rank;
    this.size = size;
    this.behind = behind;
  }

  /** A group is asked for an exchange of this replica: the first of its size is the one behind its own, and behind that of the others over it. */
  asked(rank: number, size: number, seatAt: SeatAt): void {
    const { behind } = this;
    if (behind.seatAt !== undefined || this.size !== size || this.rank !== rank) return;
    behind.seatAt = seatAt;
    for (const seat of behind.waiting) seat.sit();
    behind.waiting.clear();
  }

  get line(): string | undefined {
    return this.seat?.line;
  }

  get workers(): readonly string[] | undefined {
    return this.seat?.workers;
  }

  room(): Room | Promise<Room> {
    return this.seat?.room() ?? MOST_ROOM;
  }

  fail(cause: unknown, after: number): void {
    const { seat, behind } = this;
    if (seat !== undefined) {
      seat.fail(cause, after);
      return;
    }
    this.failed ??= { cause, after };
    behind.waiting.add(this);
  }

  watch(told: Told): () => void {
    const { seat, behind } = this;
    this.told = told;
    if (seat === undefined) behind.waiting.add(this);
    else this.unwatch = seat.watch(told);
    return () => {
      this.unwatch?.();
      this.told = this.unwatch = undefined;
      if (this.failed === undefined) behind.waiting.delete(this);
    };
  }

  private get seat(): ReplicaSeat | undefined {
    return (this.known ??= this.behind.seatAt?.(this.number));
  }

  private sit(): void {
    if (this.told !== undefined) this.unwatch = this.seat?.watch(this.told);
    if (this.failed !== undefined) this.seat?.fail(this.failed.cause, this.failed.after);
  }
}
