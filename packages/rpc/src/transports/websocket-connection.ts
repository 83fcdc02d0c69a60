/** @file A WebSocket, of a browser or of the package `ws`, as a connection: a stream of bytes cut into binary messages. */
import { RpcError } from '../base/errors.ts';
import { unref } from '../base/platform.ts';
import type { Protection } from '../security/protection.ts';
import { asError, closedError, copyTo } from './connection-parts.ts';
import type { ByteSink, Connection } from './transport.ts';

/** The longest message: larger writes are cut, so that a receiver can bound what it takes before it has looked at it. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;
/** What a socket that cannot be paused (a browser's) may deliver to nobody before the connection is given up. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** How often a socket without callbacks is asked what it still holds, beside whenever a message comes. */
const POLL_MS = 5;
/** How long the peer may take to answer the closing of a WebSocket. */
const LINGER_MS = 10_000;
const NORMAL = 1_000;
const GOING_AWAY = 1_001;
const NO_STATUS = 1_005;

/** What both kinds of WebSocket have; the optional parts are those of `ws`. */
export interface AnyWebSocket {
  binaryType: string;
  readonly bufferedAmount: number;
  send(data: Uint8Array, done?: (error?: Error) => void): void;
  close(code?: number): void;
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void;
  addEventListener(type: 'close', listener: (event: { code: number }) => void): void;
  addEventListener(type: 'error', listener: (event: unknown) => void): void;
  pause?(): void;
  resume?(): void;
  terminate?(): void;
}

interface Pending {
  readonly bytes: number;
  readonly onFlushed: ((error?: Error) => void) | undefined;
}

export class WebSocketConnection implements Connection {
  readonly kind = 'ws';
  readonly paced = true;
  readonly remote: string;
  readonly protection: Protection;
  receivedBytes = 0;
  sentBytes = 0;
  bufferedBytes = 0;
  closed = false;

  private readonly socket: AnyWebSocket;
  private sink: ByteSink | undefined;
  /** Messages on their way out, oldest first; each is told of once. */
  private readonly pending: Pending[] = [];
  /** Bytes that came while no sink was attached. */
  private held: Uint8Array[] = [];
  private heldBytes = 0;
  private delivering = false;
  private scheduled = false;
  private closing = false;
  private failure: Error | undefined;
  private destroyed = false;
  private poll: ReturnType<typeof setInterval> | undefined;
  private linger: ReturnType<typeof setTimeout> | undefined;

  /** `socket` is open. */
  constructor(socket: AnyWebSocket, remote: string, protection: Protection) {
    this.socket = socket;
    this.remote = remote;
    this.protection = protection;
    socket.binaryType = 'arraybuffer';
    socket.pause?.();
    socket.addEventListener('message', (event) => this.onMessage(event.data));
    socket.addEventListener('error', (event) => {
      this.failure ??= (event as { error?: Error }).error ?? new Error('the WebSocket failed');
    });
    socket.addEventListener('close', (event) => this.onClose(event.code));
  }

  attach(sink: ByteSink | undefined): void {
    const before = this.sink;
    this.sink = sink;
    if (sink === before) return;
    if (this.closed) {
      if (sink !== undefined) queueMicrotask(() => sink.closed(this.failure));
      return;
    }
    if (sink === undefined) this.socket.pause?.();
    else this.schedule();
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    if (this.closing || this.closed || this.destroyed) {
      const error = this.failure ?? closedError(this.remote);
      if (onFlushed !== undefined) queueMicrotask(() => onFlushed(error));
      return;
    }
    const messages = chunks.flatMap(cut);
    if (messages.length === 0) {
      if (onFlushed !== undefined) queueMicrotask(onFlushed);
      return;
    }
    for (const [i, message] of messages.entries()) {
      this.pending.push({ bytes: message.byteLength, onFlushed: i === messages.length - 1 ? onFlushed : undefined });
      this.bufferedBytes += message.byteLength;
      if (this.socket.terminate === undefined) this.socket.send(message);
      else this.socket.send(message, (error) => this.flushed(error));
    }
    if (this.socket.terminate === undefined) this.startPoll();
  }

  close(): void {
    if (this.closing || this.closed) return;
    this.closing = true;
    this.socket.resume?.();
    this.socket.close(NORMAL);
    this.linger = setTimeout(() => this.destroy(), LINGER_MS);
    unref(this.linger);
  }

