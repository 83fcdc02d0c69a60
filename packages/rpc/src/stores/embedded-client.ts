/** @file The client of an embedded store: what the members of a group use. Runs in browsers too. */
import { bareText, RpcError } from '../base/errors.ts';
import type { Keys } from '../security/keys.ts';
import type { TlsProof } from '../transports/tls.ts';
import type { Transport } from '../transports/transport.ts';
import { EmbeddedLink, type LinkOptions, type RequestOptions } from './embedded-link.ts';
import type { StoreServer } from './embedded-server.ts';
import { checkDelta, checkExpected, checkKeys, checkTtl, checkValue, closedError } from './checks.ts';
import { keyLists, keyReads } from './key-reads.ts';
import { LeasingStore, RenewedLease, type Leased, type Swapped } from './leasing.ts';
import { openWithin, type OpeningLimits } from './opening.ts';
import { Op, type Reader, blob, clientKey, holdBody, i64, keyText, u32, u8 } from './protocol.ts';
import type { Lease, StoreEvent } from './store.ts';
import type { LeaseTicket, TicketStore } from './ticket.ts';
import { settleWait } from './wait.ts';
import { WatchQueue } from './watch-queue.ts';

export interface ConnectStoreOptions extends OpeningLimits {
  /** 'tcp://host:port'. */
  readonly endpoint: string;
  readonly keys?: Keys | undefined;
  readonly transport: Transport;
  /** What both sides of a connection of `transport` prove, for a thread that makes one of its own; undefined when it is not TLS. */
  readonly tlsOf?: ((transport: Transport) => TlsProof | undefined) | undefined;
  /** The server, if it is this process's: it is closed with the store, once the other clients have had time to leave. */
  readonly server?: StoreServer | undefined;
}

/** One try to connect. */
const CONNECT_MS = 5_000;
/** How long the process that serves waits for the others to leave. */
const CLOSE_LINGER_MS = 3_000;

/**
 * Connects to the server of an embedded store, trying again until it answers or the time is up.
 * @throws RpcError 'deadline-exceeded', 'cancelled', 'unauthenticated' (at once: the secrets will not become equal).
 */
export async function connectStore(options: ConnectStoreOptions): Promise<EmbeddedStore> {
  const { endpoint, keys, signal, transport } = options;
  const store = new EmbeddedStore({ endpoint, transport, keys }, options);
  try {
    await openWithin(endpoint, options, (leftMs) => store.connect(signal, Math.min(CONNECT_MS, leftMs)));
    return store;
  } catch (error) {
    await store.close();
    throw refusedBy(endpoint, error);
  }
}

/** Who listens there and is no store of this group says nothing of where that is. */
function refusedBy(endpoint: string, error: unknown): unknown {
  if (!(error instanceof RpcError) || (error.code !== 'unauthenticated' && error.code !== 'version-mismatch'))
    return error;
  return new RpcError(error.code, `the store at ${endpoint}: ${bareText(error.code, error.message)}`, { cause: error });
}

class EmbeddedLease extends RenewedLease<number> {
  readonly token: Uint8Array;

  constructor(store: EmbeddedStore, id: number, token: Uint8Array, ttlMs: number) {
    super(store, id, ttlMs);
    this.token = token;
  }
}

/** A watch of the server's, and all who follow it here: each change comes once. */
interface Watching {
  readonly id: number;
  readonly key: Uint8Array;
  readonly queues: Set<WatchQueue>;
  readonly prefix: string;
}

export class EmbeddedStore extends LeasingStore<EmbeddedLease> implements TicketStore {
  override readonly unknownLease = 'the store no longer knows the lease: it ran out, or the store started anew';
  private readonly link: EmbeddedLink;
  private readonly options: LinkOptions;
  private readonly watches = new Map<number, Watching>();
  private readonly watchesOf = new Map<string, Watching>();
  private readonly server: StoreServer | undefined;
  private readonly tlsOf: ConnectStoreOptions['tlsOf'];
  private readonly reads = keyReads((key) => this.ask(Op.GET, [clientKey(key)], { repeatable: true }, optional));

