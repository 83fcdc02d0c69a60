/** @file Calls with an idempotency key: which of them runs, which wait for it, and what is remembered of it. */

/** The bounds of what is remembered. */
export interface KeyedLimits {
  /** Keys that are known at once, those of running calls included. */
  readonly maxOutcomes: number;
  /** Bytes of the outcomes together; one more may go over. */
  readonly maxBytes: number;
  /** From the end of a call on. */
  readonly keepMs: number;
}

/** A caller may have so many times as many keys, and bytes of outcomes, as are free: an eighth is left to the others. */
const SHARE = 7;

/** What becomes of a call with a key. */
export type Turn<O> =
  /** It runs its handler, and says how that `ended`. */
  | { readonly kind: 'run' }
  /** Another runs. It waits for a notice, unless it has `left`. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'outcome'; readonly outcome: O }
  /** The key stands for other arguments, or there is no room for another key. */
  | { readonly kind: 'refused'; readonly why: 'other-arguments' | 'full' };

/** What one that waits is told. */
export interface Notice<W, O> {
  readonly to: W;
  readonly turn: Exclude<Turn<O>, { kind: 'wait' | 'refused' }>;
}

/** What a run has given, and how many bytes it takes to remember that. */
export interface Kept<O> {
  readonly outcome: O;
  readonly bytes: number;
}

interface Entry<W, O> {
  /** Of the arguments. */
  readonly digest: string;
  readonly caller: string | undefined;
  /** In the order they came. */
  waiting: W[];
  /** Undefined while a call runs. */
  kept: Kept<O> | undefined;
  /** When it may be forgotten. */
  until: number;
}

/**
 * A key remembers results, not attempts. States of a key: unknown → *running* (one call runs, others wait) → *kept* (for a time; then
 * unknown), or, when a run gave nothing, *running* again with the first that waits, or unknown when nobody does. So a key's
 * handler never runs twice at once, and no more often than it is called. A full table refuses new keys: forgetting one too early would run
 * its call twice.
 *
 * @typeParam W one that waits, with its own limit: `left` says that it does not any more.
 * @typeParam O what a run gave: a reply, or what the handler threw.
 */
export class KeyedCalls<W, O> {
  private readonly limits: KeyedLimits;
  private readonly entries = new Map<string, Entry<W, O>>();
  private keptBytes = 0;
  /** What each caller has of all that. */
  private readonly shares = new Map<string, { keys: number; bytes: number }>();
  /** Before this nothing can be forgotten: a full table is not searched for every call that it refuses. */
  private nextForget = 0;

  private readonly forgotten: (outcome: O) => void;

  /** `forgotten` is told of each outcome that is remembered no more, or came too late to be. */
  constructor(limits: KeyedLimits, forgotten: (outcome: O) => void = () => undefined) {
    this.limits = limits;
    this.forgotten = forgotten;
  }

  /** Keys that are known. */
  get size(): number {
    return this.entries.size;
  }

  /** Bytes of what is kept. */
  get bytes(): number {
    return this.keptBytes;
  }

  /** A call came with a key. `digest` is of its arguments; `caller` has no more than its share of the table. */
  arrive(key: string, digest: string, who: W, now: number, caller?: string): Turn<O> {
    const known = this.current(key, now);
    if (known !== undefined) {
      if (known.digest !== digest) return { kind: 'refused', why: 'other-arguments' };
      if (known.kept !== undefined) return { kind: 'outcome', outcome: known.kept.outcome };
      known.waiting.push(who);
      return { kind: 'wait' };
    }
    if (this.isFull(caller) && !this.forget(now, caller)) return { kind: 'refused', why: 'full' };
    this.share(caller, 1, 0);
    this.entries.set(key, { digest, caller, waiting: [], kept: undefined, until: Infinity });
    return { kind: 'run' };
  }

  /**
   * The call that runs under the key is over. Without a result (it was cancelled, or its time was up) nothing of it stays, and the
   * first that waits runs.
   */
  ended(key: string, result: Kept<O> | undefined, now: number): Notice<W, O>[] {
    const entry = this.entries.get(key);
    if (entry === undefined || entry.kept !== undefined) {
      if (result !== undefined) this.forgotten(result.outcome);
      return [];
    }
    const { waiting } = entry;
    if (result === undefined) {
      const next = waiting.shift();
      if (next !== undefined) return [{ to: next, turn: { kind: 'run' } }];
      this.drop(key, entry);
      return [];
    }
    entry.kept = result;
    entry.until = now + this.limits.keepMs;
    this.keptBytes += result.bytes;
    this.share(entry.caller, 0, result.bytes);
    entry.waiting = [];
    return waiting.map((to) => ({ to, turn: { kind: 'outcome', outcome: result.outcome } }));
  }

  /** One that waits does so no longer; harmless for any other. */
  left(key: string, who: W): void {
    const waiting = this.entries.get(key)?.waiting;
    const at = waiting?.indexOf(who) ?? -1;
    if (at >= 0) waiting?.splice(at, 1);
  }

  /** Forgets everything; those that wait are told by whoever calls this. */
  clear(): W[] {
    const all = [...this.entries.values()];
    const waiting = all.flatMap((entry) => entry.waiting);
    for (const { kept } of all) if (kept !== undefined) this.forgotten(kept.outcome);
    this.entries.clear();
    this.shares.clear();
    this.keptBytes = 0;
    return waiting;
  }

  /** What is known of a key, unless it is too old. */
  private current(key: string, now: number): Entry<W, O> | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined || now < entry.until) return entry;
    this.drop(key, entry);
    return undefined;
  }

  private isFull(caller: string | undefined): boolean {
    const free = this.limits.maxOutcomes - this.entries.size;
    const freeBytes = this.limits.maxBytes - this.keptBytes;
    const { keys, bytes } = this.shares.get(caller ?? '') ?? { keys: 0, bytes: 0 };
    return free <= 0 || freeBytes <= 0 || keys >= SHARE * free || bytes >= SHARE * freeBytes;
  }

  private share(caller: string | undefined, keys: number, bytes: number): void {
    if (caller === undefined) return;
    const share = this.shares.get(caller) ?? { keys: 0, bytes: 0 };
    share.keys += keys;
    share.bytes += bytes;
    if (share.keys === 0) this.shares.delete(caller);
    else this.shares.set(caller, share);
  }

  private drop(key: string, entry: Entry<W, O>): void {
    this.entries.delete(key);
    const bytes = entry.kept?.bytes ?? 0;
    this.keptBytes -= bytes;
    this.share(entry.caller, -1, -bytes);
    if (entry.kept !== undefined) this.forgotten(entry.kept.outcome);
  }

  /** Drops what is too old; false when it is full all the same. */
  private forget(now: number, caller: string | undefined): boolean {
    if (now < this.nextForget) return false;
    // Those that run now are kept for the whole time from their end on.
    let next = now + this.limits.keepMs;
    for (const [key, entry] of this.entries) {
      if (entry.until <= now) this.drop(key, entry);
      else if (entry.until < next) next = entry.until;
    }
    this.nextForget = next;
    return !this.isFull(caller);
  }
}
