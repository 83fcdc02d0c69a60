/** @file The server of an embedded store: one process of the group, or its launcher, keeps the contents for all. */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { MAX_HALF_OPEN, STORE_GROUP } from '../security/handshake.ts';
import { insecureBind, resolveSecurity, type ResolvedSecurity } from '../security/policy.ts';
import type { Keys } from '../security/secret.ts';
import { storeTransport } from '../transports/select.ts';
import { isLoopback } from '../base/loopback.ts';
import { parseHostPort } from '../transports/dialling.ts';
import type { Connection, Listener, Transport } from '../transports/transport.ts';
import { webSocketTransport } from '../transports/websocket.ts';
import { LEASE_TOKEN_BYTES, StoreSession, type SessionHost } from './embedded-session.ts';
import { MAX_CLIENTS, ORPHAN_GRACE_MS } from './limits.ts';
import { Op, frame } from './protocol.ts';
import { StoreState } from './state.ts';
import { keyOfBytes } from './torch-ops.ts';

export interface ServeStoreOptions {
  /** The address to bind. @default 127.0.0.1 */
  readonly host?: string | undefined;
  /** 0 = any free port. @default 0 */
  readonly port?: number | undefined;
  /** What every client has to prove it holds. @default as `security` says */
  readonly secret?: string | Uint8Array | undefined;
  /** @default BACKWIRE_SECRET; without it, on loopback, the secret of this user on this host */
  readonly security?: ResolvedSecurity | undefined;
  /** Whether stock torch clients, which can neither prove nor encrypt anything, are served too. @default only when security is off */
  readonly torch?: boolean | undefined;
  /** @default TCP on loopback and with mode 'none', else TLS */
  readonly transport?: Transport | undefined;
  /** Serves browsers too, by WebSocket; needs the package `ws`. @default not */
  readonly webSocket?:
    { readonly port?: number | undefined; readonly allowedOrigins?: readonly string[] | undefined } | undefined;
  /** Called once it is closed. */
  readonly onClose?: (() => void) | undefined;
}

export interface StoreServer {
  readonly port: number;
  /** What clients dial. */
  readonly endpoint: string;
  /** What browsers dial: 'ws://host:port/backwire'; undefined when they are not served. */
  readonly webSocketEndpoint: string | undefined;
  /** Clients connected now. */
  readonly clients: number;
  /** Sets a key as a client would. */
  set(key: string, value: Uint8Array): void;
  /**
   * Stops serving: at once, or after `lingerMs` at most once the last client has gone. Harmless when repeated.
   */
  close(options?: { lingerMs?: number }): Promise<void>;
}

/** A server that woke this much too late was itself asleep: no lease may end for that. */
const OWN_STALL_MS = 500;
/** What every lease has left at least after such a sleep: time to read the renewals that wait, and for others to send theirs. */
const RECOVERY_MS = 2_000;

/**
 * Serves a store for a group.
 * @throws RpcError 'unavailable' for a taken port ("Address already in use", naming it); 'invalid-argument' for an address beyond
 *   loopback without a secret.
 */
export async function serveStore(options: ServeStoreOptions = {}): Promise<StoreServer> {
  const host = options.host ?? '127.0.0.1';
  const { secret } = options;
  const given = secret === undefined ? options.security : resolveSecurity({ mode: 'hmac', secret }, { bind: host });
  const security = given ?? resolveSecurity(undefined, { bind: host });
  if (security.automatic && security.mode !== 'mtls' && !isLoopback(host)) throw insecureBind(host);
  const server = new Server(security.keys, options.torch ?? security.mode === 'none', options.onClose);
  const transport = options.transport ?? storeTransport(host, security);
  await server.listen(transport, host, options.port ?? 0);
  const { webSocket } = options;
  if (webSocket !== undefined) {
    const insecure = security.mode === 'none' || security.mode === 'hmac';
    const how = { group: STORE_GROUP, keys: security.keys, allowedOrigins: webSocket.allowedOrigins, insecure };
    await server.listenToBrowsers(webSocketTransport(how), host, webSocket.port ?? 0);
  }
  return server;
}

interface LeaseHolders {
  readonly token: Uint8Array;
  readonly holders: Set<StoreSession>;
}

class Server implements StoreServer, SessionHost {
  readonly state = new StoreState();
  readonly keys: Keys | undefined;
  readonly torch: boolean;
  port = 0;
  endpoint = '';

  webSocketEndpoint: string | undefined;

  private listener: Listener | undefined;
  private browserDoor: Listener | undefined;
  private readonly sessions = new Set<StoreSession>();
  /** Not yet through their handshake, oldest first. */
  private readonly halfOpen = new Set<StoreSession>();
  private readonly leases = new Map<number, LeaseHolders>();
  private readonly barriers = new Map<string, Set<() => void>>();
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Infinity;
  private onEmpty: (() => void) | undefined;
  private closing: Promise<void> | undefined;

