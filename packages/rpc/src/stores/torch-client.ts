/** @file A client of torch's TCPStore: all its operations, byte for byte. Under torchrun workers find each other through it. */
import { watchAbort } from '../base/abort-signals.ts';
import { bareText, RpcError, rpcInfo } from '../base/errors.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';
import { SocketConnection } from '../transports/socket.ts';
import { tcpTransport } from '../transports/tcp.ts';
import type { Connection } from '../transports/transport.ts';
import { ByteReader, type ReadProgram } from './byte-reader.ts';
import { closedError } from './checks.ts';
import { MAX_KEYS_PER_REQUEST, MAX_VALUE_BYTES } from './limits.ts';
import { Patience } from './patience.ts';
import { i64, MAX_LIST_BYTES, u32 } from './protocol.ts';
import { READY, STOP_WAITING, TORCH_MAGIC, TorchOp } from './torch-ops.ts';

const PING_NONCE = 0x6277;
/** What a server that is there may take to answer: a process that serves a store does much else. */
const REQUEST_MS = 30_000;

export interface TorchClientOptions {
  /** Ends the connection, and with it whatever waits. */
  readonly signal?: AbortSignal | undefined;
  /** What connecting may take, in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** What the answer of a request may take that waits for nobody, in milliseconds. @default 30000 */
  readonly requestMs?: number | undefined;
}

/**
 * Connects to a TCPStore of torch 2.3 or later.
 * @throws RpcError 'unavailable', 'cancelled', 'protocol-error' when something else answers.
 */
export async function torchClient(endpoint: string, options: TorchClientOptions = {}): Promise<TorchClient> {
  const { signal, timeoutMs, requestMs } = options;
  const connection = await tcpTransport().dial(endpoint, { signal, ...(timeoutMs !== undefined && { timeoutMs }) });
  const localHost = connection instanceof SocketConnection ? (connection.raw.localAddress ?? '127.0.0.1') : '127.0.0.1';
  const client = new TorchClient(connection, { endpoint, localHost, signal, requestMs });
  await client.greet();
  return client;
}

/** Reads an answer whose first byte has come. */
type Read<T> = (first: number) => Generator<number, T, Uint8Array>;

interface Pending {
  /** Reads the answer, and hands it on. */
  readonly take: (first: number) => Generator<number, void, Uint8Array>;
  readonly reject: (error: RpcError) => void;
}

interface Place {
  readonly endpoint: string;
  readonly localHost: string;
  readonly signal: AbortSignal | undefined;
  readonly requestMs: number | undefined;
}

/**
 * A connection to a store that torch serves: its operations by name. One request at a time. Keys and values are torch's own: `add` keeps
 * decimal text, a missing key of `compareAndSet` answers as torch does. A server that falls silent ends it: 'unavailable'.
 */
export class TorchClient {
  /** The address of this machine from which the store is reached. */
  readonly localHost: string;
  private readonly connection: Connection;
  private readonly endpoint: string;
  private readonly signal: AbortSignal | undefined;
  private readonly requestMs: number;
  private readonly patience: Patience;
  private pending: Pending | undefined;
  private over: RpcError | undefined;

  constructor(connection: Connection, { endpoint, localHost, signal, requestMs = REQUEST_MS }: Place) {
    this.localHost = localHost;
    this.connection = connection;
    this.endpoint = endpoint;
    this.signal = signal;
    this.requestMs = requestMs;
    this.patience = new Patience(requestMs);
    signal?.addEventListener('abort', this.onAbort, { once: true });
    connection.attach(new ByteReader(this.program(), (error) => this.end(goneError(endpoint, error))));
  }

  async greet(): Promise<void> {
    const nonce = u32(PING_NONCE);
    const hello = [Uint8Array.of(TorchOp.VALIDATE), u32(TORCH_MAGIC), Uint8Array.of(TorchOp.PING), nonce];
    const echo = await this.request(hello, readBytes(4));
    if (Buffer.compare(echo, nonce) === 0) return;
    this.connection.destroy();
    throw new RpcError('protocol-error', `${this.endpoint} is no store of torch`);
  }

  set(key: string, value: Uint8Array): Promise<void> {
    return this.tell(TorchOp.SET, [keyField(key), field(value)]);
  }

  /** The value once there is one. */
  async waitFor(key: string): Promise<Uint8Array> {
    await this.wait([key]);
    return this.ask(TorchOp.GET, [keyField(key)], readBlob);
  }

