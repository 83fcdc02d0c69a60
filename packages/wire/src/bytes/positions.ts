/** @file Where an object stands in a list that grows: a scan while the list is short, a map when it is long. */

/** Up to this length a scan beats a map. */
const SCAN = 16;

/** Follows one list; the list must only grow while it is followed. */
export class Positions<T extends object> {
  private map: Map<T, number> | undefined;
  private mapped = 0;

  /** The index of `item` in `list`, or -1. */
  of(list: readonly T[], item: T): number {
    if (list.length <= SCAN) return list.lastIndexOf(item);
    this.map ??= new Map();
    for (; this.mapped < list.length; this.mapped++) {
      const known = list[this.mapped] as T;
      if (!this.map.has(known)) this.map.set(known, this.mapped);
    }
    return this.map.get(item) ?? -1;
  }

  /** Forgets the list. */
  reset(): void {
    if (this.mapped === 0) return;
    this.map = undefined;
    this.mapped = 0;
  }
}
