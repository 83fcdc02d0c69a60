/** @file Connections inside one process: bytes are copied from writer to reader, a turn of the event loop later. */
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import { newId } from '../base/ids.ts';
import { later } from '../base/platform.ts';
import { INSIDE } from '../security/protection.ts';
import { asError, closedError, copyTo, listenerAt } from './connection-parts.ts';
import { cancelled } from './dialling.ts';
import type { ByteSink, Connection, DialOptions, ListenOptions, Listener, Transport } from './transport.ts';

/** Bytes moved in one turn, so that a large body does not hold up the event loop. */
const BYTES_PER_TURN = 1024 * 1024;

const listeners = new Map<string, (connection: Connection) => void>();
const domain = `process-${newId()}`;
let counter = 0;

/** 'memory://…'. The order of events depends on nothing but the order of the calls. */
export function memoryTransport(): Transport {
  return { name: 'memory', domain, isViable: () => true, listen, dial };
}

/** Two connected ends. */
export function memoryPair(
  remotes: readonly [string, string] = ['memory://a', 'memory://b'],
): [Connection, Connection] {
  const a = new MemoryConnection(remotes[1]);
  const b = new MemoryConnection(remotes[0]);
  a.join(b);
  b.join(a);
  return [a, b];
}

async function listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener> {
  // Always a name of its own: `host` and `advertise` are about machines.
  const endpoint = `memory://${domain}-${++counter}`;
  listeners.set(endpoint, onConnection);
  return listenerAt(endpoint, options.signal, () => void listeners.delete(endpoint));
}

function dial(endpoint: string, { signal }: DialOptions = {}): Promise<Connection> {
  return new Promise((resolve, reject) => {
    runAtRoot(() =>
      later(() => {
        if (signal?.aborted) return reject(cancelled(endpoint, signal));
        const accept = listeners.get(endpoint);
        if (accept === undefined)
          return reject(new RpcError('unavailable', `cannot connect to ${endpoint}: nobody listens`));
        const [ours, theirs] = memoryPair([`${endpoint}#${++counter}`, endpoint]);
        accept(theirs);
        resolve(ours);
      }),
    );
  });
}

interface Pending {
  readonly bytes: Uint8Array;
  at: number;
  readonly onFlushed: ((error?: Error) => void) | undefined;
}

class MemoryConnection implements Connection {
  readonly kind = 'memory';
  readonly paced = false;
  readonly remote: string;
  readonly protection = INSIDE;
  bufferedBytes = 0;
  sentBytes = 0;
  receivedBytes = 0;
  closed = false;

  private peer!: MemoryConnection;
  private sink: ByteSink | undefined;
  /** What this side wrote and the other one has not taken; bounded by the writer, which sees `bufferedBytes`. */
  private readonly queue: Pending[] = [];
  private ended = false;
  private scheduled = false;
  private failure: Error | undefined;

  constructor(remote: string) {
    this.remote = remote;
  }

  join(peer: MemoryConnection): void {
    this.peer = peer;
  }

  attach(sink: ByteSink | undefined): void {
    const before = this.sink;
    this.sink = sink;
    if (sink === undefined || sink === before) return;
    if (this.closed) later(() => sink.closed(this.failure));
    else this.peer.schedule();
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    if (this.closed || this.ended) {
      if (onFlushed !== undefined) later(() => onFlushed(this.failure ?? closedError(this.remote)));
      return;
    }
    for (const [i, bytes] of chunks.entries()) {
      this.bufferedBytes += bytes.byteLength;
      this.queue.push({ bytes, at: 0, onFlushed: i === chunks.length - 1 ? onFlushed : undefined });
    }
    if (chunks.length === 0 && onFlushed !== undefined) this.queue.push({ bytes: new Uint8Array(0), at: 0, onFlushed });
    this.schedule();
  }

  close(): void {
    if (this.ended || this.closed) return;
    this.ended = true;
    this.schedule();
  }

  destroy(error?: Error): void {
    if (this.closed) return;
    this.failure = error;
    this.finish();
    runAtRoot(() =>
      later(() => {
        this.tellClosed();
        if (this.peer.closed) return;
        // As a reset does: what the other side still had to send is lost.
        if (this.peer.queue.length > 0) this.peer.failure = closedError(this.peer.remote);
        this.peer.finish();
        this.peer.tellClosed();
      }),
    );
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    runAtRoot(() =>
      later(() => {
        this.scheduled = false;
        this.move();
      }),
    );
  }

  /** One turn: copies from this side's queue into the other side's sink. */
  private move(): void {
    let budget = BYTES_PER_TURN;
    while (budget > 0 && this.queue.length > 0 && !this.closed && this.peer.accepts()) {
      const head = this.queue[0] as Pending;
      const count = this.peer.take(head, budget);
      head.at += count;
      budget -= count;
      this.bufferedBytes -= count;
      this.sentBytes += count;
      if (this.closed || head.at < head.bytes.byteLength) continue;
      this.queue.shift();
      head.onFlushed?.();
    }
    if (this.closed) return;
    if (this.queue.length > 0) {
      if (this.peer.accepts()) this.schedule();
    } else if (this.ended && (this.peer.sink !== undefined || this.peer.ended)) {
      this.endOfStream();
    }
  }

  /** This side has sent all it will: the other one finishes its own direction, then both are closed. */
  private endOfStream(): void {
    const { peer } = this;
    if (!peer.ended || peer.queue.length > 0) {
      peer.ended = true;
      peer.schedule();
      return;
    }
    this.finish();
    peer.finish();
    this.tellClosed();
    peer.tellClosed();
  }

  /** After `close` without a sink, bytes are taken and forgotten. */
  private accepts(): boolean {
    return !this.closed && (this.sink !== undefined || this.ended);
  }

  private take({ bytes, at }: Pending, budget: number): number {
    const { sink } = this;
    const most = Math.min(bytes.byteLength - at, budget);
    if (most === 0 || sink === undefined) return most;
    try {
      const count = copyTo(sink, bytes, at, at + most);
      this.receivedBytes += count;
      sink.received(count);
      return count;
    } catch (error) {
      this.destroy(asError(error));
      return 0;
    }
  }

  private finish(): void {
    this.closed = true;
    this.ended = true;
    const error = this.failure ?? closedError(this.remote);
    for (const pending of this.queue.splice(0)) {
      if (pending.onFlushed !== undefined) later(() => pending.onFlushed?.(error));
    }
    this.bufferedBytes = 0;
  }

  private tellClosed(): void {
    this.sink?.closed(this.failure);
  }
}
