/** @file Runs the handshake on a connection, within the limits for strangers. */
import { RpcError } from '../base/errors.ts';
import { hasCrc32, randomBytes } from '../base/platform.ts';
import { CheckedConnection } from '../transports/checked-connection.ts';
import type { ByteSink, Connection } from '../transports/transport.ts';
import { UNANSWERED, unanswered } from '../transports/dialling.ts';
import { mistaken } from '../security/certificate.ts';
import {
  HANDSHAKE_TIMEOUT_MS,
  Handshake,
  NONCE_BYTES,
  RECORD_HEAD_BYTES,
  type HandshakeEffect,
} from '../security/handshake.ts';
import type { Keys } from '../security/keys.ts';

export interface AuthenticateOptions {
  readonly role: 'dialer' | 'acceptor';
  readonly group: string;
  /** Not needed on a connection that is authenticated by itself; undefined elsewhere = security is off. */
  readonly keys?: Keys | undefined;
  /** What this side says of itself, at most 1 KiB; the other side gets it, bound into the proof. */
  readonly claim?: Uint8Array | undefined;
  /**
   * Of a dialer: whether what follows carries checksums. Only where bytes cross a network in the clear.
   * @default false
   */
  readonly checksums?: boolean | undefined;
  /** Why what the peer claims cannot be; asked before this side gives its proof. */
  readonly mistaken?: ((claim: Uint8Array) => RpcError | undefined) | undefined;
  /** @default 5000 */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A connection whose peer has proved itself; no sink is attached. */
export interface Authenticated {
  readonly connection: Connection;
  /** What the peer said of itself. */
  readonly claim: Uint8Array;
  /** Which key it used; undefined without keys. */
  readonly keyId: string | undefined;
}

/**
 * Both sides call this on a fresh connection before anything else is sent. On success the connection is handed back with no sink
 * attached and not a byte of what follows read; on failure it is destroyed.
 *
 * @throws RpcError 'unauthenticated' (wrong secret, group or mode, a claim that the certificate denies, or not a peer at all), 'deadline-exceeded', 'cancelled',
 *   'version-mismatch', 'unavailable'.
 */
export function authenticate(connection: Connection, options: AuthenticateOptions): Promise<Authenticated> {
  return new Promise<Authenticated>((resolve, reject) => {
    new Run(connection, options, resolve, reject).start();
  });
}

/** Whether what the connection carries can change unnoticed: TLS sees to that itself, and what stays on this machine is memory. */
function canAlter({ kind, protection }: Connection): boolean {
  return kind === 'tcp' && !protection.encrypted && hasCrc32;
}

class Run implements ByteSink {
  private readonly connection: Connection;
  private readonly handshake: Handshake;
  private readonly resolve: (value: Authenticated) => void;
  private readonly reject: (error: RpcError) => void;
  private readonly timer: NodeJS.Timeout;
  private readonly signal: AbortSignal | undefined;
  private record = new Uint8Array(RECORD_HEAD_BYTES);
  private filled = 0;
  private settled = false;
  private readonly startedAt = performance.now();

  constructor(
    connection: Connection,
    options: AuthenticateOptions,
    resolve: (value: Authenticated) => void,
    reject: (error: RpcError) => void,
  ) {
    this.connection = connection;
    this.resolve = resolve;
    this.reject = reject;
    this.signal = options.signal;
    const timeoutMs = options.timeoutMs ?? HANDSHAKE_TIMEOUT_MS;
    const { protection, remote } = connection;
    const keys = protection.authenticated ? undefined : options.keys;
    this.handshake = new Handshake({
      ...options,
      keys,
      checksums: options.checksums === true && canAlter(connection),
      channelBinding: protection.binding,
      nonce: randomBytes(NONCE_BYTES),
      mistaken: (claim) => mistaken(protection, claim, remote) ?? options.mistaken?.(claim),
    });
    this.timer = setTimeout(() => {
      this.fail(
        new RpcError(
          'deadline-exceeded',
          `${connection.remote} did not finish the handshake in ${Math.ceil(timeoutMs)} ms: ${UNANSWERED}`,
        ),
      );
    }, timeoutMs);
  }

  start(): void {
    this.signal?.addEventListener('abort', this.onAbort, { once: true });
    if (this.signal?.aborted) {
      this.onAbort();
      return;
    }
    this.apply(this.handshake.start());
    this.connection.attach(this);
  }

  nextBuffer(): Uint8Array {
    return this.record.subarray(this.filled);
  }

  received(count: number): void {
    this.filled += count;
    if (this.filled < this.record.byteLength) return;
    if (this.record.byteLength === RECORD_HEAD_BYTES) {
      const length = this.handshake.bodyLength(this.record);
      if (typeof length !== 'number') {
        this.misread(length);
        return;
      }
      const whole = new Uint8Array(RECORD_HEAD_BYTES + length);
      whole.set(this.record);
      this.record = whole;
      return;
    }
    const whole = this.record;
    this.record = new Uint8Array(RECORD_HEAD_BYTES);
    this.filled = 0;
    this.apply(this.handshake.receive(whole));
  }

  closed(error?: Error): void {
    const why = `${this.connection.remote} went away during the handshake${unanswered(performance.now() - this.startedAt)}`;
    this.fail(new RpcError('unavailable', why, error === undefined ? {} : { cause: error }));
  }

  private readonly onAbort = (): void => {
    this.fail(new RpcError('cancelled', 'the handshake was cancelled', { cause: this.signal?.reason }));
  };

  private apply(effects: readonly HandshakeEffect[]): void {
    for (const effect of effects) {
      switch (effect.type) {
        case 'send':
          this.connection.write([effect.record]);
          break;
        case 'done':
          if (!this.settle()) return;
          this.connection.attach(undefined);
          this.resolve({
            connection: effect.checked ? new CheckedConnection(this.connection) : this.connection,
            claim: effect.claim,
            keyId: effect.keyId,
          });
          break;
        case 'failed':
          if (!this.settle()) return;
          // Not destroyed: the refusal before it has to get out.
          this.connection.attach(undefined);
          this.connection.close();
          this.reject(effect.error);
          break;
      }
    }
  }

  /** Not a record that is due. Who speaks another version is told this one; all others nothing. */
  private misread(error: RpcError): void {
    if (error.code !== 'version-mismatch' || this.handshake.role === 'dialer') this.fail(error);
    else this.apply(this.handshake.refuse(error));
  }

  private fail(error: RpcError): void {
    if (!this.settle()) return;
    this.connection.destroy();
    this.reject(error);
  }

  private settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    clearTimeout(this.timer);
    this.signal?.removeEventListener('abort', this.onAbort);
    return true;
  }
}
