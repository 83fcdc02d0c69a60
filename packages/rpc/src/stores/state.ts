/** @file The contents of a store: entries, counters, queues, waits, watches and leases. Synchronous, with the time passed in. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { equalBytes } from '../base/platform.ts';
import { addTo, checkTtl } from './checks.ts';
import {
  ENTRY_OVERHEAD_BYTES,
  MAX_KEY_BYTES,
  MAX_LEASES,
  MAX_STORE_BYTES,
  MAX_STORE_KEYS,
  MAX_VALUE_BYTES,
} from './limits.ts';

/** A queue costs what an entry without a value does, beside its items. */
const NOTHING = new Uint8Array(0);

/** Everything in a store but queues, waits and watches. */
export interface StoreDump {
  readonly nextLease: number;
  readonly leases: readonly { readonly id: number; readonly ttlMs: number }[];
  readonly entries: readonly { readonly key: string; readonly value: Uint8Array; readonly lease: number | undefined }[];
}

/** A change of one key; `value` is undefined for a deletion. */
export type Change = (key: string, value: Uint8Array | undefined) => void;

interface Entry {
  value: Uint8Array;
  lease: number | undefined;
}

interface LeaseRecord {
  readonly ttlMs: number;
  deadline: number;
  readonly keys: Set<string>;
}

interface Waiter {
  readonly missing: Set<string>;
  readonly done: () => void;
}

/**
 * What the in-process store and the embedded server share. Values are kept, not copied: callers hand over arrays they do not change
 * and change none they are handed. Listeners are called in the middle of a change and must not call back.
 */
export class StoreState {
  private readonly entries = new Map<string, Entry>();
  private readonly queues = new Map<string, Uint8Array[]>();
  private readonly leases = new Map<number, LeaseRecord>();
  private readonly waiters = new Map<string, Set<Waiter>>();
  /** By the length of what keys begin with, then by that: a change looks for its watchers, not at all of them. */
  private readonly watchers = new Map<number, Map<string, Set<{ readonly change: Change }>>>();
  private nextLease = 1;
  private bytes = 0;

  get size(): number {
    return this.entries.size;
  }

  get(key: string): Uint8Array | undefined {
    return this.entries.get(key)?.value;
  }

  has(key: string): boolean {
    return this.entries.has(key) || this.queues.has(key);
  }

  /** @throws RpcError 'failed-precondition' for a lease that is gone, 'resource-exhausted', 'invalid-argument'. */
  set(key: string, value: Uint8Array, lease?: number): void {
    this.check(key, value, lease);
    this.put(key, value, lease);
  }

  /** The sum, as a signed 64-bit number. A key with a lease keeps it. @throws RpcError 'failed-precondition' when the value or the sum is none. */
  add(key: string, delta: bigint): bigint {
    const entry = this.entries.get(key);
    const sum = addTo(key, entry?.value, delta);
    const value = new TextEncoder().encode(sum.toString());
    this.check(key, value, undefined);
    this.put(key, value, entry?.lease);
    return sum;
  }

  append(key: string, more: Uint8Array): void {
    const entry = this.entries.get(key);
    const value = new Uint8Array((entry?.value.byteLength ?? 0) + more.byteLength);
    if (entry !== undefined) value.set(entry.value);
    value.set(more, entry?.value.byteLength ?? 0);
    this.check(key, value, undefined);
    this.put(key, value, entry?.lease);
  }

  /** `expected` null = the key must not exist. */
  compareAndSet(
    key: string,
    expected: Uint8Array | null,
    value: Uint8Array,
    lease?: number,
  ): { ok: boolean; current: Uint8Array | undefined } {
    const current = this.entries.get(key)?.value;
    const same = expected === null ? current === undefined : current !== undefined && equalBytes(current, expected);
    if (!same) return { ok: false, current };
    this.check(key, value, lease);
    this.put(key, value, lease);
    return { ok: true, current: value };
  }

  /** Not a queue: torch's server leaves those alone as well. */
  delete(key: string): boolean {
    const entry = this.entries.get(key);
    if (entry === undefined) return false;
    this.entries.delete(key);
    this.bytes -= cost(key, entry.value);
    if (entry.lease !== undefined) this.leases.get(entry.lease)?.keys.delete(key);
    this.announce(key, undefined);
    return true;
  }

