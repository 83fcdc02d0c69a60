/** @file One end of a pair of message ports as a connection: bytes go by shared memory or copy, never by transfer. */
import type { MessagePort } from 'node:worker_threads';
import { runAtRoot } from '@backwire/tensor/internal';
import { INSIDE } from '../security/protection.ts';
import { asError, closedError, copyTo } from './connection-parts.ts';
import type { ByteSink, Connection } from './transport.ts';

/** What one message carries: long enough to be cheap, short enough that the reader's loop turns in between. */
const PIECE_BYTES = 256 * 1024;
/** Shorter pieces are copied into the message; longer ones go through shared memory. */
const COPIED_BYTES = 16 * 1024;
/** Posted and not taken by the reader yet: bounds the shared memory of one connection as well. */
const WINDOW_BYTES = 4 * 1024 * 1024;
/** Bytes taken are told to the writer at the end of the turn, or at once when they are so many. */
const ACK_BYTES = 1024 * 1024;

/** What ports carry; anything else ends the connection. */
type Note = readonly ['data', Uint8Array] | readonly ['taken', number] | readonly ['end'] | readonly ['reset'];

interface Write {
  readonly chunk: Uint8Array;
  at: number;
  readonly onFlushed: ((error?: Error) => void) | undefined;
}

/** A message that was posted: what it holds until the reader has taken it. */
interface Posted {
  readonly bytes: number;
  readonly slab: SharedArrayBuffer | undefined;
  /** Writes that end with it. */
  readonly ended: readonly Write[];
}

/**
 * The writer's memory is read when a piece is posted: shared memory is posted as it is, long pieces through slabs of shared memory
 * that are used again, short ones inside the message. The reader copies them to where its sink wants them and says how much it took.
 */
export class PortConnection implements Connection {
  readonly kind = 'port';
  readonly paced = false;
  readonly remote: string;
  readonly protection = INSIDE;
  bufferedBytes = 0;
  sentBytes = 0;
  receivedBytes = 0;
  closed = false;

  private readonly port: MessagePort;
  private sink: ByteSink | undefined;
  private queue: Write[] = [];
  private head = 0;
  private readonly posted: Posted[] = [];
  private postedBytes = 0;
  private readonly slabs: SharedArrayBuffer[] = [];
  /** Pieces that no sink has taken; bounded by the writer's window. */
  private readonly held: { readonly bytes: Uint8Array; at: number }[] = [];
  /** Messages, and their bytes, that the writer has not been told of. */
  private taken = 0;
  private unacked = 0;
  private delivering = false;
  private scheduled = false;
  private ackScheduled = false;
  private ended = false;
  private endPosted = false;
  private peerEnded = false;
  private failure: Error | undefined;

  constructor(port: MessagePort, remote: string) {
    this.port = port;
    this.remote = remote;
    runAtRoot(() => {
      port.on('message', (note: unknown) => this.onNote(note));
      port.on('messageerror', (error: Error) => this.destroy(error));
      port.on('close', () => this.onPortClosed());
    });
  }

  attach(sink: ByteSink | undefined): void {
    const before = this.sink;
    this.sink = sink;
    if (sink === undefined || sink === before) return;
    if (this.closed) setImmediate(() => sink.closed(this.failure));
    else this.schedule();
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    if (this.closed || this.ended) {
      if (onFlushed !== undefined) setImmediate(onFlushed, this.failure ?? closedError(this.remote));
      return;
    }
    const parts = chunks.filter((chunk) => chunk.byteLength > 0);
    if (parts.length === 0) parts.push(new Uint8Array(0));
    for (const [i, chunk] of parts.entries()) {
      this.bufferedBytes += chunk.byteLength;
      this.queue.push({ chunk, at: 0, onFlushed: i === parts.length - 1 ? onFlushed : undefined });
    }
    this.pump();
  }

  close(): void {
    if (this.ended || this.closed) return;
    this.ended = true;
    this.pump();
    this.schedule();
  }

  destroy(error?: Error): void {
    if (this.closed) return;
    this.failure = error;
    this.post(['reset']);
    this.finish();
    setImmediate(() => this.sink?.closed(this.failure));
  }

  /** Posts as much as the window allows, short chunks of the queue together in one message. */
  private pump(): void {
    while (this.head < this.queue.length && this.postedBytes < WINDOW_BYTES && !this.closed) this.postPiece();
    if (this.head === this.queue.length) {
      this.queue = [];
      this.head = 0;
    }
    if (this.ended && !this.endPosted && this.queue.length === 0 && !this.closed) {
      this.endPosted = true;
      this.post(['end']);
      this.settle();
    }
  }

  private postPiece(): void {
    const first = this.queue[this.head] as Write;
    const left = first.chunk.byteLength - first.at;
    if (left > COPIED_BYTES && first.chunk.buffer instanceof SharedArrayBuffer) {
      const bytes = Math.min(left, PIECE_BYTES);
      this.send(first.chunk.subarray(first.at, first.at + bytes), undefined, this.advance(bytes));
      return;
    }
    const bytes = this.gatherable();
    const slab = bytes > COPIED_BYTES ? (this.slabs.pop() ?? new SharedArrayBuffer(PIECE_BYTES)) : undefined;
    const piece = slab === undefined ? new Uint8Array(bytes) : new Uint8Array(slab, 0, bytes);
    const ended: Write[] = [];
    for (let at = 0; ;) {
      const write = this.queue[this.head] as Write;
      const count = Math.min(bytes - at, write.chunk.byteLength - write.at);
      piece.set(write.chunk.subarray(write.at, write.at + count), at);
      at += count;
      ended.push(...this.advance(count));
      if (at === bytes) break;
    }
    this.send(piece, slab, ended);
  }

