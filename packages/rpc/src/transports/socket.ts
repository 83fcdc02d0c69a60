/** @file A Node socket as a connection, with reads straight into the receiver's memory. The only file that reaches below the public API of `net`. */
import { Socket, connect as netConnect, type NetConnectOpts } from 'node:net';
import { UNPROTECTED, type Protection } from '../security/protection.ts';
import { DISCARD, asError, closedError, memoryOf } from './connection-parts.ts';
import type { ByteSink, Connection } from './transport.ts';

/** Where bytes land while no sink is attached: small, since reading is stopped then and only the first bytes pass through it. */
const SCRATCH_BYTES = 256;
/** A chunk from here on makes a connection one that carries tensors. */
const LARGE_BYTES = 128 * 1024;
/** How long the peer may take to end its direction once ours has ended. */
const LINGER_MS = 10_000;

interface Handle {
  readonly fd?: number;
  useUserBuffer?(buffer: Uint8Array): void;
}

/** A socket whose handle can be moved to another one. */
interface Movable {
  _handle?: Handle | null;
}

/** Connects with reads into the sink's memory; the connection is usable once the socket says 'connect'. */
export function connectSocket(options: NetConnectOpts, about: { kind: string; remote: string }): SocketConnection {
  const connection = new SocketConnection(about.kind, about.remote, UNPROTECTED);
  const socket = netConnect({ ...options, onread: connection.onread } as NetConnectOpts);
  connection.bind(socket, true);
  return connection;
}

/**
 * A socket that a server accepted (with `pauseOnConnect`). The server's own socket reads only through 'data' events, so its handle
 * moves to a new one with `onread`; where that cannot be done, the accepted socket is used as it is, with one copy more.
 */
export function adoptSocket(accepted: Socket, about: { kind: string; remote: string }): SocketConnection {
  const connection = new SocketConnection(about.kind, about.remote, UNPROTECTED);
  const handle = (accepted as Movable)._handle;
  if (handle === undefined || handle === null || typeof handle.useUserBuffer !== 'function') {
    connection.bind(accepted, false);
    return connection;
  }
  (accepted as Movable)._handle = null;
  const socket = new Socket({ handle, onread: connection.onread } as ConstructorParameters<typeof Socket>[0]);
  connection.bind(socket, true);
  return connection;
}

/** Wraps any socket (TLS) that can only be read through 'data' events. */
export function wrapSocket(
  socket: Socket,
  about: { kind: string; remote: string; protection: Protection },
): SocketConnection {
  const connection = new SocketConnection(about.kind, about.remote, about.protection);
  connection.bind(socket, false);
  return connection;
}

export class SocketConnection implements Connection {
  readonly kind: string;
  readonly remote: string;
  readonly protection: Protection;
  readonly paced: boolean;
  receivedBytes = 0;
  closed = false;

  private socket!: Socket;
  private direct = false;
  private onLarge: ((fd: number) => void) | undefined;
  private sink: ByteSink | undefined;
  private scratch: Uint8Array | undefined;
  /** The memory that the socket fills next, in direct mode. */
  private armed: Uint8Array | undefined;
  /** Bytes that were read but not delivered because the sink was taken away; reading is stopped while there are any. */
  private held: Uint8Array | undefined;
  private delivering = false;
  private scheduled = false;
  private closing = false;
  private acceptedBytes = 0;
  private failure: Error | undefined;
  private linger: NodeJS.Timeout | undefined;

  /** For `net`: where to read into, and what was read. */
  readonly onread = {
    buffer: (): Uint8Array => this.arm(),
    callback: (count: number): boolean => this.onRead(count),
  };

  constructor(kind: string, remote: string, protection: Protection) {
    this.kind = kind;
    this.paced = kind !== 'unix';
    this.remote = remote;
    this.protection = protection;
  }

  /** Called once, by the factories of this file. */
  bind(socket: Socket, direct: boolean): void {
    this.socket = socket;
    this.direct = direct;
    socket.pause();
    if (!direct) socket.on('data', (chunk: Uint8Array) => this.deliver(chunk));
    socket.on('error', (error) => {
      this.failure ??= error;
      // TLS tells of a record that was altered and leaves the socket open, on which nothing more comes or goes.
      socket.destroy();
    });
    socket.once('close', () => this.onClose());
  }

  /** The socket itself, for those that set it up. */
  get raw(): Socket {
    return this.socket;
  }

  /** `tune` is called with the number of the socket after the first large write; never where there is none. */
  whenLarge(tune: (fd: number) => void): void {
    this.onLarge = tune;
  }

  get bufferedBytes(): number {
    return this.socket.writableLength;
  }

  get sentBytes(): number {
    return this.acceptedBytes - this.socket.writableLength;
  }