  destroy(error?: Error): void {
    if (this.closed || this.destroyed) return;
    this.destroyed = true;
    this.failure ??= error;
    if (this.socket.terminate !== undefined) {
      this.socket.terminate();
      return;
    }
    // A browser tells of the end once the peer has agreed to it, or after a minute.
    this.socket.close();
    queueMicrotask(() => this.onClose(NORMAL));
  }

  /** The oldest message has left, or will not. */
  private flushed(error: Error | undefined): void {
    const first = this.pending.shift();
    if (first === undefined) return;
    this.bufferedBytes -= first.bytes;
    const failed = error ?? (this.destroyed ? (this.failure ?? closedError(this.remote)) : undefined);
    if (failed === undefined) this.sentBytes += first.bytes;
    first.onFlushed?.(failed);
  }

  /** Without callbacks: what the socket holds tells which messages have left. */
  private startPoll(): void {
    this.poll ??= setInterval(() => this.lookWhatLeft(), POLL_MS);
  }

  private lookWhatLeft(): void {
    let left = this.bufferedBytes;
    while (this.pending.length > 0 && left > this.socket.bufferedAmount) {
      left -= (this.pending[0] as Pending).bytes;
      if (left < this.socket.bufferedAmount) break;
      this.flushed(undefined);
    }
    if (this.pending.length > 0) return;
    clearInterval(this.poll);
    this.poll = undefined;
  }

  private onMessage(data: unknown): void {
    if (this.closed || this.destroyed) return;
    // The timers of a page that nobody sees run once a second or once a minute; messages come as they come.
    if (this.poll !== undefined) this.lookWhatLeft();
    if (!(data instanceof ArrayBuffer)) {
      this.destroy(new RpcError('protocol-error', 'a message that is not binary'));
      return;
    }
    if (data.byteLength > MAX_MESSAGE_BYTES) {
      this.destroy(new RpcError('protocol-error', `a message of ${data.byteLength} bytes, which is longer than any`));
      return;
    }
    const bytes = new Uint8Array(data);
    if (this.sink === undefined || this.held.length > 0 || this.delivering) this.hold(bytes);
    else this.deliver(bytes);
  }

  private hold(bytes: Uint8Array): void {
    // After `close` without a sink, what comes is taken and forgotten.
    if (this.closing && this.sink === undefined) return;
    this.held.push(bytes);
    this.heldBytes += bytes.byteLength;
    if (this.heldBytes > MAX_HELD_BYTES) this.destroy(new Error('more came than may wait'));
  }

  private deliver(bytes: Uint8Array): void {
    let at = 0;
    this.delivering = true;
    try {
      while (at < bytes.byteLength && this.sink !== undefined && !this.destroyed) {
        const count = copyTo(this.sink, bytes, at, bytes.byteLength);
        at += count;
        this.receivedBytes += count;
        this.sink.received(count);
      }
    } catch (error) {
      this.destroy(asError(error));
    } finally {
      this.delivering = false;
    }
    if (at >= bytes.byteLength || this.destroyed) return;
    this.held.unshift(bytes.subarray(at));
    this.heldBytes += bytes.byteLength - at;
    if (this.sink === undefined) this.socket.pause?.();
    else this.schedule();
  }

  /** Later, so that no sink is called inside a call of its owner. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      while (this.held.length > 0 && this.sink !== undefined && !this.destroyed) {
        const next = this.held.shift() as Uint8Array;
        this.heldBytes -= next.byteLength;
        this.deliver(next);
      }
      if (this.sink !== undefined && this.held.length === 0 && !this.closed) this.socket.resume?.();
    });
  }

  private onClose(code: number): void {
    if (this.closed) return;
    this.closed = true;
    clearInterval(this.poll);
    clearTimeout(this.linger);
    const normal = code === NORMAL || code === GOING_AWAY || code === NO_STATUS;
    if (!normal && !this.destroyed) this.failure ??= closedError(this.remote);
    const error = this.failure ?? closedError(this.remote);
    while (this.pending.length > 0) this.flushed(error);
    try {
      this.sink?.closed(this.failure);
    } catch {
      // Nobody is left to be told by this connection.
    }
  }
}

function cut(chunk: Uint8Array): Uint8Array[] {
  if (chunk.byteLength === 0) return [];
  if (chunk.byteLength <= MAX_MESSAGE_BYTES) return [chunk];
  const parts: Uint8Array[] = [];
  for (let at = 0; at < chunk.byteLength; at += MAX_MESSAGE_BYTES)
    parts.push(chunk.subarray(at, at + MAX_MESSAGE_BYTES));
  return parts;
}
