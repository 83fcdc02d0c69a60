/** @file A store in etcd, by its JSON gateway: durable, with leases and watches of its own. */
import { RpcError } from '../base/errors.ts';
import { equalBytes } from '../base/platform.ts';
import { sleep } from '../base/within.ts';
import { addTo, checkDelta, checkExpected, checkKey, checkKeys, checkTtl, checkValue } from './checks.ts';
import { Adds } from './adds.ts';
import { EtcdApi, entriesOf, isBusy, revisionOf, unreadable, type EtcdKeyValue } from './etcd-api.ts';
import { EtcdWatches } from './etcd-watches.ts';
import { keyLists, keyReads } from './key-reads.ts';
import { LongValues, type LongValue } from './long-values.ts';
import { limited } from './limited.ts';
import { LeasingStore, RenewedLease, type HeldLease, type Leased, type Swapped } from './leasing.ts';
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

/** Tries of what may be repeated, and what is waited after the first of them. */
const MAX_REPEATS = 6;
const REPEAT_MS = 200;
/** Lost races of one key before it is given up: every lost race is another's success. */
const MAX_TRIES = 1_000;
/** A value that is longer is compared here. */
const MAX_COMPARED_BYTES = 256 * 1024;
/** The key does not exist. */
const ABSENT = { target: 'VERSION', version: '0' };

/** @throws RpcError 'deadline-exceeded' when etcd does not answer in time, 'cancelled'. */
export async function etcdStore(options: EtcdStoreOptions): Promise<Store> {
  const { endpoints, prefix = 'backwire/' } = options;
  const api = new EtcdApi(endpoints);
  const question = { key: base64(prefix), count_only: true, limit: '1' };
  await openWithin(endpoints.join(', '), options, async (leftMs) => {
    const silent = new RpcError('unavailable', `etcd at ${endpoints.join(', ')} does not answer`);
    const asked = limited(leftMs, [options.signal], (signal) => api.call('/v3/kv/range', question, signal));
    await asked.catch((error: unknown) => {
      throw RpcError.from(error).code === 'cancelled' && options.signal?.aborted !== true ? silent : error;
    });
  });
  return new EtcdStore(api, prefix);
}

/** Key and value in base64. */
interface PutRequest {
  readonly key: string;
  readonly value: string;
  readonly lease?: string;
}

class EtcdStore extends LeasingStore<RenewedLease<string>> implements TicketStore {
  private readonly api: EtcdApi;
  private readonly prefix: string;
  private readonly watches: EtcdWatches;
  private readonly reads = keyReads(async (key) => {
    // Whoever reads may do with it as it likes.
    return (await this.latest(key))?.bytes.slice();
  });
  private readonly lists = keyLists((prefix) => this.listOnce(prefix));
  private readonly long = new LongValues();
  private readonly adds = new Adds((key, delta) => this.addOnce(key, delta));
  /** Resolves once every watch begun so far is in force: what this store does after counts for them. */
  private watchesReady: Promise<void> = Promise.resolve();

  constructor(api: EtcdApi, prefix: string) {
    super();
    this.api = api;
    this.prefix = prefix;
    this.watches = new EtcdWatches({
      api,
      range: (of) => this.range(of),
      read: ({ type, kv }) =>
        type === 'DELETE'
          ? { type: 'delete', key: this.name(kv) }
          : { type: 'put', key: this.name(kv), value: this.saw(kv).bytes.slice() },
      onEnd: () => this.long.forget(),
    });
  }

