/** @file Reads of keys of a store by many at once: those of one key that wait are one. */

type Value = Uint8Array | undefined;

/**
 * While a read of a key is on its way, all others of it become one, which is sent when that is answered: it was asked
 * after each of them, so its answer is none too old for any. Many agents of a process ask for the same large view at once.
 */
export class KeyReads {
  private readonly once: (key: string) => Promise<Value>;
  /** By key: whose answer is on its way, and those who asked since. */
  private readonly going = new Map<string, { next: Promise<Value> | undefined; now: Promise<Value> }>();

  constructor(once: (key: string) => Promise<Value>) {
    this.once = once;
  }

  read(key: string): Promise<Value> {
    const going = this.going.get(key);
    if (going === undefined) return this.begin(key);
    const { now } = going;
    const after = (): Promise<Value> => this.begin(key);
    going.next ??= now.then(after, after);
    // Each has bytes of its own, to do with as it likes.
    return going.next.then((value) => value?.slice());
  }

  private begin(key: string): Promise<Value> {
    const now = this.once(key);
    const going = { now, next: undefined };
    this.going.set(key, going);
    const over = (): void => void (this.going.get(key) === going && going.next === undefined && this.going.delete(key));
    now.then(over, over);
    return now;
  }
}
