/** @file What carries bytes between two workers: transports, their listeners and connections, and where received bytes land. */
import type { Protection } from '../security/protection.ts';

/**
 * Where the bytes of a connection land. The receiver decides: `nextBuffer` names the memory, `received` says how much of it was filled.
 *
 * All three are called synchronously, never inside another call of this sink, and never after `closed`. A throw from `nextBuffer` or
 * `received` destroys the connection with that error; it never escapes into the socket.
 */
export interface ByteSink {
  /**
   * The memory for the next bytes, at least one byte long. It belongs to the connection until the next `received`, `closed`, or until
   * another sink is attached. A transport fills no more than its length, so a sink that asks for exactly what it needs never reads
   * past it.
   */
  nextBuffer(): Uint8Array;
  /** `count` bytes (at least one) were written to the front of what `nextBuffer` returned last. */
  received(count: number): void;
  /** The last event: the peer closed (no error) or the connection failed. Bytes that arrived before it have been delivered. */
  closed(error?: Error): void;
}
/**
 * A two-way stream of bytes. States:
 *
 * - *open*: both directions work;
 * - *closing*: `close` was called; what was written is still sent, what the peer sends is still delivered;
 * - *closed*: final; the sink has been told, every `onFlushed` has been called.
 *
 * Who holds a connection ends it with `close` or `destroy`.
 */
export interface Connection {
  /** The name of the transport it came from. */
  readonly kind: string;
  /** The peer's address, for people. */
  readonly remote: string;
  readonly protection: Protection;
  /** How much of a tensor should go in one frame, where more than usual is better: its bytes are not what the peer waits for. */
  readonly pieceBytes?: number | undefined;
  /** Whether its bytes may be slow on their way: tensors are sent at the pace that is measured, so that small messages need not wait for them. */
  readonly paced: boolean;
  /** Bytes accepted by `write` that the operating system has not taken yet. */
  readonly bufferedBytes: number;
  /** Bytes taken by the operating system and bytes delivered, since the start. */
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** `true` once the connection is closed. */
  readonly closed: boolean;
  /**
   * Starts reading into `sink`, or hands what comes from now on to another one; `undefined` stops reading, so the peer is slowed
   * down. Nothing is lost between two sinks. On a connection that is closed already, the sink's `closed` is called at once.
   */
  attach(sink: ByteSink | undefined): void;
  /**
   * Sends the chunks in order, as one write of many parts, never joined. They must stay unchanged until `onFlushed`, which is called
   * exactly once: when the operating system has taken all of them, or with the reason why it never will. Never throws.
   */
  write(chunks: readonly Uint8Array[], onFlushed?: (error?: Error) => void): void;
  /** Sends what was written, then ends this direction; the other one ends when the peer has ended its own. Harmless when repeated. */
  close(): void;
  /** Ends both directions now; what was not sent is dropped. Harmless when repeated. */
  destroy(error?: Error): void;
}

export interface ListenOptions {
  /** The address to bind, for transports that have one. @default 127.0.0.1 */
  readonly host?: string | undefined;
  /** 0 = any free port. @default 0 */
  readonly port?: number | undefined;
  /** The name others should dial, where it differs from `host`. */
  readonly advertise?: string | undefined;
  /** Ends the listener. */
  readonly signal?: AbortSignal | undefined;
}

export interface DialOptions {
  /** @default 5000 */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Accepts connections until closed. Connections it accepted outlive it. */
export interface Listener {
  /** What a peer dials: 'tcp://10.0.0.5:4711', 'unix:///run/user/…'. */
  readonly endpoint: string;
  /** Stops accepting and frees the address. Harmless when repeated. */
  close(): Promise<void>;
}

/** One way to reach a peer. */
export interface Transport {
  /** The scheme of its endpoints. */
  readonly name: string;
  /** Whether this process can use it. */
  isViable(): boolean;
  /** It has no listeners: nobody can dial this worker by it. */
  readonly dialsOnly?: boolean;
  /**
   * Two workers can use this transport between them when their descriptors are equal: '' for one that reaches anywhere, the host for
   * Unix sockets, the process for those inside one.
   */
  readonly domain: string;
  /**
   * Starts to accept. `onConnection` gets each connection before any of its bytes; a connection is read once a sink is attached.
   * @throws RpcError 'unavailable' when the address is taken ("Address already in use"), 'invalid-argument' for a bad one.
   */
  listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener>;
  /**
   * Connects to an endpoint of this transport.
   * @throws RpcError 'unavailable' (refused, unreachable, no such socket), 'deadline-exceeded', 'cancelled', 'unauthenticated'.
   */
  dial(endpoint: string, options?: DialOptions): Promise<Connection>;
}

export const DEFAULT_DIAL_TIMEOUT_MS = 5_000;
