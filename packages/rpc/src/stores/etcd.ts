/** @file A store in etcd, by its JSON gateway: durable, with leases and watches of its own. */
import { RpcError } from '../errors.ts';
import { EtcdApi, type EtcdEvent, type EtcdKeyValue } from './etcd-api.ts';
import { MAX_KEY_BYTES, MAX_LEASE_MS, MAX_VALUE_BYTES, MIN_LEASE_MS } from './limits.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import type { LeaseTicket, TicketStore } from './ticket.ts';
import { settleWait } from './wait.ts';
import { WatchQueue } from './watch-queue.ts';

export interface EtcdStoreOptions {
  /** 'http://host:2379' or 'https://…'; the first that answers is used. */
  readonly endpoints: readonly string[];
  /** All keys live under it. @default 'backwire/' */
  readonly prefix?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How long to try to reach it, in milliseconds; 0 = no limit. @default 300000 */
  readonly timeoutMs?: number | undefined;
}

const DEFAULT_TIMEOUT_MS = 300_000;
const RETRY_MS = 200;
const RENEWALS_PER_TTL = 3;
/** Lost races of one counter before it is given up: every lost race is another's success. */
const MAX_ADD_TRIES = 1_000;

/** @throws RpcError 'deadline-exceeded' when etcd does not answer in time, 'cancelled'. */
export async function etcdStore(options: EtcdStoreOptions): Promise<Store> {
  const { endpoints, prefix = 'backwire/', signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const api = new EtcdApi(endpoints);
  const until = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
  for (;;) {
    try {
      await api.call('/v3/kv/range', { key: base64(prefix), count_only: true, limit: '1' }, signal);
      return new EtcdStore(api, prefix);
    } catch (error) {
      const known = RpcError.from(error);
      if (known.code !== 'unavailable') throw known;
      if (performance.now() > until)
        throw new RpcError('deadline-exceeded', `${known.message} in ${timeoutMs} ms`, { cause: known });
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

class EtcdLease implements Lease {
  readonly id: string;
  readonly store: EtcdStore;
  readonly ttlMs: number;
  readonly lost: Promise<Error>;
  private resolveLost!: (error: Error) => void;
  private timer: NodeJS.Timeout;
  private over = false;

  constructor(id: string, store: EtcdStore, ttlMs: number) {
    this.id = id;
    this.store = store;
    this.ttlMs = ttlMs;
    this.lost = new Promise((resolve) => (this.resolveLost = resolve));
    this.timer = setInterval(() => void this.renew(), ttlMs / RENEWALS_PER_TTL).unref();
  }

  async revoke(): Promise<void> {
    if (this.finish()) await this.store.revoke(this.id);
  }

  lose(why: string): void {
    if (this.finish()) this.resolveLost(new RpcError('unavailable', why));
  }

  private async renew(): Promise<void> {
    // Out of reach is not gone: etcd counts the time itself, and says so when it is up.
    const left = await this.store.keepAlive(this.id).catch(() => undefined);
    if (left === 0) this.lose('the lease was not renewed in time');
  }

  private finish(): boolean {
    if (this.over) return false;
    this.over = true;
    clearInterval(this.timer);
    return true;
  }
}

class EtcdStore implements TicketStore {
  private readonly api: EtcdApi;
  private readonly prefix: string;
  private readonly closing = new AbortController();
  private readonly leases = new Set<EtcdLease>();
  private readonly queues = new Set<WatchQueue>();
  /** Resolves once every watch begun so far is in force: what this store does after counts for them. */
  private watchesReady: Promise<void> = Promise.resolve();

  constructor(api: EtcdApi, prefix: string) {
    this.api = api;
    this.prefix = prefix;
  }

  async set(key: string, value: Uint8Array, options?: { lease?: Lease }): Promise<void> {
    await this.call('/v3/kv/put', this.putRequest(key, value, options?.lease));
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    const found = await this.read(key);
    return found === undefined ? undefined : bytesOf(found);
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    this.checkOpen();
    const missing = async (): Promise<string[]> => {
      const found = await Promise.all(keys.map((key) => this.read(key)));
      return keys.filter((_, i) => found[i] === undefined);
    };
    const park = (done: (error?: RpcError) => void): (() => void) => {
      const stop = new AbortController();
      const follow = async (): Promise<void> => {
        for (let left = await missing(); left.length > 0; left = await missing()) {
          await this.appears(left[0] as string, stop.signal);
          if (stop.signal.aborted) return;
        }
        done();
      };
      follow().catch((error: unknown) => done(RpcError.from(error)));
      return () => stop.abort();
    };
    return settleWait(park, missing, { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    for (let tries = 0; tries < MAX_ADD_TRIES; tries++) {
      const current = await this.read(key);
      const before = current === undefined ? 0n : counter(key, bytesOf(current));
      const sum = BigInt.asIntN(64, before + delta);
      const value = new TextEncoder().encode(sum.toString());
      const keep = current?.lease === undefined ? {} : { lease: current.lease };
      if (await this.putIf(key, current, { ...this.putRequest(key, value, undefined), ...keep })) return sum;
    }
    throw new RpcError('resource-exhausted', `'${key}' is changed by too many at once`);
  }

  async compareAndSet(
    key: string,
    expected: Uint8Array | null,
    value: Uint8Array,
    options?: { lease?: Lease },
  ): Promise<{ ok: boolean; current: Uint8Array | undefined }> {
    const put = this.putRequest(key, value, options?.lease);
    for (let tries = 0; tries < MAX_ADD_TRIES; tries++) {
      const current = await this.read(key);
      const bytes = current === undefined ? undefined : bytesOf(current);
      const same =
        expected === null ? bytes === undefined : bytes !== undefined && Buffer.compare(bytes, expected) === 0;
      if (!same) return { ok: false, current: bytes };
      if (await this.putIf(key, current, put)) return { ok: true, current: Uint8Array.from(value) };
    }
    throw new RpcError('resource-exhausted', `'${key}' is changed by too many at once`);
  }

  async delete(key: string): Promise<boolean> {
    const answer = await this.call('/v3/kv/deleterange', { key: this.key(key) });
    return answer['deleted'] === '1';
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    const answer = await this.call('/v3/kv/range', this.range(prefix));
    const found = (answer['kvs'] ?? []) as EtcdKeyValue[];
    return new Map(found.map((kv) => [this.name(kv), bytesOf(kv)]));
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    const stop = new AbortController();
    const queue: WatchQueue = new WatchQueue(
      prefix,
      () => {
        stop.abort();
        this.queues.delete(queue);
      },
      options?.signal,
    );
    if (options?.signal?.aborted) return queue;
    this.queues.add(queue);
    const ready = this.follow(prefix, queue, stop.signal);
    this.watchesReady = Promise.all([this.watchesReady, ready]).then(() => undefined);
    return queue;
  }

  async lease(ttlMs: number): Promise<Lease> {
    if (!(ttlMs >= MIN_LEASE_MS && ttlMs <= MAX_LEASE_MS)) {
      throw new RpcError('invalid-argument', `a lease lasts ${MIN_LEASE_MS} to ${MAX_LEASE_MS} ms, not ${ttlMs}`);
    }
    const answer = await this.call('/v3/lease/grant', { TTL: String(Math.ceil(ttlMs / 1000)) });
    const lease = new EtcdLease(String(answer['ID']), this, ttlMs);
    this.leases.add(lease);
    void lease.lost.then(() => this.leases.delete(lease));
    return lease;
  }

  async revoke(id: string): Promise<void> {
    for (const lease of this.leases) if (lease.id === id) this.leases.delete(lease);
    await this.api.call('/v3/lease/revoke', { ID: id }).catch((error: unknown) => {
      // Gone already is what was wanted.
      if (RpcError.from(error).code !== 'failed-precondition') throw error;
    });
  }

  /** What is left, in seconds; 0 = gone. */
  async keepAlive(id: string): Promise<number> {
    const answer = await this.api.call('/v3/lease/keepalive', { ID: id }, this.closing.signal);
    const { TTL } = (answer['result'] ?? {}) as { TTL?: string };
    return Number(TTL ?? 0);
  }

  /** For a thread that renews `lease` beside this store. */
  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined {
    if (!(lease instanceof EtcdLease) || lease.store !== this) return undefined;
    return { kind: 'etcd', ttlMs: lease.ttlMs, endpoints: this.api.endpoints, id: lease.id, ageKey: this.key(ageKey) };
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    for (const queue of [...this.queues]) queue.end();
    for (const lease of [...this.leases]) {
      lease.lose('the store was closed');
      await this.revoke(lease.id).catch(() => undefined);
    }
  }

  /** Resolves once the key is there, or `signal` aborts. */
  private async appears(key: string, signal: AbortSignal): Promise<void> {
    const events = this.watch(key, { signal })[Symbol.asyncIterator]();
    try {
      while ((await this.read(key)) === undefined && !signal.aborted) if ((await events.next()).done === true) return;
    } finally {
      await events.return?.();
    }
  }

  /** Watches for ever; resolves when the first watch is in force. After a break, changes are read from where it was. */
  private follow(prefix: string, queue: WatchQueue, signal: AbortSignal): Promise<void> {
    return new Promise((ready) => {
      let from: bigint | undefined;
      const onReady = (revision: bigint): void => {
        from ??= revision + 1n;
        ready();
      };
      const onEvents = (events: readonly EtcdEvent[], revision: bigint): void => {
        from = revision + 1n;
        for (const event of events) {
          const key = this.name(event.kv);
          queue.push(
            event.type === 'DELETE' ? { type: 'delete', key } : { type: 'put', key, value: bytesOf(event.kv) },
          );
        }
      };
      const run = async (): Promise<void> => {
        for (let first = true; !signal.aborted; first = false) {
          if (!first && from === undefined) queue.push({ type: 'resync', key: prefix });
          try {
            await this.api.watch(this.range(prefix), from, onReady, onEvents, signal);
          } catch (error) {
            // Compacted away, or never known where it was: the reader has to list again.
            if (RpcError.from(error).code === 'failed-precondition') from = undefined;
          }
          ready();
          if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
        ready();
      };
      void run();
    });
  }

  /** Puts if the key is still as it was read. */
  private async putIf(key: string, read: EtcdKeyValue | undefined, put: object): Promise<boolean> {
    const compare = { key: this.key(key), target: 'MOD', result: 'EQUAL', mod_revision: read?.mod_revision ?? '0' };
    const answer = await this.call('/v3/kv/txn', { compare: [compare], success: [{ request_put: put }] });
    return answer['succeeded'] === true;
  }

  private async read(key: string): Promise<EtcdKeyValue | undefined> {
    const answer = await this.call('/v3/kv/range', { key: this.key(key) });
    return ((answer['kvs'] ?? []) as EtcdKeyValue[])[0];
  }

  private async call(path: string, body: object): Promise<Record<string, unknown>> {
    this.checkOpen();
    await this.watchesReady;
    try {
      return await this.api.call(path, body, this.closing.signal);
    } catch (error) {
      this.checkOpen();
      throw error;
    }
  }

  private putRequest(key: string, value: Uint8Array, lease: Lease | undefined): object {
    this.checkOpen();
    if (value.byteLength > MAX_VALUE_BYTES)
      throw new RpcError('invalid-argument', `a value has at most ${MAX_VALUE_BYTES} bytes`);
    const base = { key: this.key(key), value: Buffer.from(value).toString('base64') };
    if (lease === undefined) return base;
    if (!(lease instanceof EtcdLease) || lease.store !== this)
      throw new RpcError('invalid-argument', 'the lease is of another store');
    return { ...base, lease: lease.id };
  }

  private key(key: string): string {
    if (Buffer.byteLength(key) > MAX_KEY_BYTES)
      throw new RpcError('invalid-argument', `a key has at most ${MAX_KEY_BYTES} bytes`);
    return base64(this.prefix + key);
  }

  private name(kv: EtcdKeyValue): string {
    return Buffer.from(kv.key, 'base64').toString().slice(this.prefix.length);
  }

  /** Every key that begins with `prefix`. */
  private range(prefix: string): { key: string; range_end: string } {
    const start = Buffer.from(this.prefix + prefix);
    const end = Buffer.from(start);
    // The next text after all with this prefix: UTF-8 has no byte 0xff, so the last one can be raised.
    end[end.length - 1] = (end.at(-1) as number) + 1;
    return { key: start.toString('base64'), range_end: end.toString('base64') };
  }

  private checkOpen(): void {
    if (this.closing.signal.aborted) throw new RpcError('failed-precondition', 'the store is closed');
  }
}

/** Fields that are empty are left out. */
function bytesOf(kv: EtcdKeyValue): Uint8Array {
  return Uint8Array.from(Buffer.from(kv.value ?? '', 'base64'));
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function counter(key: string, value: Uint8Array): bigint {
  const text = new TextDecoder().decode(value.subarray(0, 32));
  if (!/^-?\d{1,19}$/.test(text)) throw new RpcError('failed-precondition', `the value of '${key}' is not a number`);
  return BigInt(text);
}