  attach(sink: ByteSink | undefined): void {
    if (this.closed) {
      // Later, so that no sink is called inside a call of its owner.
      if (sink !== undefined && sink !== this.sink) process.nextTick(() => sink.closed(this.failure));
      this.sink = sink;
      return;
    }
    const before = this.sink;
    this.sink = sink;
    if (this.delivering || before === sink) return;
    if (sink === undefined) this.socket.pause();
    this.disarm();
    if (sink !== undefined) this.scheduleResume();
  }

  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void {
    const socket = this.socket;
    const last = chunks.length - 1;
    if (last < 0 || this.closing || this.closed || socket.destroyed) {
      const error =
        last < 0 && !this.closing && !socket.destroyed ? undefined : (this.failure ?? closedError(this.remote));
      if (onFlushed !== undefined) process.nextTick(onFlushed, error);
      return;
    }
    // A write that `destroy` cut off is reported by Node as done.
    const done =
      onFlushed === undefined
        ? undefined
        : (error?: Error | null): void =>
            onFlushed(error ?? (socket.destroyed ? (this.failure ?? closedError(this.remote)) : undefined));
    if (last > 0) socket.cork();
    for (let i = 0; i <= last; i++) {
      const chunk = chunks[i] as Uint8Array;
      this.acceptedBytes += chunk.byteLength;
      if (chunk.byteLength >= LARGE_BYTES && this.onLarge !== undefined) this.carriesLarge(this.onLarge);
      if (i === last) socket.write(chunk, done);
      else if (chunk.byteLength > 0) socket.write(chunk);
    }
    if (last > 0) socket.uncork();
  }

  close(): void {
    if (this.closing || this.closed) return;
    this.closing = true;
    if (this.sink === undefined) this.attach(DISCARD);
    this.socket.once('finish', () => {
      if (this.closed) return;
      this.linger = setTimeout(() => this.socket.destroy(), LINGER_MS).unref();
    });
    this.socket.end();
  }

  destroy(error?: Error): void {
    if (this.closed || this.socket.destroyed) return;
    this.failure ??= error;
    this.socket.destroy();
  }

  private carriesLarge(tune: (fd: number) => void): void {
    this.onLarge = undefined;
    // Not now: it may have to load something first.
    setImmediate(() => {
      const fd = (this.socket as Movable)._handle?.fd;
      if (fd !== undefined && fd >= 0 && !this.closed && !this.socket.destroyed) tune(fd);
    });
  }

  /** Memory for the next read, in direct mode. Called by `net` right after `onRead`. */
  private arm(): Uint8Array {
    const memory = this.held === undefined && this.sink !== undefined ? this.ask(this.sink) : undefined;
    return (this.armed = memory ?? (this.scratch ??= Buffer.allocUnsafe(SCRATCH_BYTES)));
  }

  /** Takes back memory of a sink that is no longer attached, so that its owner may use it for something else. */
  private disarm(): void {
    if (!this.direct || this.armed === undefined || this.armed === this.scratch) return;
    this.armed = this.scratch ??= Buffer.allocUnsafe(SCRATCH_BYTES);
    (this.socket as Movable)._handle?.useUserBuffer?.(this.armed);
  }

  private ask(sink: ByteSink): Uint8Array | undefined {
    try {
      return memoryOf(sink);
    } catch (error) {
      this.destroy(asError(error));
      return undefined;
    }
  }

  /** `count` bytes are in `armed`; false stops reading. */
  private onRead(count: number): boolean {
    const memory = this.armed;
    if (memory === undefined) return false;
    if (memory === this.scratch) {
      this.deliver(memory.subarray(0, count));
    } else {
      this.receivedBytes += count;
      this.tell(count);
    }
    return this.sink !== undefined && this.held === undefined;
  }

  private tell(count: number): void {
    this.delivering = true;
    try {
      this.sink?.received(count);
    } catch (error) {
      this.destroy(asError(error));
    } finally {
      this.delivering = false;
    }
  }

  /** Copies `bytes` to the sink; what is left when the sink goes away is held for the next one. */
  private deliver(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.byteLength && this.sink !== undefined && !this.socket.destroyed) {
      const memory = this.ask(this.sink);
      if (memory === undefined) return;
      const count = Math.min(memory.byteLength, bytes.byteLength - at);
      memory.set(bytes.subarray(at, at + count));
      at += count;
      this.receivedBytes += count;
      this.tell(count);
    }
    if (at < bytes.byteLength && !this.socket.destroyed) {
      this.held = Uint8Array.from(bytes.subarray(at));
    }
    if (this.sink === undefined || this.held !== undefined) this.socket.pause();
    // A sink attached in the middle of a delivery that had stopped before it.
    if (this.sink !== undefined && this.held !== undefined) this.scheduleResume();
  }

  private scheduleResume(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    process.nextTick(() => {
      this.scheduled = false;
      const held = this.held;
      if (this.sink === undefined || this.closed || this.socket.destroyed) return;
      this.held = undefined;
      if (held !== undefined) this.deliver(held);
      if (this.sink !== undefined && this.held === undefined) this.socket.resume();
    });
  }

  private onClose(): void {
    clearTimeout(this.linger);
    this.closed = true;
    this.armed = undefined;
    this.scratch = undefined;
    const sink = this.sink;
    if (sink === undefined) return;
    try {
      sink.closed(this.failure);
    } catch (error) {
      // Nobody is left to be told by this connection; a throw here would end the process.
      process.emitWarning(asError(error));
    }
  }
}