  async set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
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
      const put = await this.putIf(key, [unchangedSince(current)], {
        ...this.putRequest(key, value, undefined),
        ...keep,
      });
      if (put.ok) return sum;
      current = put.current;
    }
    throw new RpcError('resource-exhausted', `'${key}' is changed by too many at once`);
  }

  async compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    const [former, wanted] = [checkExpected(expected), checkValue(value)];
    const put = this.putRequest(key, wanted, options?.lease);
    // What is long is not sent to be compared.
    const known = former === null ? undefined : this.long.known(key, former);
    if (former !== null && (known !== undefined || former.byteLength > MAX_COMPARED_BYTES))
      return this.compareLong(key, known ?? (await this.latest(key)), { former, wanted, put });
    const done = await this.putIf(key, [former === null ? ABSENT : valueIs(former)], put);
    return done.ok ? { ok: true, current: wanted } : { ok: false, current: done.current && bytesOf(done.current) };
  }

  /** By the numbers of what is there, as far as is known. */
  private async compareLong(
    key: string,
    known: LongValue | undefined,
    { former, wanted, put }: { former: Uint8Array; wanted: Uint8Array; put: PutRequest },
  ): Promise<Swapped> {
    let current = known;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (current === undefined || !equalBytes(current.bytes, former))
        return { ok: false, current: current?.bytes.slice() };
      const done = await this.putIf(key, sameAs(current), put);
      if (done.ok) {
        const { created, version } = current;
        this.know(key, { bytes: wanted.slice(), modified: done.revision, created, version: version + 1 });
        return { ok: true, current: wanted };
      }
      current = done.current && this.saw(done.current);
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
    return new Map(entriesOf(answer).map((kv) => [this.name(kv), this.saw(kv).bytes.slice()]));
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
    const { ID: id } = answer;
    if (typeof id !== 'string') throw unreadable('leases');
    return this.keep(new RenewedLease(this, id, ttlMs));
  }

  async revoke({ id }: HeldLease<string>): Promise<void> {
    this.leases.delete(id);
    await this.api.call('/v3/lease/revoke', { ID: id }).catch((error: unknown) => {
      // Gone already is what was wanted.
      if (RpcError.from(error).code !== 'failed-precondition') throw error;
    });
  }

  renew({ id }: HeldLease<string>): Promise<boolean> {
    return this.api.keepAlive(id, this.closing.signal);
  }

  /** For a thread that renews `lease` beside this store. */
  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined {
    if (!this.isOwn(lease)) return undefined;
    return { kind: 'etcd', ttlMs: lease.ttlMs, endpoints: this.api.endpoints, id: lease.id, ageKey: this.key(ageKey) };
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    this.watches.close();
    for (const lease of [...this.leases.values()]) {
      lease.lose('the store was closed');
      await this.revoke(lease).catch(() => undefined);
    }
  }

  /** Puts if the key is as all `conditions` say, at `revision`; else what it is now. */
  private async putIf(
    key: string,
    conditions: readonly object[],
    put: PutRequest,
  ): Promise<{ ok: true; revision: number } | { ok: false; current: EtcdKeyValue | undefined }> {
    const id = this.key(key);
    const answer = await this.call('/v3/kv/txn', {
      compare: conditions.map((condition) => ({ key: id, result: 'EQUAL', ...condition })),
      success: [{ request_put: put }],
      failure: [{ request_range: { key: id } }],
    });
    if (answer['succeeded'] === true) return { ok: true, revision: revisionOf(answer) };
    return { ok: false, current: otherwise(answer) };
  }

  private async read(key: string): Promise<EtcdKeyValue | undefined> {
    const answer = await this.call('/v3/kv/range', { key: this.key(key) }, { repeatable: true });
    return entriesOf(answer)[0];
  }

  /** The value now, not to be changed: a long one that is known travels only if it is another one by now. */
  private async latest(key: string): Promise<LongValue | undefined> {
    const known = this.long.of(key);
    if (known === undefined) {
      const found = await this.read(key);
      return found && this.saw(found);
    }
    const id = this.key(key);
    const question = {
      compare: sameAs(known).map((condition) => ({ key: id, result: 'EQUAL', ...condition })),
      failure: [{ request_range: { key: id } }],
    };
    const answer = await this.call('/v3/kv/txn', question, { repeatable: true });
    if (answer['succeeded'] === true) return known;
    const found = otherwise(answer);
    return found && this.saw(found);
  }

  /** A value that etcd told, not to be changed. */
  private saw(kv: EtcdKeyValue): LongValue {
    const { mod_revision, create_revision, version } = kv;
    const numbers = { modified: Number(mod_revision), created: Number(create_revision), version: Number(version) };
    const value = { bytes: bytesOf(kv), ...numbers };
    this.know(this.name(kv), value);
    return value;
  }

  /**
   * Only what is watched is known: an etcd that came back with nothing in it may give other values the same numbers, but has ended every
   * watch before.
   */
  private know(key: string, value: LongValue): void {
    if (this.watches.covers(key)) this.long.saw(key, value);
  }

  /** What is `repeatable` is asked again while etcd answers, but has no leader, or too much to do. */
  private async call(path: string, body: object, { repeatable = false } = {}): Promise<Record<string, unknown>> {
    this.checkOpen();
    await this.watchesReady;
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.api.call(path, body, this.closing.signal, !repeatable);
        this.watches.saw(answer);
        return answer;
      } catch (error) {
        this.checkOpen();
        if (!repeatable || tries >= MAX_REPEATS || !isBusy(error)) throw error;
      }
      await sleep(tries * REPEAT_MS * (0.5 + Math.random()));
    }
  }

  private putRequest(key: string, value: Uint8Array, lease: Lease | undefined): PutRequest {
    const id = this.idOf(lease);
    const base = { key: this.key(key), value: Buffer.from(checkValue(value).buffer).toString('base64') };
    return id === undefined ? base : { ...base, lease: id };
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
}

function valueIs(value: Uint8Array): object {
  return { target: 'VALUE', value: Buffer.from(value).toString('base64') };
}

/** The key is as it was read. */
function unchangedSince(read: EtcdKeyValue | undefined): object {
  return { target: 'MOD', mod_revision: read?.mod_revision ?? '0' };
}

/** The key has this very value. */
function sameAs({ modified, created, version }: LongValue): object[] {
  return [
    { target: 'MOD', mod_revision: `${modified}` },
    { target: 'CREATE', create_revision: `${created}` },
    { target: 'VERSION', version: `${version}` },
  ];
}

/** What a condition that did not hold was answered with. */
function otherwise(answer: Record<string, unknown>): EtcdKeyValue | undefined {
  const responses = answer['responses'] ?? [];
  if (!Array.isArray(responses)) throw unreadable('responses');
  const [response] = responses as ({ readonly response_range?: { readonly kvs?: unknown } } | null | undefined)[];
  return entriesOf(response?.response_range)[0];
}

/** Fields that are empty are left out. */
function bytesOf(kv: EtcdKeyValue): Uint8Array {
  return new Uint8Array(Buffer.from(kv.value ?? '', 'base64'));
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
