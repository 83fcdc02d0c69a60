/** @file The few operations of torch's TCPStore that a program needs under torchrun: to set a key, and to wait for one. */
import { RpcError } from '../errors.ts';
import { SocketConnection } from '../transports/socket.ts';
import { tcpTransport } from '../transports/tcp.ts';
import type { Connection } from '../transports/transport.ts';
import { ByteReader, type ReadProgram } from './byte-reader.ts';
import { MAX_VALUE_BYTES } from './limits.ts';
import { TORCH_MAGIC, TorchOp } from './torch-ops.ts';

/** A connection to a store that torch serves. One request at a time. */
export interface TorchClient {
  /** The address of this machine from which the store is reached. */
  readonly localHost: string;
  set(key: string, value: Uint8Array): Promise<void>;
  /** The value once there is one. */
  waitFor(key: string): Promise<Uint8Array>;
  close(): void;
}

const PING_NONCE = 0x6277;

/**
 * Connects to a TCPStore of torch 2.3 or later. `signal` ends the connection, and with it whatever waits.
 * @throws RpcError 'unavailable', 'cancelled', 'protocol-error' when something else answers.
 */
export async function torchClient(
  endpoint: string,
  options: { signal?: AbortSignal | undefined; timeoutMs?: number } = {},
): Promise<TorchClient> {
  const connection = await tcpTransport().dial(endpoint, options);
  const localHost = connection instanceof SocketConnection ? (connection.raw.localAddress ?? '127.0.0.1') : '127.0.0.1';
  const client = new Client(connection, endpoint, localHost, options.signal);
  await client.greet();
  return client;
}

/** What comes back: the nonce of a ping, one byte, or a length and a value. */
type Answer = 'ping' | 'byte' | 'value';

interface Pending {
  readonly answer: Answer;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (error: RpcError) => void;
}

class Client implements TorchClient {
  readonly localHost: string;
  private readonly connection: Connection;
  private readonly endpoint: string;
  private readonly signal: AbortSignal | undefined;
  private pending: Pending | undefined;
  private over: RpcError | undefined;

  constructor(connection: Connection, endpoint: string, localHost: string, signal: AbortSignal | undefined) {
    this.localHost = localHost;
    this.connection = connection;
    this.endpoint = endpoint;
    this.signal = signal;
    signal?.addEventListener('abort', this.onAbort, { once: true });
    connection.attach(
      new ByteReader(this.program(), () => this.end(new RpcError('unavailable', `the store at ${endpoint} went away`))),
    );
  }

  async greet(): Promise<void> {
    const nonce = u32(PING_NONCE);
    const echo = await this.request(
      [Uint8Array.of(TorchOp.VALIDATE), u32(TORCH_MAGIC), Uint8Array.of(TorchOp.PING), nonce],
      'ping',
    );
    if (Buffer.compare(echo, nonce) === 0) return;
    this.connection.destroy();
    throw new RpcError('protocol-error', `${this.endpoint} is no store of torch`);
  }

  async set(key: string, value: Uint8Array): Promise<void> {
    // SET has no answer; the ping behind it tells that it was read.
    await this.request(
      [Uint8Array.of(TorchOp.SET), field(keyBytes(key)), field(value), Uint8Array.of(TorchOp.PING), u32(PING_NONCE)],
      'ping',
    );
  }

  async waitFor(key: string): Promise<Uint8Array> {
    const name = field(keyBytes(key));
    await this.request([Uint8Array.of(TorchOp.WAIT), u64(1), name], 'byte');
    return this.request([Uint8Array.of(TorchOp.GET), name], 'value');
  }

  close(): void {
    this.connection.close();
    this.end(new RpcError('failed-precondition', 'the store is closed'));
  }

  private request(parts: readonly Uint8Array[], answer: Answer): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      if (this.over !== undefined) return reject(this.over);
      if (this.pending !== undefined) return reject(new RpcError('failed-precondition', 'one request at a time'));
      this.pending = { answer, resolve, reject };
      this.connection.write(parts);
    });
  }

  private *program(): ReadProgram {
    for (;;) {
      const first = (yield 1)[0] as number;
      const { pending } = this;
      if (pending === undefined) throw new RpcError('protocol-error', 'an answer nobody asked for');
      const whole = yield* rest(pending.answer, first);
      this.pending = undefined;
      pending.resolve(whole);
    }
  }

  private readonly onAbort = (): void => {
    this.connection.destroy();
    this.end(new RpcError('cancelled', 'waiting for the store was cancelled', { cause: this.signal?.reason }));
  };

  private end(error: RpcError): void {
    if (this.over !== undefined) return;
    this.over = error;
    this.signal?.removeEventListener('abort', this.onAbort);
    this.pending?.reject(error);
    this.pending = undefined;
  }
}

/** The answer whose first byte has been read. */
function* rest(answer: Answer, first: number): Generator<number, Uint8Array, Uint8Array> {
  if (answer === 'byte') return Uint8Array.of(first);
  if (answer === 'ping') return Uint8Array.of(first, ...(yield 3));
  const head = Uint8Array.of(first, ...(yield 7));
  const length = new DataView(head.buffer).getBigUint64(0, true);
  if (length > BigInt(MAX_VALUE_BYTES)) throw new RpcError('protocol-error', `a value of ${length} bytes`);
  return length === 0n ? new Uint8Array(0) : (yield Number(length)).slice();
}

/** torch's client puts a '/' before every key. */
function keyBytes(key: string): Uint8Array {
  return new TextEncoder().encode(`/${key}`);
}

function field(content: Uint8Array): Uint8Array {
  return Buffer.concat([u64(content.byteLength), content]);
}

function u32(value: number): Uint8Array {
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value, true);
  return out;
}

function u64(value: number): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, BigInt(value), true);
  return out;
}
