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

const replicasOver = new WeakMap<object, number>();

/**
 * A seat in a group. A class of the program's gives none; the group behind it does when it is asked for anything by the class: for its
 * size here, if the class keeps no copy of that.
 */
export function seatIn(group: SeatingGroup): ReplicaSeat {
  const given = group[takeSeat]?.();
  if (given !== undefined) return given;
  const number = (replicasOver.get(group) ?? 0) + 1;
  replicasOver.set(group, number);
  const seat = new LooseSeat(number, group);
  const { signal } = new AbortController();
  inExchange({ seat, tags: {}, bucket: undefined, signal, goesOn: () => true }, () => group.size);
  return seat;
}

/** The seat of a replica whose group gives none, counted by that: nobody else hears of it before the group behind is known. */
export class LooseSeat implements ReplicaSeat {
  readonly number: number;
  private readonly rank: number;
  private readonly size: number;
  private seat: ReplicaSeat | undefined;
  private told: Told | undefined;
  private unwatch: (() => void) | undefined;

  constructor(number: number, { rank, size }: SeatingGroup) {
    this.number = number;
    this.rank = rank;
    this.size = size;
  }

  /** A group is asked for an exchange of this replica: the first of its size is the one behind its own. */
  asked(rank: number, size: number, seatAt: (number: number) => ReplicaSeat): void {
    if (this.seat !== undefined || this.size !== size || this.rank !== rank) return;
    this.seat = seatAt(this.number);
    if (this.told !== undefined) this.unwatch = this.seat.watch(this.told);
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
    this.seat?.fail(cause, after);
  }

  watch(told: Told): () => void {
    this.told = told;
    this.unwatch = this.seat?.watch(told);
    return () => {
      this.unwatch?.();
      this.told = this.unwatch = undefined;
    };
  }
}