  private readonly lists = keyLists((prefix) => this.listOnce(prefix));

  constructor(options: LinkOptions, { server, tlsOf }: Pick<ConnectStoreOptions, 'server' | 'tlsOf'>) {
    super();
    this.server = server;
    this.tlsOf = tlsOf;
    this.options = options;
    this.link = new EmbeddedLink(options, {
      up: (first) => this.onUp(first),
      event: (id, body) => this.onEvent(id, body),
      leaseLost: (id) => this.leases.get(id)?.lose('the lease was not renewed in time'),
    });
  }

  connect(signal: AbortSignal | undefined, timeoutMs: number): Promise<void> {
    return this.link.connect(signal, timeoutMs);
  }

  async set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
    const parts = [clientKey(key), blob(checkValue(value)), u32(this.idOf(options?.lease) ?? 0)];
    await this.link.request(Op.SET, parts, { repeatable: false });
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.reads.read(key);
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    this.checkOpen();
    const names = checkKeys(keys);
    const parts = [u32(names.length), ...names.map(clientKey)];
    const park = (done: (error?: RpcError) => void): (() => void) => {
      const id = this.link.newId();
      let parked = true;
      const finish = (error?: RpcError): void => {
        parked = false;
        done(error);
      };
      this.link.request(Op.WAIT, parts, { repeatable: true, patient: true, id }).then(
        () => finish(),
        (error: unknown) => finish(RpcError.from(error)),
      );
      return () => {
        if (!parked) return;
        parked = false;
        this.link.forget(id);
        this.link.notify(Op.CANCEL, id);
      };
    };
    const missing = async (): Promise<string[]> => {
      const found = await Promise.all(names.map((key) => this.get(key)));
      return names.filter((_, i) => found[i] === undefined);
    };
    return settleWait(park, missing, { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    const parts = [clientKey(key), i64(checkDelta(delta))];
    return this.ask(Op.ADD, parts, { repeatable: false }, (reply) => reply.i64());
  }

  async compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    const former = checkExpected(expected);
    const before = former === null ? [u8(0)] : [u8(1), blob(former)];
    const parts = [clientKey(key), ...before, blob(checkValue(value)), u32(this.idOf(options?.lease) ?? 0)];
    return this.ask(Op.COMPARE_AND_SET, parts, { repeatable: false }, (reply) => ({
      ok: reply.u8() === 1,
      current: optional(reply),
    }));
  }

  async delete(key: string): Promise<boolean> {
    return this.ask(Op.DELETE, [clientKey(key)], { repeatable: false }, isYes);
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    return this.lists.read(prefix);
  }

  private async listOnce(prefix: string): Promise<Map<string, Uint8Array>> {
    return this.ask(Op.LIST, [clientKey(prefix)], { repeatable: true }, (reply) => {
      const found = new Map<string, Uint8Array>();
      for (let left = reply.count(8); left > 0; left--) found.set(keyText(reply.blob()), reply.blob());
      return found;
    });
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    const key = clientKey(prefix);
    const known = this.watchesOf.get(prefix);
    const watching = known ?? { id: this.link.newId(), key, queues: new Set(), prefix };
    const stop = (): void => this.unfollow(watching, queue);
    const queue: WatchQueue = new WatchQueue(prefix, stop, options?.signal);
    if (options?.signal?.aborted) return queue;
    watching.queues.add(queue);
    if (known !== undefined) return queue;
    this.watches.set(watching.id, watching);
    this.watchesOf.set(prefix, watching);
    // While the connection is down nothing is sent: the next one starts every watch.
    if (this.link.isUp) this.startWatch(watching);
    return queue;
  }

