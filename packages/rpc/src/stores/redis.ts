/** @file A store in Redis, through the optional package `redis`: each operation one script, changes by publish and subscribe. */
import type * as Redis from 'redis';
import { missingPackage, RpcError } from '../base/errors.ts';
import { newId } from '../base/ids.ts';
import { checkDelta, checkExpected, checkKey, checkKeys, checkTtl, checkValue } from './checks.ts';
import { openedInTime, tooLate, type OpeningLimits } from './opening.ts';
import { race } from './limited.ts';
import { Patience } from './patience.ts';
import { REDIS_SCRIPT, REDIS_SCRIPT_SHA } from './redis-script.ts';
import { keyLists, keyReads } from './key-reads.ts';
import { LeasingStore, RenewedLease, type HeldLease, type Leased, type Swapped } from './leasing.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import { withoutPassword } from './address.ts';
import type { LeaseTicket, TicketStore } from './ticket.ts';
import { WatchQueue } from './watch-queue.ts';
import { watchedWait } from './watched-wait.ts';

export interface RedisStoreOptions extends OpeningLimits {
  /** 'redis://user:password@host:6379/0' or 'rediss://…'. */
  readonly url: string;
  /** All keys live under it. @default 'backwire' */
  readonly prefix?: string | undefined;
}

const MAX_RECONNECT_MS = 1_000;
/** A server that answers nothing for longer is away. */
const COMMAND_MS = 5_000;
/** How often leases are checked while somebody watches or holds one: Redis does nothing by itself. */
const TICK_MS = 500;
/** The first byte of a published change: 'p', 'm'. */
const PUT = 0x70;
const MARK = 0x6d;

/** What a script is given. */
interface Parameters {
  keys: string[];
  arguments: (string | Buffer)[];
}

/** The part of the client that is used, so that the types of an optional package are not needed to use this one. */
interface Client {
  eval(script: string, options: Parameters): Promise<unknown>;
  evalSha(sha: string, options: Parameters): Promise<unknown>;
  subscribe(channel: string, listener: (message: Buffer) => void, bufferMode: true): Promise<void>;
  connect(): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'connect' | 'ready', listener: () => void): unknown;
  destroy(): void;
  readonly isReady: boolean;
}

/**
 * @throws RpcError 'failed-precondition' when the package `redis` is not installed, 'deadline-exceeded' when Redis does not answer in
 *   time, 'cancelled', 'unauthenticated' for a wrong password.
 */
export async function redisStore(options: RedisStoreOptions): Promise<Store> {
  const { prefix = 'backwire', url } = options;
  const [commands, changes] = await Promise.all([createClient(url), createClient(url)]);
  const store = new RedisStore(url, commands, changes, `{${prefix}}`);
  const open = (limit: AbortSignal): Promise<void> => store.connect(limit);
  return openedInTime(store, options, open, (error, ms) => {
    const refusal = [error, store.lastError].find(isRefused);
    return refusal === undefined
      ? tooLate(
          `no Redis at ${withoutPassword(url)} in ${ms} ms: ${store.lastError?.message ?? 'nothing is answered'}`,
          store.lastError ?? error,
        )
      : new RpcError('unauthenticated', `Redis at ${withoutPassword(url)}: ${refusal.message}`, { cause: error });
  });
}

async function loadRedis(): Promise<typeof Redis> {
  try {
    return await import('redis');
  } catch (error) {
    throw missingPackage('a store in Redis', 'redis', error);
  }
}

async function createClient(url: string): Promise<Client> {
  const redis = await loadRedis();
  const client = redis.createClient({
    url,
    // Requests made while there is no connection fail by our own limit, not by being forgotten.
    socket: { reconnectStrategy: (tries: number) => Math.min(50 * 2 ** Math.min(tries, 10), MAX_RECONNECT_MS) },
    commandOptions: { typeMapping: { [redis.RESP_TYPES.BLOB_STRING]: Buffer } },
  });
  return client;
}

class RedisStore extends LeasingStore<RenewedLease<string>> implements TicketStore {
  lastError: Error | undefined;
  private readonly url: string;
  private readonly commands: Client;
  private readonly changes: Client;
  private readonly keys: string[];
  private readonly channel: string;
  /** Leases whose end is on its way. */
  private readonly revoking = new Set<Promise<unknown>>();
  private readonly open = new Set<WatchQueue>();
  /** Those of them that changes are for, with their prefixes. */
  private readonly queues = new Map<WatchQueue, string>();
  /** Watches that wait for their mark. */
  private readonly marks = new Map<string, () => void>();
  private readonly reads = keyReads(async (key) => {
    const [isThere, value] = await this.run('get', keyBytes(key));
    if ((isThere === 1) !== value instanceof Uint8Array) throw this.unreadable();
    return bytesOf(value);
  });

