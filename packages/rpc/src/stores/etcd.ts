/** @file A store in etcd, by its JSON gateway: durable, with leases and watches of its own. */
import { RpcError } from '../base/errors.ts';
import { addTo, checkDelta, checkExpected, checkKey, checkKeys, checkTtl, checkValue } from './checks.ts';
import { Adds } from './adds.ts';
import { EtcdApi, isBusy, type EtcdKeyValue } from './etcd-api.ts';
import { EtcdWatches } from './etcd-watches.ts';
import { keyLists, keyReads } from './key-reads.ts';
import { openWithin, type OpeningLimits } from './opening.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import type { LeaseTicket, TicketStore } from './ticket.ts';
import { watchedWait } from './watched-wait.ts';

export interface EtcdStoreOptions extends OpeningLimits {
  /** 'http://host:2379' or 'https://…'; the first that answers is used. */
  readonly endpoints: readonly string[];
  /** All keys live under it. @default 'backwire/' */
  readonly prefix?: string | undefined;
}

const RENEWALS_PER_TTL = 3;
/** The same of a lease that a thread renews. */
const RENEWALS_BESIDE_THREAD = 1.5;
/** Tries of what may be repeated, and what is waited after the first of them. */
const MAX_REPEATS = 6;
const REPEAT_MS = 200;
/** Lost races of one key before it is given up: every lost race is another's success. */
const MAX_TRIES = 1_000;
/** Keys whose last value is kept, so that setting one of them says which it was instead of sending it. */
const MAX_LATEST = 8;

/** @throws RpcError 'deadline-exceeded' when etcd does not answer in time, 'cancelled'. */
export async function etcdStore(options: EtcdStoreOptions): Promise<Store> {
  const { endpoints, prefix = 'backwire/' } = options;
  const api = new EtcdApi(endpoints);
  const question = { key: base64(prefix), count_only: true, limit: '1' };
  await openWithin(endpoints.join(', '), options, () => api.call('/v3/kv/range', question, options.signal));
  return new EtcdStore(api, prefix);
}

