/** @file The rows on which a viewer can draw what overlaps. */

/** The ends of what lies on one lane and is not over, outermost first. */
type Ends = number[];

/**
 * Rows on which intervals lie beside or inside each other, never across. Intervals come in order of their start; each takes the logarithm
 * of how many there are, however many lie across each other.
 */
export class Lanes {
  private readonly open: Ends[] = [];
  /** What ends next, first. */
  private readonly next = new EndHeap();
  private room = new MaxTree();

  get count(): number {
    return this.open.length;
  }

  /** The lane of an interval: the one that is wished if it fits there, else the first that it does. */
  place(start: number, end: number, wished: number): number {
    this.close(start);
    const lane = this.room.at(wished) >= end ? wished : this.room.firstFrom(end);
    if (lane < this.open.length) this.open[lane]?.push(end);
    else this.open.push([end]);
    this.room.set(lane, end);
    this.next.push({ end, lane });
    return lane;
  }

  /** Takes off what is over at `now`. */
  private close(now: number): void {
    for (let over = this.next.takeUntil(now); over !== undefined; over = this.next.takeUntil(now)) {
      const ends = this.open[over.lane] ?? [];
      while (ends.length > 0 && (ends.at(-1) ?? 0) <= now) ends.pop();
      this.room.set(over.lane, ends.at(-1) ?? Infinity);
    }
  }
}

/** By number, from 0 on, how late what comes may end; the first that allows for a time is found without looking at all. */
class MaxTree {
  /** A power of two. */
  private size = 1;
  /** Node 1 is the root; the children of node n are 2n and 2n + 1; the leaves begin at `size`. What is not there has -Infinity. */
  private nodes: number[] = [-Infinity, -Infinity];
  private count = 0;

  at(index: number): number {
    return index < this.count ? (this.nodes[this.size + index] ?? -Infinity) : -Infinity;
  }

  /** The first that is at least `least`; the next new one where none is. */
  firstFrom(least: number): number {
    if ((this.nodes[1] ?? -Infinity) < least) return this.count;
    let node = 1;
    while (node < this.size) node = (this.nodes[2 * node] ?? -Infinity) >= least ? 2 * node : 2 * node + 1;
    return node - this.size;
  }

  /** Of one that is there, or the next new one. */
  set(index: number, value: number): void {
    if (index >= this.size) this.grow();
    this.count = Math.max(this.count, index + 1);
    let node = this.size + index;
    this.nodes[node] = value;
    for (node >>= 1; node >= 1; node >>= 1)
      this.nodes[node] = Math.max(this.nodes[2 * node] ?? -Infinity, this.nodes[2 * node + 1] ?? -Infinity);
  }

  private grow(): void {
    const leaves = this.nodes.slice(this.size, this.size + this.count);
    this.size *= 2;
    this.nodes = new Array<number>(2 * this.size).fill(-Infinity);
    leaves.forEach((value, index) => this.set(index, value));
  }
}

interface LaneEnd {
  readonly end: number;
  readonly lane: number;
}

/** A binary heap. */
class EndHeap {
  private readonly all: LaneEnd[] = [];

  push(one: LaneEnd): void {
    const { all } = this;
    let at = all.push(one) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if ((all[above] as LaneEnd).end <= one.end) break;
      all[at] = all[above] as LaneEnd;
      at = above;
    }
    all[at] = one;
  }

  /** The first, if its end is not after `time`. */
  takeUntil(time: number): LaneEnd | undefined {
    const { all } = this;
    const [first] = all;
    if (first === undefined || first.end > time) return undefined;
    const last = all.pop() as LaneEnd;
    if (all.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= all.length) break;
      if (below + 1 < all.length && (all[below + 1] as LaneEnd).end < (all[below] as LaneEnd).end) below++;
      if ((all[below] as LaneEnd).end >= last.end) break;
      all[at] = all[below] as LaneEnd;
      at = below;
    }
    all[at] = last;
    return first;
  }
}