  /** Whether all keys came in time; without a time it waits for ever. */
  async wait(keys: readonly string[], timeoutMs?: number): Promise<boolean> {
    let cancelled = false;
    const cancel = (): void => {
      cancelled = true;
      this.connection.write([Uint8Array.of(TorchOp.CANCEL_WAIT)]);
      this.soon(answered).catch(() => undefined);
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(cancel, Math.min(timeoutMs, MAX_TIMER_MS));
    const read = function* (first: number): Generator<number, boolean, Uint8Array> {
      // The end of the wait and its cancellation may have crossed: then both are answered.
      if (cancelled && first === STOP_WAITING) yield 1;
      return first === STOP_WAITING;
    };
    const answered = this.exchange([Uint8Array.of(TorchOp.WAIT), ...keyFields(keys)], read);
    try {
      return await answered;
    } finally {
      clearTimeout(timer);
    }
  }

  async check(keys: readonly string[]): Promise<boolean> {
    return (await this.ask(TorchOp.CHECK, keyFields(keys), readByte)) === READY;
  }

  add(key: string, delta: bigint): Promise<bigint> {
    return this.ask(TorchOp.ADD, [keyField(key), i64(delta)], readI64);
  }

  /** As `add`, of a key that torch's own clients put nothing before. */
  addBare(key: string, delta: bigint): Promise<bigint> {
    return this.ask(TorchOp.ADD, [field(new TextEncoder().encode(key)), i64(delta)], readI64);
  }

  append(key: string, value: Uint8Array): Promise<void> {
    return this.tell(TorchOp.APPEND, [keyField(key), field(value)]);
  }

  /** Resolves with the value afterwards; of a missing key and an `expected` that is not empty, with `expected`. */
  compareAndSet(key: string, expected: Uint8Array, desired: Uint8Array): Promise<Uint8Array> {
    return this.ask(TorchOp.COMPARE_SET, [keyField(key), field(expected), field(desired)], readBlob);
  }

  async delete(key: string): Promise<boolean> {
    return (await this.ask(TorchOp.DELETE_KEY, [keyField(key)], readI64)) > 0n;
  }

  /** Keys of all kinds, also those of clients that put nothing before their keys. */
  async countKeys(): Promise<number> {
    return Number(await this.ask(TorchOp.GETNUMKEYS, [], readI64));
  }

  async listKeys(): Promise<string[]> {
    const keys = await this.ask(TorchOp.LIST_KEYS, [], function* (first) {
      const count = yield* readI64(first);
      if (count > BigInt(MAX_KEYS_PER_REQUEST))
        throw new RpcError('protocol-error', `a list of ${count} keys, at most ${MAX_KEYS_PER_REQUEST} are taken`);
      return yield* readBlobs(Number(count));
    });
    return keys.map((key) => new TextDecoder().decode(key).replace(/^\//, ''));
  }

  /** All have to exist. */
  multiGet(keys: readonly string[]): Promise<Uint8Array[]> {
    if (keys.length === 0) return Promise.resolve([]);
    return this.ask(TorchOp.MULTI_GET, keyFields(keys), function* (first) {
      const one = yield* readBlob(first);
      return [one, ...(yield* readBlobs(keys.length - 1))];
    });
  }

  multiSet(values: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const fields = [...values].flatMap(([key, value]) => [keyField(key), field(value)]);
    return this.tell(TorchOp.MULTI_SET, [u64(values.size), ...fields]);
  }

  push(key: string, value: Uint8Array): Promise<void> {
    return this.tell(TorchOp.QUEUE_PUSH, [keyField(key), field(value)]);
  }

  /** undefined when the queue is empty. */
  pop(key: string): Promise<Uint8Array | undefined> {
    return this.ask(TorchOp.QUEUE_POP, [keyField(key)], function* (first) {
      const before = yield* readI64(first);
      return before > 0n ? (yield* readBlobs(1))[0] : undefined;
    });
  }

  async queueLength(key: string): Promise<number> {
    return Number(await this.ask(TorchOp.QUEUE_LEN, [keyField(key)], readI64));
  }

  /** Resolves once `worldSize` clients have arrived at `key`. */
  async barrier(key: string, worldSize: number): Promise<void> {
    await this.exchange([Uint8Array.of(TorchOp.BARRIER), keyField(key), i64(BigInt(worldSize))], readByte);
  }

  close(): void {
    this.connection.close();
    this.end(closedError());
  }

  private ask<T>(op: number, parts: readonly Uint8Array[], read: Read<T>): Promise<T> {
    return this.request([Uint8Array.of(op), ...parts], read);
  }

  /** An operation without an answer: the ping behind it tells that it was read. */
  private async tell(op: number, parts: readonly Uint8Array[]): Promise<void> {
    await this.request([Uint8Array.of(op), ...parts, Uint8Array.of(TorchOp.PING), u32(PING_NONCE)], readBytes(4));
  }

  /** A request that is answered at once. */
  private request<T>(parts: readonly Uint8Array[], read: Read<T>): Promise<T> {
    return this.soon(this.exchange(parts, read));
  }

  /** What comes of `answered`, which the server owes by now. */
  private soon<T>(answered: Promise<T>): Promise<T> {
    return this.patience.limit([], (late) => {
      watchAbort(late, () => this.silent());
      return answered;
    });
  }

  /** A request that is answered when others have done something. */
  private exchange<T>(parts: readonly Uint8Array[], read: Read<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.over !== undefined) return reject(this.over);
      if (this.pending !== undefined) return reject(new RpcError('failed-precondition', 'one request at a time'));
      const take = function* (first: number): Generator<number, void, Uint8Array> {
        resolve(yield* read(first));
      };
      this.pending = { take, reject };
      this.connection.write(parts);
    });
  }