  private readonly lists = keyLists((prefix) => this.listOnce(prefix));
  private readonly patience = new Patience(COMMAND_MS);
  private ticker: NodeJS.Timeout | undefined;
  private subscribed = false;

  constructor(url: string, commands: Client, changes: Client, tag: string) {
    super();
    this.url = url;
    this.commands = commands;
    this.changes = changes;
    this.keys = ['values', 'owners', 'deadlines', 'ttls', 'names', 'lease/'].map((part) => `${tag}/${part}`);
    this.channel = `${tag}/changes`;
    for (const client of [commands, changes]) {
      client.on('error', (error) => {
        this.lastError = error;
      });
    }
    changes.on('ready', () => {
      // What was published while there was no connection is lost; the client itself subscribes again.
      if (!this.subscribed) return;
      for (const begin of this.marks.values()) begin();
      this.marks.clear();
      for (const [queue, prefix] of this.queues) queue.push({ type: 'resync', key: prefix });
    });
  }

  async connect(signal: AbortSignal): Promise<void> {
    // The client itself tries again whatever the server says; another try with the same password would end the same way.
    const refused = new Promise<never>((_, reject) => {
      for (const client of [this.commands, this.changes])
        client.on('error', (error) => {
          if (isRefused(error)) reject(error);
        });
    });
    refused.catch(() => undefined);
    const connecting = Promise.all([this.commands.connect(), this.changes.connect()]);
    connecting.catch(() => undefined);
    await race(Promise.race([connecting, refused]), signal);
    await race(
      this.changes.subscribe(this.channel, (message) => this.onChange(message), true),
      signal,
    );
    this.subscribed = true;
    await this.run('tick');
    this.ticker = setInterval(() => void this.tick(), TICK_MS).unref();
  }

  async set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
    await this.run('set', keyBytes(key), valueBytes(value), this.idOf(options?.lease) ?? '');
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.reads.read(checkKey(key));
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    this.checkOpen();
    return watchedWait(this, checkKeys(keys), { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    const [, sum] = await this.run('add', keyBytes(key), checkDelta(delta).toString());
    const text = Buffer.from(bytesOf(sum) ?? []).toString();
    if (!/^-?\d{1,19}$/.test(text)) throw this.unreadable();
    return BigInt(text);
  }

  async compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    const former = checkExpected(expected);
    const before = former === null ? ['0', ''] : ['1', Buffer.from(former.buffer)];
    const lease = this.idOf(options?.lease) ?? '';
    const [ok, current] = await this.run('cas', keyBytes(key), ...before, valueBytes(value), lease);
    // What was set is told, and what is there instead.
    if (ok === 1 && !(current instanceof Uint8Array)) throw this.unreadable();
    return { ok: ok === 1, current: bytesOf(current) };
  }

  async delete(key: string): Promise<boolean> {
    const [count] = await this.run('delete', keyBytes(key));
    return count === 1;
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    return this.lists.read(checkKey(prefix));
  }

  private async listOnce(prefix: string): Promise<Map<string, Uint8Array>> {
    const [, ...flat] = await this.run('list', keyBytes(prefix));
    const found = new Map<string, Uint8Array>();
    for (let i = 0; i < flat.length; i += 2) {
      const [key, value] = [bytesOf(flat[i]), bytesOf(flat[i + 1])];
      if (key === undefined || value === undefined) throw this.unreadable();
      found.set(Buffer.from(key).toString(), value);
    }
    return found;
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    checkKey(prefix);
    const mark = newId();
    const queue: WatchQueue = new WatchQueue(
      prefix,
      () => {
        this.open.delete(queue);
        this.queues.delete(queue);
        this.marks.delete(mark);
      },
      options?.signal,
    );
    if (options?.signal?.aborted === true) return queue;
    this.open.add(queue);
    // Changes made before this call may still be on their way: it begins behind its own mark among them.
    this.marks.set(mark, () => this.queues.set(queue, prefix));
    this.run('mark', mark).catch(() => {
      if (!this.marks.delete(mark)) return;
      this.queues.set(queue, prefix);
      queue.push({ type: 'resync', key: prefix });
    });
    return queue;
  }

  async lease(ttlMs: number): Promise<Lease> {
    this.checkOpen();
    const lease = new RenewedLease(this, newId(), checkTtl(ttlMs));
    try {
      await this.run('grant', lease.id, String(Math.ceil(ttlMs)));
    } catch (error) {
      lease.lose('it was never granted');
      throw error;
    }
    return this.keep(lease);
  }

  async revoke({ id }: HeldLease<string>): Promise<void> {
    this.leases.delete(id);
    const revoking = this.run('revoke', id);
    this.revoking.add(revoking);
    await revoking.finally(() => this.revoking.delete(revoking));
  }

  async renew({ id }: HeldLease<string>): Promise<boolean> {
    const [alive] = await this.run('renew', id);
    return alive === 1;
  }