  async lease(ttlMs: number): Promise<Lease> {
    const lease = await this.ask(Op.GRANT, [u32(checkTtl(ttlMs))], { repeatable: false }, (reply) => ({
      id: reply.u32(),
      token: reply.raw(8),
    }));
    return this.keep(new EmbeddedLease(this, lease.id, lease.token, ttlMs));
  }

  /** For a thread that renews `lease` beside this store. */
  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined {
    const { endpoint, keys, transport } = this.options;
    const tls = this.tlsOf?.(transport);
    if (!this.isOwn(lease) || (transport.name !== 'tcp' && tls === undefined)) return undefined;
    const { id, token, ttlMs } = lease;
    return { kind: 'embedded', ttlMs, endpoint, keys, tls, id, token, ageKey };
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    const leases = [...this.leases.values()];
    const revoked = leases.map((lease) => this.revoke(lease));
    this.closing.abort();
    for (const { queues } of [...this.watches.values()]) for (const queue of [...queues]) queue.end();
    for (const lease of leases) lease.lose(closedError());
    // The requests are on their way before the connection ends; what they answer no longer matters.
    for (const one of revoked) one.catch(() => undefined);
    this.link.close();
    await this.server?.close({ lingerMs: CLOSE_LINGER_MS });
  }

  async revoke(lease: EmbeddedLease): Promise<void> {
    this.leases.delete(lease.id);
    await this.link.request(Op.REVOKE, [u32(lease.id), blob(lease.token)], { repeatable: true });
  }

  async renew(lease: EmbeddedLease): Promise<boolean> {
    return this.ask(Op.HOLD, holdBody(lease), { repeatable: true }, isYes);
  }

  /** What `read` makes of the reply. @throws RpcError 'protocol-error' where it is none to that request. */
  private async ask<T>(
    op: number,
    parts: readonly Uint8Array[],
    options: RequestOptions,
    read: (reply: Reader) => T,
  ): Promise<T> {
    const reply = await this.link.request(op, parts, options);
    try {
      return read(reply);
    } catch (error) {
      const { code, message } = RpcError.from(error);
      const text = `the store at ${this.options.endpoint} gave an answer that cannot be read: ${bareText(code, message)}; is that a store of this library?`;
      throw new RpcError('protocol-error', text, { executed: 'maybe', cause: error });
    }
  }

  private onUp(first: boolean): void {
    if (first) return;
    for (const lease of this.leases.values()) void lease.renew();
    for (const watching of this.watches.values()) {
      this.startWatch(watching);
      for (const queue of watching.queues) queue.push({ type: 'resync', key: watching.prefix });
    }
  }

  private startWatch({ id, key, queues }: Watching): void {
    // Not repeatable: a new connection starts every watch itself.
    this.link.request(Op.WATCH, [key], { repeatable: false, patient: true, id }).catch((error: unknown) => {
      const refusal = RpcError.from(error);
      if (refusal.code !== 'unavailable') for (const queue of [...queues]) queue.fail(refusal);
    });
  }

  private unfollow(watching: Watching, queue: WatchQueue): void {
    if (!watching.queues.delete(queue) || watching.queues.size > 0) return;
    this.watches.delete(watching.id);
    this.watchesOf.delete(watching.prefix);
    this.link.forget(watching.id);
    this.link.notify(Op.CANCEL, watching.id);
  }

  private onEvent(id: number, body: Reader): void {
    const watching = this.watches.get(id);
    if (watching === undefined) return;
    const type = body.u8() === 1 ? 'put' : 'delete';
    const key = keyText(body.blob());
    const event: StoreEvent = type === 'put' ? { type, key, value: body.blob() } : { type, key };
    for (const queue of [...watching.queues]) queue.push(event);
  }
}

function isYes(body: Reader): boolean {
  return body.u8() === 1;
}

function optional(body: Reader): Uint8Array | undefined {
  return body.u8() === 1 ? body.blob() : undefined;
}
