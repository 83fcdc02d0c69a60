/** @file Reads of a store by many at once: those of one key, or of one prefix, that wait are one. */

/**
 * While a read of a key is on its way, all others of it become one, which is sent when that is answered: it was asked
 * after each of them, so its answer is none too old for any. Many agents of a process ask for the same large view at once.
 */
export class KeyReads<T = Uint8Array | undefined> {
  private readonly once: (key: string) => Promise<T>;
  private readonly copy: (value: T) => T;
  /** By key: whose answer is on its way, and those who asked since. */
  private readonly going = new Map<string, { next: Promise<T> | undefined; now: Promise<T> }>();

  /** Each who asks has an answer of its own, to do with as it likes: `copy` makes it. */
  constructor(once: (key: string) => Promise<T>, copy: (value: T) => T) {
    this.once = once;
    this.copy = copy;
  }

  read(key: string): Promise<T> {
    const going = this.going.get(key);
    if (going === undefined) return this.begin(key);
    const { now } = going;
    const after = (): Promise<T> => this.begin(key);
    going.next ??= now.then(after, after);
    return going.next.then(this.copy);
  }

  private begin(key: string): Promise<T> {
    const now = this.once(key);
    const going = { now, next: undefined };
    this.going.set(key, going);
    const over = (): void => void (this.going.get(key) === going && going.next === undefined && this.going.delete(key));
    now.then(over, over);
    return now;
  }
}

/** Reads of single keys. */
export function keyReads(once: (key: string) => Promise<Uint8Array | undefined>): KeyReads {
  return new KeyReads(once, (value) => value?.slice());
}

type Listed = Map<string, Uint8Array>;

/** Reads of all keys with a prefix. */
export function keyLists(once: (prefix: string) => Promise<Listed>): KeyReads<Listed> {
  return new KeyReads(once, (found) => new Map([...found].map(([key, value]) => [key, value.slice()])));
}