  private *program(): ReadProgram {
    for (;;) {
      const first = (yield 1)[0] as number;
      const { pending } = this;
      if (pending === undefined) throw new RpcError('protocol-error', 'an answer nobody asked for');
      yield* pending.take(first);
      this.patience.heard();
      this.pending = undefined;
    }
  }

  private readonly onAbort = (): void => {
    this.connection.destroy();
    this.end(new RpcError('cancelled', 'waiting for the store was cancelled', { cause: this.signal?.reason }));
  };

  /** An answer that comes later would be taken for that of the next request: nothing more is asked here. */
  private silent(): void {
    this.connection.destroy();
    const text = `the store at ${this.endpoint} has not answered in ${this.requestMs} ms`;
    this.end(new RpcError('unavailable', text));
  }

  private end(error: RpcError): void {
    if (this.over !== undefined) return;
    this.over = error;
    this.signal?.removeEventListener('abort', this.onAbort);
    const { code, message } = error;
    this.pending?.reject(new RpcError(code, message, { executed: 'maybe', cause: error.cause ?? error }));
    this.pending = undefined;
  }
}

/** Why the connection is over: what came was no answer, or the store, or the network before it, just went. */
function goneError(endpoint: string, error: Error | undefined): RpcError {
  const known = rpcInfo(error);
  if (known?.code !== 'protocol-error') return new RpcError('unavailable', `the store at ${endpoint} went away`);
  const why = bareText(known.code, known.message);
  return new RpcError(known.code, `${endpoint} is no store of torch, or a broken one: ${why}`, { cause: error });
}

// eslint-disable-next-line require-yield -- the one byte has been read already
const readByte: Read<number> = function* (first) {
  return first;
};

const readI64: Read<bigint> = function* (first) {
  const head = Uint8Array.of(first, ...(yield 7));
  return new DataView(head.buffer).getBigInt64(0, true);
};

const readBlob: Read<Uint8Array> = function* (first) {
  const length = yield* readI64(first);
  if (length < 0n || length > BigInt(MAX_VALUE_BYTES))
    throw new RpcError('protocol-error', `a value of ${length} bytes, at most ${MAX_VALUE_BYTES} are taken`);
  return length === 0n ? new Uint8Array(0) : (yield Number(length)).slice();
};

function readBytes(count: number): Read<Uint8Array> {
  return function* (first) {
    return Uint8Array.of(first, ...(yield count - 1));
  };
}

function* readBlobs(count: number): Generator<number, Uint8Array[], Uint8Array> {
  const blobs: Uint8Array[] = [];
  let bytes = 0;
  while (blobs.length < count) {
    const blob = yield* readBlob((yield 1)[0] as number);
    bytes += blob.byteLength;
    if (bytes > MAX_LIST_BYTES)
      throw new RpcError('protocol-error', `a list of more than ${MAX_LIST_BYTES} bytes, which is all that is taken`);
    blobs.push(blob);
  }
  return blobs;
}

/** torch's client puts a '/' before every key. */
function keyField(key: string): Uint8Array {
  return field(new TextEncoder().encode(`/${key}`));
}

function keyFields(keys: readonly string[]): Uint8Array[] {
  return [u64(keys.length), ...keys.map(keyField)];
}

function field(content: Uint8Array): Uint8Array {
  return Buffer.concat([u64(content.byteLength), content]);
}

function u64(value: number): Uint8Array {
  return i64(BigInt(value));
}
