/** @file A store in etcd, by its JSON gateway: durable, with leases and watches of its own. */
import { RpcError } from '../base/errors.ts';
import { addTo, checkDelta, checkExpected, checkKey, checkKeys, checkTtl, checkValue } from './checks.ts';
import { EtcdApi, type EtcdEvent, type EtcdKeyValue } from './etcd-api.ts';
import { openWithin, type OpeningLimits } from './opening.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import type { LeaseTicket, TicketStore } from './ticket.ts';
import { WatchQueue } from './watch-queue.ts';
import { watchedWait } from './watched-wait.ts';

export interface EtcdStoreOptions extends OpeningLimits {
  /** 'http://host:2379' or 'https://…'; the first that answers is used. */
  readonly endpoints: readonly string[];
  /** All keys live under it. @default 'backwire/' */
  readonly prefix?: string | undefined;
}

/** Between two tries to watch. */
const RETRY_MS = 200;
const RENEWALS_PER_TTL = 3;
/** Lost races of one counter before it is given up: every lost race is another's success. */
const MAX_ADD_TRIES = 1_000;

/** @throws RpcError 'deadline-exceeded' when etcd does not answer in time, 'cancelled'. */
export async function etcdStore(options: EtcdStoreOptions): Promise<Store> {
  const { endpoints, prefix = 'backwire/' } = options;
  const api = new EtcdApi(endpoints);
  const question = { key: base64(prefix), count_only: true, limit: '1' };
  await openWithin(endpoints.join(', '), options, () => api.call('/v3/kv/range', question, options.signal));
  return new EtcdStore(api, prefix);
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
    const alive = await this.store.keepAlive(this.id).catch(() => true);
    if (!alive) this.lose('the lease was not renewed in time');
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
    return watchedWait(this, checkKeys(keys), { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    checkDelta(delta);
    for (let tries = 0; tries < MAX_ADD_TRIES; tries++) {
      const current = await this.read(key);
      const sum = addTo(key, current && bytesOf(current), delta);
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
    const [former, wanted] = [checkExpected(expected), checkValue(value)];
    const put = this.putRequest(key, wanted, options?.lease);
    for (let tries = 0; tries < MAX_ADD_TRIES; tries++) {
      const current = await this.read(key);
      const bytes = current === undefined ? undefined : bytesOf(current);
      const same = former === null ? bytes === undefined : bytes !== undefined && Buffer.compare(bytes, former) === 0;
      if (!same) return { ok: false, current: bytes };
      if (await this.putIf(key, current, put)) return { ok: true, current: wanted };
    }
    throw new RpcError('resource-exhausted', `'${key}' is changed by too many at once`);
  }

  async delete(key: string): Promise<boolean> {
    const answer = await this.call('/v3/kv/deleterange', { key: this.key(key) });
    return answer['deleted'] === '1';
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    const answer = await this.call('/v3/kv/range', this.range(checkKey(prefix)));
    const found = (answer['kvs'] ?? []) as EtcdKeyValue[];
    return new Map(found.map((kv) => [this.name(kv), bytesOf(kv)]));
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    checkKey(prefix);
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
    const answer = await this.call('/v3/lease/grant', { TTL: String(Math.ceil(checkTtl(ttlMs) / 1000)) });
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

  keepAlive(id: string): Promise<boolean> {
    return this.api.keepAlive(id, this.closing.signal);
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

  /**
   * Watches for ever; resolves when the first watch is in force. After a break the reader has to list again: the revisions of an etcd that
   * started anew, empty, say nothing about those before.
   */
  private follow(prefix: string, queue: WatchQueue, signal: AbortSignal): Promise<void> {
    return new Promise((ready) => {
      let broken = false;
      const onReady = (): void => {
        // Once the new watch is in force, so that nothing is missed between the list and it.
        if (broken) queue.push({ type: 'resync', key: prefix });
        ready();
      };
      const onEvents = (events: readonly EtcdEvent[]): void => {
        for (const event of events) {
          const key = this.name(event.kv);
          queue.push(
            event.type === 'DELETE' ? { type: 'delete', key } : { type: 'put', key, value: bytesOf(event.kv) },
          );
        }
      };
      const run = async (): Promise<void> => {
        while (!signal.aborted) {
          await this.api.watch(this.range(prefix), onReady, onEvents, signal).catch(() => undefined);
          broken = true;
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
    const base = { key: this.key(key), value: Buffer.from(checkValue(value).buffer).toString('base64') };
    if (lease === undefined) return base;
    if (!(lease instanceof EtcdLease) || lease.store !== this)
      throw new RpcError('invalid-argument', 'the lease is of another store');
    return { ...base, lease: lease.id };
  }

  private key(key: string): string {
    return base64(this.prefix + checkKey(key));
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
