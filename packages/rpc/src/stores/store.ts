/** @file The shared store of a group: what it promises, and how one is opened by address. */
import type { Logger } from '../base/options.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import type { OpeningLimits } from './opening.ts';

/** A claim that ends when it is revoked, not renewed in time, or its holder's connection is gone for the time to live. */
export interface Lease {
  /** Resolves, never rejects, with the reason once the lease is gone without `revoke`. Keys set under it are deleted then. */
  readonly lost: Promise<Error>;
  /** Ends the lease and deletes its keys. Harmless when repeated. */
  revoke(): Promise<void>;
}

/** A change of a key. `resync` says that changes may have been missed: list again. */
export interface StoreEvent {
  type: 'put' | 'delete' | 'resync';
  key: string;
  value?: Uint8Array;
}

/**
 * A small strongly consistent map that all workers of a group reach. Values are bytes; keys are text.
 *
 * Every operation fails `unavailable` when the store is out of reach and `failed-precondition` once it is closed. An operation that
 * failed may have happened.
 */
export interface Store {
  set(key: string, value: Uint8Array, options?: { lease?: Lease }): Promise<void>;
  get(key: string): Promise<Uint8Array | undefined>;
  /** Resolves once every key exists. @throws RpcError 'deadline-exceeded' naming the keys that are missing, 'cancelled'. */
  wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void>;
  /** Adds to a counter kept as decimal text and resolves with the sum; a missing key counts as 0. */
  add(key: string, delta: bigint): Promise<bigint>;
  /** Sets the key when its value is `expected`; null = when it does not exist. `current` is the value afterwards. */
  compareAndSet(
    key: string,
    expected: Uint8Array | null,
    value: Uint8Array,
    options?: { lease?: Lease },
  ): Promise<{ ok: boolean; current: Uint8Array | undefined }>;
  /** Whether there was something to delete. */
  delete(key: string): Promise<boolean>;
  list(prefix: string): Promise<Map<string, Uint8Array>>;
  /**
   * Changes of keys under `prefix`, each after the one before, from the call of `watch` on (not from the first `next`). Ends with
   * `signal` or `close`. After a broken connection or an overflow it yields `resync`.
   */
  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent>;
  /** A lease that this store renews by itself until it is revoked or lost. */
  lease(ttlMs: number): Promise<Lease>;
  close(): Promise<void>;
}

/** What opens a store. `signal` cancels opening; an open store does not heed it. */
export interface OpenStoreOptions extends OpeningLimits {
  /** All keys live under this group, whatever the store. @default no group: the keys as they are */
  readonly group?: string | undefined;
  /** Who may use an embedded store, and the proof that this process shows. @default as for an agent without a `security` option */
  readonly security?: ResolvedSecurity | undefined;
  /** @default RANK */
  readonly rank?: number | undefined;
  /** @default WORLD_SIZE */
  readonly worldSize?: number | undefined;
  readonly logger?: Logger | undefined;
}