  private readonly onClose: (() => void) | undefined;

  constructor(keys: Keys | undefined, torch: boolean, onClose: (() => void) | undefined) {
    this.keys = keys;
    this.torch = torch;
    this.onClose = onClose;
  }

  get clients(): number {
    return this.sessions.size;
  }

  async listen(transport: Transport, host: string, port: number): Promise<void> {
    this.listener = await transport.listen({ host, port }, (connection) => this.accept(connection));
    this.endpoint = this.listener.endpoint;
    this.port = transport.name === 'memory' ? port : parseHostPort(this.endpoint, transport.name).port;
  }

  /** @throws RpcError as `Transport.listen`; the server is closed then. */
  async listenToBrowsers(transport: Transport, host: string, port: number): Promise<void> {
    try {
      this.browserDoor = await transport.listen({ host, port }, (connection) => this.accept(connection));
      this.webSocketEndpoint = this.browserDoor.endpoint;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  set(key: string, value: Uint8Array): void {
    this.state.set(keyOfBytes(Buffer.from(`/${key}`)), new Uint8Array(value));
  }

  close(options: { lingerMs?: number } = {}): Promise<void> {
    return (this.closing ??= this.shut(options.lingerMs ?? 0).finally(this.onClose));
  }

  admitted(session: StoreSession): void {
    this.halfOpen.delete(session);
  }

  ended(session: StoreSession): void {
    this.sessions.delete(session);
    this.halfOpen.delete(session);
    for (const id of session.held) {
      const lease = this.leases.get(id);
      lease?.holders.delete(session);
      if (lease?.holders.size === 0) this.state.shorten(id, performance.now() + ORPHAN_GRACE_MS);
    }
    this.arm();
    if (this.sessions.size === 0) this.onEmpty?.();
  }

  grant(session: StoreSession, ttlMs: number): { id: number; token: Uint8Array } {
    const id = this.state.grant(ttlMs, performance.now());
    const token = new Uint8Array(randomBytes(LEASE_TOKEN_BYTES));
    this.leases.set(id, { token, holders: new Set([session]) });
    session.held.add(id);
    this.arm();
    return { id, token };
  }

  hold(session: StoreSession, id: number, token: Uint8Array): boolean {
    const lease = this.leases.get(id);
    if (lease === undefined || !same(lease.token, token) || !this.state.renew(id, performance.now())) return false;
    lease.holders.add(session);
    session.held.add(id);
    return true;
  }

  revoke(id: number, token: Uint8Array): void {
    const lease = this.leases.get(id);
    if (lease !== undefined && same(lease.token, token)) this.drop(id, false);
  }

  barrier(key: string, worldSize: bigint, release: () => void): () => void {
    const waiting = (this.barriers.get(key) ?? new Set()).add(release);
    this.barriers.set(key, waiting);
    if (BigInt(waiting.size) >= worldSize) {
      this.barriers.delete(key);
      for (const each of waiting) each();
    }
    return () => {
      waiting.delete(release);
      if (waiting.size === 0 && this.barriers.get(key) === waiting) this.barriers.delete(key);
    };
  }

  private accept(connection: Connection): void {
    if (this.closing !== undefined || this.sessions.size >= MAX_CLIENTS) {
      connection.destroy();
      return;
    }
    const session = new StoreSession(connection, this);
    this.sessions.add(session);
    this.halfOpen.add(session);
    if (this.halfOpen.size > MAX_HALF_OPEN) {
      const [oldest] = this.halfOpen;
      oldest?.connection.destroy();
    }
  }

  /** Ends a lease and, when it was not given up, tells those who hold it. */
  private drop(id: number, tell: boolean): void {
    const lease = this.leases.get(id);
    this.leases.delete(id);
    this.state.revoke(id);
    for (const session of lease?.holders ?? []) {
      session.held.delete(id);
      if (tell) session.send(frame(Op.LEASE_LOST, id, []));
    }
  }

  private arm(): void {
    const next = this.closing === undefined ? this.state.nextExpiry() : undefined;
    if (next === undefined || next >= this.timerAt) return;
    clearTimeout(this.timer);
    this.timerAt = next;
    this.timer = setTimeout(() => this.expire(), Math.max(1, next - performance.now()));
  }

  private expire(): void {
    const now = performance.now();
    const late = now - this.timerAt;
    this.timerAt = Infinity;
    // While this process did not run it read no renewals either: they are waiting in the sockets.
    if (late > OWN_STALL_MS) this.state.postpone(late + RECOVERY_MS);
    for (const id of this.state.expire(now)) this.drop(id, true);
    this.arm();
  }

  private async shut(lingerMs: number): Promise<void> {
    clearTimeout(this.timer);
    if (lingerMs > 0 && this.sessions.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, lingerMs);
        this.onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    await Promise.all([this.listener?.close(), this.browserDoor?.close()]);
    for (const session of this.sessions) session.connection.destroy();
  }
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}
