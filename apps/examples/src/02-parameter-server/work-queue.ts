/** @file Work for workers that come and go: what a worker had when it went is given to another. */

/** Items are handed out in order; `Item`s that come back go first. */
export class WorkQueue<Item> {
  private readonly open: Item[] = [];
  private readonly idle = new Map<string, (item: Item | undefined) => void>();
  private readonly busy = new Map<string, Item>();
  private waiter: (() => void) | undefined;
  private closed = false;

  /** Adds items and resolves when all of them are done. One wave at a time. */
  async wave(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return;
    this.open.push(...items);
    await new Promise<void>((done) => {
      this.waiter = done;
      this.hand();
    });
  }

  /** The next item for `worker`, when there is one; undefined when there will be none. The item taken before counts as done. */
  take(worker: string): Promise<Item | undefined> {
    if (this.busy.delete(worker)) this.settle();
    if (this.closed) return Promise.resolve(undefined);
    return new Promise((give) => {
      this.idle.set(worker, give);
      this.hand();
    });
  }

  /** `worker` is gone: it gets nothing more, and what it had is open again. */
  leave(worker: string): void {
    this.idle.get(worker)?.(undefined);
    this.idle.delete(worker);
    const item = this.busy.get(worker);
    if (item === undefined) return;
    this.busy.delete(worker);
    this.open.unshift(item);
    this.hand();
  }

  /** There will be no more work. */
  close(): void {
    this.closed = true;
    for (const give of this.idle.values()) give(undefined);
    this.idle.clear();
  }

  private hand(): void {
    for (const [worker, give] of this.idle) {
      const item = this.open.shift();
      if (item === undefined) return;
      this.idle.delete(worker);
      this.busy.set(worker, item);
      give(item);
    }
  }

  private settle(): void {
    if (this.open.length > 0 || this.busy.size > 0) return;
    this.waiter?.();
    this.waiter = undefined;
  }
}