  /** How many bytes of the queue go into one message: up to a piece, and no long shared memory, which goes by itself. */
  private gatherable(): number {
    let bytes = 0;
    for (let i = this.head; i < this.queue.length && bytes < PIECE_BYTES; i++) {
      const { chunk, at } = this.queue[i] as Write;
      const left = chunk.byteLength - at;
      if (i > this.head && left > COPIED_BYTES && chunk.buffer instanceof SharedArrayBuffer) break;
      bytes += left;
    }
    return Math.min(bytes, PIECE_BYTES);
  }

  /** Moves on in the queue; the writes that are posted whole by it. */
  private advance(count: number): Write[] {
    const write = this.queue[this.head] as Write;
    write.at += count;
    if (write.at < write.chunk.byteLength) return [];
    this.head++;
    return [write];
  }

  private send(piece: Uint8Array, slab: SharedArrayBuffer | undefined, ended: readonly Write[]): void {
    this.posted.push({ bytes: piece.byteLength, slab, ended });
    this.postedBytes += piece.byteLength;
    this.bufferedBytes -= piece.byteLength;
    this.sentBytes += piece.byteLength;
    this.post(['data', piece]);
  }

  private post(note: Note): void {
    this.port.postMessage(note);
  }

  private onNote(note: unknown): void {
    if (this.closed) return;
    if (!Array.isArray(note)) return this.destroy(new Error('a message that is none of ours'));
    const [kind, value] = note as unknown[];
    if (kind === 'data' && value instanceof Uint8Array) {
      this.held.push({ bytes: value, at: 0 });
      this.deliver();
    } else if (kind === 'taken' && typeof value === 'number') this.onTaken(value);
    else if (kind === 'end') {
      this.peerEnded = true;
      this.settle();
    } else if (kind === 'reset') {
      // What this side still had to send is lost.
      if (this.bufferedBytes > 0 || this.posted.length > 0) this.failure = closedError(this.remote);
      this.endNow();
    } else this.destroy(new Error('a message that is none of ours'));
  }

  private onTaken(messages: number): void {
    for (let i = 0; i < messages && !this.closed; i++) {
      const posted = this.posted.shift();
      if (posted === undefined) return this.destroy(new Error('more was taken than was sent'));
      const { bytes, slab, ended } = posted;
      this.postedBytes -= bytes;
      if (slab !== undefined) this.slabs.push(slab);
      for (const write of ended) write.onFlushed?.();
    }
    if (this.closed) return;
    this.pump();
    // The peer may have ended long ago, and waited for what it has now taken.
    this.settle();
  }

  private deliver(): void {
    if (this.delivering) return;
    this.delivering = true;
    try {
      while (this.held.length > 0 && !this.closed && (this.sink !== undefined || this.ended)) this.deliverPiece();
    } catch (error) {
      this.destroy(asError(error));
    } finally {
      this.delivering = false;
    }
    if (!this.closed) this.settle();
  }

  private deliverPiece(): void {
    const piece = this.held[0] as { bytes: Uint8Array; at: number };
    const { bytes } = piece;
    while (piece.at < bytes.byteLength && !this.closed) {
      // After `close` without a sink, bytes are taken and forgotten.
      if (this.sink === undefined) {
        if (!this.ended) return;
        break;
      }
      const count = copyTo(this.sink, bytes, piece.at, bytes.byteLength);
      piece.at += count;
      this.receivedBytes += count;
      this.sink.received(count);
    }
    this.held.shift();
    this.tookOne(bytes.byteLength);
  }

  private tookOne(bytes: number): void {
    if (this.closed) return;
    this.taken++;
    this.unacked += bytes;
    if (this.unacked >= ACK_BYTES) this.sendTaken();
    else if (!this.ackScheduled) {
      this.ackScheduled = true;
      runAtRoot(() => setImmediate(() => this.sendTaken()));
    }
  }

  private sendTaken(): void {
    this.ackScheduled = false;
    if (this.taken > 0 && !this.closed) this.post(['taken', this.taken]);
    this.taken = 0;
    this.unacked = 0;
  }

  /** Later, so that no sink is called inside a call of its owner. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    runAtRoot(() =>
      setImmediate(() => {
        this.scheduled = false;
        if (!this.closed) this.deliver();
      }),
    );
  }

  /** The peer has sent all it will and it was taken: this side finishes its own direction, then both are closed. */
  private settle(): void {
    if (!this.peerEnded || this.held.length > 0 || this.closed) return;
    if (this.sink === undefined && !this.ended) return;
    if (!this.ended) {
      this.ended = true;
      this.pump();
      return;
    }
    if (!this.endPosted) return;
    this.sendTaken();
    if (this.posted.length > 0) return;
    this.endNow();
  }

  private onPortClosed(): void {
    if (this.closed) return;
    const clean = this.peerEnded && this.endPosted && this.held.length === 0;
    if (!clean) this.failure = closedError(this.remote);
    this.endNow();
  }

  private endNow(): void {
    this.finish();
    try {
      this.sink?.closed(this.failure);
    } catch {
      // Nobody is left to be told by this connection.
    }
  }

  private finish(): void {
    this.closed = true;
    this.ended = true;
    const error = this.failure ?? closedError(this.remote);
    const writes = [...this.posted.flatMap(({ ended }) => ended), ...this.queue.slice(this.head)];
    for (const { onFlushed } of writes) if (onFlushed !== undefined) setImmediate(onFlushed, error);
    this.posted.length = 0;
    this.queue = [];
    this.head = 0;
    this.held.length = 0;
    this.slabs.length = 0;
    this.bufferedBytes = 0;
    this.port.close();
  }
}