  /** In the order of the keys. */
  list(prefix: string): [string, Uint8Array][] {
    const found: [string, Uint8Array][] = [];
    for (const [key, { value }] of this.entries) {
      if (key.startsWith(prefix)) found.push([key, value]);
    }
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Keys of entries and of queues that are not empty. */
  keys(): string[] {
    return [...new Set([...this.entries.keys(), ...this.queues.keys()])];
  }

  push(key: string, value: Uint8Array): void {
    checkSizes(key, value);
    const queue = this.queues.get(key);
    const more = cost('', value) + (queue === undefined ? cost(key, NOTHING) : 0);
    this.checkRoom(more, queue === undefined);
    if (queue === undefined) this.queues.set(key, [value]);
    else queue.push(value);
    this.bytes += more;
    this.wake(key);
  }

  /** The size before, and the oldest item. */
  pop(key: string): { size: number; value: Uint8Array | undefined } {
    const queue = this.queues.get(key);
    if (queue === undefined) return { size: 0, value: undefined };
    const size = queue.length;
    const value = queue.shift() as Uint8Array;
    this.bytes -= cost('', value);
    if (queue.length === 0) {
      this.queues.delete(key);
      this.bytes -= cost(key, NOTHING);
    }
    return { size, value };
  }

  queueLength(key: string): number {
    return this.queues.get(key)?.length ?? 0;
  }

  /** Calls `done` once all keys exist, perhaps at once. The returned function gives up. */
  wait(keys: readonly string[], done: () => void): () => void {
    const waiter: Waiter = { missing: new Set(keys.filter((key) => !this.has(key))), done };
    if (waiter.missing.size === 0) {
      done();
      return () => undefined;
    }
    for (const key of waiter.missing) {
      const set = this.waiters.get(key);
      if (set === undefined) this.waiters.set(key, new Set([waiter]));
      else set.add(waiter);
    }
    return () => {
      for (const key of waiter.missing) this.unpark(key, waiter);
      waiter.missing.clear();
    };
  }

  /** Calls `change` for every change under `prefix` from now on. The returned function ends it. */
  watch(prefix: string, change: Change): () => void {
    const watcher = { change };
    const { length } = prefix;
    const alike = this.watchers.get(length) ?? new Map<string, Set<{ readonly change: Change }>>();
    const all = alike.get(prefix) ?? new Set();
    this.watchers.set(length, alike.set(prefix, all.add(watcher)));
    return () => {
      if (!all.delete(watcher) || all.size > 0 || alike.get(prefix) !== all) return;
      alike.delete(prefix);
      if (alike.size === 0 && this.watchers.get(length) === alike) this.watchers.delete(length);
    };
  }

  /** A new lease, valid until `now + ttlMs` unless renewed. */
  grant(ttlMs: number, now: number): number {
    checkTtl(ttlMs);
    if (this.leases.size >= MAX_LEASES) throw new RpcError('resource-exhausted', `the store has ${MAX_LEASES} leases`);
    const id = this.nextLease++;
    this.leases.set(id, { ttlMs, deadline: now + ttlMs, keys: new Set() });
    return id;
  }

  /** False when the lease is gone. */
  renew(id: number, now: number): boolean {
    const lease = this.leases.get(id);
    if (lease === undefined) return false;
    lease.deadline = now + lease.ttlMs;
    return true;
  }

  /** Lets a lease end at `deadline` at the latest, unless it is renewed before. */
  shorten(id: number, deadline: number): void {
    const lease = this.leases.get(id);
    if (lease !== undefined) lease.deadline = Math.min(lease.deadline, deadline);
  }

  /** Gives every lease `ms` more. */
  postpone(ms: number): void {
    for (const lease of this.leases.values()) lease.deadline += ms;
  }

  revoke(id: number): boolean {
    const lease = this.leases.get(id);
    if (lease === undefined) return false;
    this.leases.delete(id);
    for (const key of [...lease.keys]) this.delete(key);
    return true;
  }

  /** Ends the leases whose time is up and names them. */
  expire(now: number): number[] {
    const over = [...this.leases].filter(([, lease]) => lease.deadline <= now).map(([id]) => id);
    for (const id of over) this.revoke(id);
    return over;
  }

  /** The leases and how long each may go without being renewed. */
  leaseTtls(): ReadonlyMap<number, number> {
    return new Map([...this.leases].map(([id, lease]) => [id, lease.ttlMs]));
  }

  dump(): StoreDump {
    return {
      nextLease: this.nextLease,
      leases: [...this.leases].map(([id, { ttlMs }]) => ({ id, ttlMs })),
      entries: [...this.entries].map(([key, { value, lease }]) => ({ key, value, lease })),
    };
  }

  /** Replaces the contents. Waits whose keys are there now end; watchers are not told what changed. Leases do not run out by themselves. */
  restore(dump: StoreDump): void {
    this.entries.clear();
    this.queues.clear();
    this.leases.clear();
    this.bytes = 0;
    this.nextLease = dump.nextLease;
    for (const { id, ttlMs } of dump.leases) this.leases.set(id, { ttlMs, deadline: Infinity, keys: new Set() });
    for (const { key, value, lease } of dump.entries) {
      this.entries.set(key, { value, lease });
      this.bytes += cost(key, value);
      if (lease !== undefined) this.leases.get(lease)?.keys.add(key);
    }
    for (const key of [...this.waiters.keys()]) if (this.has(key)) this.wake(key);
  }

  /** When `expire` has something to do next. */
  nextExpiry(): number | undefined {
    let next: number | undefined;
    for (const { deadline } of this.leases.values()) if (next === undefined || deadline < next) next = deadline;
    return next;
  }

  private put(key: string, value: Uint8Array, lease: number | undefined): void {
    const entry = this.entries.get(key);
    if (entry === undefined) {
      this.entries.set(key, { value, lease });
      this.bytes += cost(key, value);
    } else {
      this.bytes += value.byteLength - entry.value.byteLength;
      if (entry.lease !== undefined && entry.lease !== lease) this.leases.get(entry.lease)?.keys.delete(key);
      entry.value = value;
      entry.lease = lease;
    }
    if (lease !== undefined) this.leases.get(lease)?.keys.add(key);
    this.announce(key, value);
    this.wake(key);
  }

  private check(key: string, value: Uint8Array, lease: number | undefined): void {
    checkSizes(key, value);
    const entry = this.entries.get(key);
    this.checkRoom(cost(key, value) - (entry?.value.byteLength ?? 0), entry === undefined);
    if (lease !== undefined && !this.leases.has(lease)) throw new RpcError('failed-precondition', 'the lease is gone');
  }

  private checkRoom(moreBytes: number, isNewKey: boolean): void {
    const isFull = isNewKey && this.entries.size + this.queues.size >= MAX_STORE_KEYS;
    if (isFull || this.bytes + moreBytes > MAX_STORE_BYTES)
      throw new RpcError('resource-exhausted', 'the store is full');
  }

  private announce(key: string, value: Uint8Array | undefined): void {
    for (const [length, alike] of this.watchers) {
      if (length > key.length) continue;
      for (const watcher of alike.get(key.slice(0, length)) ?? []) watcher.change(key, value);
    }
  }

  private wake(key: string): void {
    const waiting = this.waiters.get(key);
    if (waiting === undefined) return;
    this.waiters.delete(key);
    for (const waiter of waiting) {
      waiter.missing.delete(key);
      if (waiter.missing.size === 0) waiter.done();
    }
  }

  private unpark(key: string, waiter: Waiter): void {
    const set = this.waiters.get(key);
    set?.delete(waiter);
    if (set?.size === 0) this.waiters.delete(key);
  }
}

function checkSizes(key: string, value: Uint8Array): void {
  if (key.length > MAX_KEY_BYTES) throw invalidArgument(`a key has at most ${MAX_KEY_BYTES} bytes`);
  if (value.byteLength > MAX_VALUE_BYTES) throw invalidArgument(`a value has at most ${MAX_VALUE_BYTES} bytes`);
}

function cost(key: string, value: Uint8Array): number {
  return key.length + value.byteLength + ENTRY_OVERHEAD_BYTES;
}