/** Key and value in base64. */
interface PutRequest {
  readonly key: string;
  readonly value: string;
  readonly lease?: string;
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
    this.timer = this.every(ttlMs / RENEWALS_PER_TTL);
  }

  /** A thread renews it too. */
  relax(): void {
    if (this.over) return;
    clearInterval(this.timer);
    this.timer = this.every(this.ttlMs / RENEWALS_BESIDE_THREAD);
  }

  private every(ms: number): NodeJS.Timeout {
    return setInterval(() => void this.renew(), ms).unref();
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
  private readonly watches: EtcdWatches;
  private readonly reads = keyReads(async (key) => {
    const found = await this.read(key);
    return found === undefined ? undefined : bytesOf(found);
  });
  private readonly lists = keyLists((prefix) => this.listOnce(prefix));
  private readonly adds = new Adds((key, delta) => this.addOnce(key, delta));
  /** By key, those that were read or set last. */
  private readonly latest = new Map<string, EtcdKeyValue>();
  /** Resolves once every watch begun so far is in force: what this store does after counts for them. */
  private watchesReady: Promise<void> = Promise.resolve();

  constructor(api: EtcdApi, prefix: string) {
    this.api = api;
    this.prefix = prefix;
    this.watches = new EtcdWatches({
      api,
      range: (of) => this.range(of),
      read: ({ type, kv }) =>
        type === 'DELETE'
          ? { type: 'delete', key: this.name(kv) }
          : { type: 'put', key: this.name(kv), value: bytesOf(kv) },
    });
  }

  async set(key: string, value: Uint8Array, options?: { lease?: Lease }): Promise<void> {
    await this.call('/v3/kv/put', this.putRequest(key, value, options?.lease), { repeatable: true });
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.reads.read(checkKey(key));
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    this.checkOpen();
    return watchedWait(this, checkKeys(keys), { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    return this.adds.add(checkKey(key), checkDelta(delta));
  }

  private async addOnce(key: string, delta: bigint): Promise<bigint> {
    let current = await this.read(key);
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const sum = addTo(key, current && bytesOf(current), delta);
      const value = new TextEncoder().encode(sum.toString());
      const keep = current?.lease === undefined ? {} : { lease: current.lease };
      const put = await this.putIf(key, current, { ...this.putRequest(key, value, undefined), ...keep });
      if (put.ok) return sum;
      current = put.current;
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
    const isFormer = (kv: EtcdKeyValue | undefined): boolean =>
      kv === undefined || former === null
        ? kv === undefined && former === null
        : Buffer.compare(bytesOf(kv), former) === 0;
    let current = former === null ? undefined : this.latest.get(key);
    if (!isFormer(current)) current = await this.read(key);
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (!isFormer(current)) return { ok: false, current: current && bytesOf(current) };
      const done = await this.putIf(key, current, put);
      if (done.ok) return { ok: true, current: wanted };
      current = done.current;
    }
    throw new RpcError('resource-exhausted', `'${key}' is changed by too many at once`);
  }

  async delete(key: string): Promise<boolean> {
    const answer = await this.call('/v3/kv/deleterange', { key: this.key(key) });
    return answer['deleted'] === '1';
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    return this.lists.read(checkKey(prefix));
  }

  private async listOnce(prefix: string): Promise<Map<string, Uint8Array>> {
    const answer = await this.call('/v3/kv/range', this.range(prefix), { repeatable: true });
    const found = (answer['kvs'] ?? []) as EtcdKeyValue[];
    return new Map(found.map((kv) => [this.name(kv), bytesOf(kv)]));
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    checkKey(prefix);
    const { queue, inForce } = this.watches.watch(prefix, options?.signal);
    this.watchesReady = Promise.all([this.watchesReady, inForce]).then(() => undefined);
    return queue;
  }

  async lease(ttlMs: number): Promise<Lease> {
    const question = { TTL: String(Math.ceil(checkTtl(ttlMs) / 1000)) };
    // One that was granted unheard runs out.
    const answer = await this.call('/v3/lease/grant', question, { repeatable: true });
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
    lease.relax();
    return { kind: 'etcd', ttlMs: lease.ttlMs, endpoints: this.api.endpoints, id: lease.id, ageKey: this.key(ageKey) };
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    this.watches.close();
    for (const lease of [...this.leases]) {
      lease.lose('the store was closed');
      await this.revoke(lease.id).catch(() => undefined);
    }
  }

  /** Puts if the key is still as it was read; else what it is now. */
  private async putIf(
    key: string,
    read: EtcdKeyValue | undefined,
    put: PutRequest,
  ): Promise<{ ok: true } | { ok: false; current: EtcdKeyValue | undefined }> {
    const id = this.key(key);
    const compare = { key: id, target: 'MOD', result: 'EQUAL', mod_revision: read?.mod_revision ?? '0' };
    const otherwise = { request_range: { key: id } };
    const answer = await this.call('/v3/kv/txn', {
      compare: [compare],
      success: [{ request_put: put }],
      failure: [otherwise],
    });
    if (answer['succeeded'] === true) {
      const { revision } = answer['header'] as { revision: string };
      this.note(key, { ...put, mod_revision: revision });
      return { ok: true };
    }
    const [response] = answer['responses'] as { response_range?: { kvs?: EtcdKeyValue[] } }[];
    const current = response?.response_range?.kvs?.[0];
    this.note(key, current);
    return { ok: false, current };
  }

  private async read(key: string): Promise<EtcdKeyValue | undefined> {
    const answer = await this.call('/v3/kv/range', { key: this.key(key) }, { repeatable: true });
    const found = ((answer['kvs'] ?? []) as EtcdKeyValue[])[0];
    this.note(key, found);
    return found;
  }

  private note(key: string, kv: EtcdKeyValue | undefined): void {
    this.latest.delete(key);
    if (kv === undefined) return;
    this.latest.set(key, kv);
    if (this.latest.size > MAX_LATEST)
      for (const oldest of [...this.latest.keys()].slice(0, 1)) this.latest.delete(oldest);
  }

  /** What is `repeatable` is asked again while etcd answers, but has no leader, or too much to do. */
  private async call(path: string, body: object, { repeatable = false } = {}): Promise<Record<string, unknown>> {
    this.checkOpen();
    await this.watchesReady;
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.api.call(path, body, this.closing.signal);
        this.watches.saw(answer);
        return answer;
      } catch (error) {
        this.checkOpen();
        if (!repeatable || tries >= MAX_REPEATS || !isBusy(error)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, tries * REPEAT_MS * (0.5 + Math.random())));
    }
  }

  private putRequest(key: string, value: Uint8Array, lease: Lease | undefined): PutRequest {
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
  return new Uint8Array(Buffer.from(kv.value ?? '', 'base64'));
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