  /** For a thread that renews `lease` beside this store. */
  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined {
    if (!this.isOwn(lease)) return undefined;
    const parameters = [`${this.keys.length}`, ...this.keys, this.channel];
    const script = { text: REDIS_SCRIPT, sha: REDIS_SCRIPT_SHA, parameters };
    return { kind: 'redis', ttlMs: lease.ttlMs, url: this.url, script, id: lease.id, ageKey };
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    clearInterval(this.ticker);
    const leases = [...this.leases.values()];
    // Out of reach: they run out by themselves.
    if (this.commands.isReady) {
      for (const lease of leases) this.revoke(lease).catch(() => undefined);
      await Promise.allSettled(this.revoking);
    }
    this.closing.abort();
    for (const lease of leases) lease.lose('the store was closed');
    for (const queue of [...this.open]) queue.end();
    this.marks.clear();
    for (const client of [this.commands, this.changes]) {
      // A connection that is being made goes on being made, and would be there for good.
      client.on('connect', () => client.destroy());
      client.destroy();
    }
  }

  private onChange(message: Buffer): void {
    // Whoever reaches the server may publish there.
    if (message.byteLength < 5) return;
    const length = message.readUInt32BE(1);
    const key = message.subarray(5, 5 + length).toString();
    if (message[0] === MARK) {
      this.marks.get(key)?.();
      this.marks.delete(key);
      return;
    }
    const event: StoreEvent =
      message[0] === PUT
        ? { type: 'put', key, value: new Uint8Array(message.subarray(5 + length)) }
        : { type: 'delete', key };
    for (const [queue, prefix] of this.queues) if (key.startsWith(prefix)) queue.push(event);
  }

  /** Somebody has to ask, or leases of the dead would last. */
  private async tick(): Promise<void> {
    if (this.queues.size > 0 || this.leases.size > 0) await this.run('tick').catch(() => undefined);
  }

  private async run(op: string, ...args: (string | Buffer)[]): Promise<unknown[]> {
    this.checkOpen();
    try {
      const running = this.evaluate(op, { keys: this.keys, arguments: [this.channel, op, ...args] });
      const answer = await this.patience.limit([this.closing.signal], (limit) => race(running, limit));
      this.patience.heard();
      if (Array.isArray(answer) && typeof answer[0] === 'number') return answer as unknown[];
    } catch (error) {
      this.checkOpen();
      throw this.explain(error, args);
    }
    throw this.unreadable();
  }

  private unreadable(): RpcError {
    const text = `Redis at ${withoutPassword(this.url)} gave an answer that cannot be read: is that a Redis?`;
    return new RpcError('protocol-error', text, { executed: 'maybe' });
  }

  /**
   * By the script's name, which a server that started anew has to be told. A mark has no second try: it would come after what was asked
   * after it, so that its watch lists again.
   */
  private async evaluate(op: string, parameters: Parameters): Promise<unknown> {
    try {
      return await this.commands.evalSha(REDIS_SCRIPT_SHA, parameters);
    } catch (error) {
      if (op === 'mark' || !(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return this.commands.eval(REDIS_SCRIPT, parameters);
    }
  }

  private explain(error: unknown, [key, delta]: readonly (string | Buffer)[]): RpcError {
    const told = error instanceof Error ? error.message : String(error);
    // Where in our script it happened is of no use to anybody.
    const message = told.replace(/ script: [0-9a-f]{40}, on @\w+:\d+\.$/, '');
    if (message.includes('BACKWIRE')) return new RpcError('failed-precondition', message.replace(/^.*BACKWIRE /, ''));
    if (message.includes('not an integer'))
      return new RpcError('failed-precondition', `the value of '${String(key)}' is not a number`);
    if (message.includes('would overflow'))
      return new RpcError(
        'failed-precondition',
        `the sum of '${String(key)}' and ${String(delta)} is no signed 64-bit number`,
      );
    if (message.startsWith('OOM'))
      return new RpcError('resource-exhausted', `Redis at ${withoutPassword(this.url)}: ${message}`);
    // What once ended a connection says nothing about one that is there.
    const why = this.commands.isReady ? message : (this.lastError?.message ?? message);
    return new RpcError('unavailable', `Redis at ${withoutPassword(this.url)}: ${why}`, {
      cause: error,
      executed: 'maybe',
    });
  }
}

/** Whether it is the server's word that this user or password, or none, does not do. */
function isRefused(error: unknown): error is Error {
  return error instanceof Error && /^(?:WRONGPASS|NOAUTH|NOPERM|ERR (?:AUTH|invalid password))/.test(error.message);
}

function keyBytes(key: string): Buffer {
  return Buffer.from(checkKey(key));
}

/** A copy: the client may keep it until there is a connection. */
function valueBytes(value: Uint8Array): Buffer {
  return Buffer.from(checkValue(value).buffer);
}

function bytesOf(value: unknown): Uint8Array | undefined {
  return value instanceof Uint8Array ? new Uint8Array(value) : undefined;
}
