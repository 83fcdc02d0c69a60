/** @file A client's connection to an embedded store: requests and replies, made again when it breaks. */
import { bareText, RpcError, rpcInfo } from '../base/errors.ts';
import { randomBytes, unref } from '../base/platform.ts';
import { authenticate } from '../connect/authenticate.ts';
import type { Keys } from '../security/keys.ts';
import type { Connection, Transport } from '../transports/transport.ts';
import { limited } from './limited.ts';
import { closedError } from './checks.ts';
import { ByteReader, type ReadProgram } from './byte-reader.ts';
import { STORE_GROUP } from '../security/handshake.ts';
import { FRAME_HEAD_BYTES, MAX_LIST_BYTES, Op, Reader, frame, replyError } from './protocol.ts';

export interface LinkOptions {
  readonly endpoint: string;
  readonly transport: Transport;
  readonly keys: Keys | undefined;
  /** How long the server may owe a reply, in milliseconds. @default 30000 */
  readonly silenceMs?: number | undefined;
}

/** What the link tells the store. */
export interface LinkEvents {
  /** A connection is up; `first` when there was none before it. Requests made here go out before all that wait. */
  up(first: boolean): void;
  event(id: number, body: Reader): void;
  leaseLost(id: number): void;
}

export interface RequestOptions {
  /** Sent once more over a new connection if this one breaks before the reply; others then fail 'unavailable'. */
  readonly repeatable: boolean;
  /** Waits for a connection as long as it takes. @default false: some seconds */
  readonly patient?: boolean;
  /** From `newId`. */
  readonly id?: number;
}

interface Request {
  readonly bytes: Uint8Array;
  readonly resolve: (body: Reader) => void;
  readonly reject: (error: RpcError) => void;
  readonly repeatable: boolean;
  readonly patient: boolean;
  patience: NodeJS.Timeout | undefined;
  readonly askedAt: number;
  /** How often it has been written. */
  sends: number;
  /** When it was written last, by the clock of `performance`; Infinity = never. */
  sentAt: number;
}

/** How long a request waits for a connection. */
const PATIENCE_MS = 5_000;
/**
 * How long the server may be silent while it owes a reply; then the connection is given up. Long, because the server may be a worker
 * that computes.
 */
const SILENCE_MS = 30_000;
/** A request that takes so many times that is lost, whatever else is heard; */
const MOST_TIMES = 4;
/** and so is one that broke so many connections in a row: its answer may be what breaks them. */
const MAX_SENDS = 12;
/** How long a server may owe a reply before closing no longer waits for what was written to be taken. */
const DEAF_MS = 3_000;
const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1_000;
/** A connection that broke sooner than this is a brief one; */
const BRIEF_MS = 1_000;
/** the first of them is made again at once, those after it with pauses of up to so long, whatever came over them. */
const MAX_BRIEF_BACKOFF_MS = 200;
/** Requests without a reply; a client that has more is not waiting for its answers. */
const MAX_OUTSTANDING = 100_000;
/** A reply is at most a list and its heads. */
const MAX_REPLY_BYTES = 2 * MAX_LIST_BYTES;

/** States: *down* (dialling again, requests wait) ⇄ *up* → *closed*, which is final. */
export class EmbeddedLink {
  private readonly options: LinkOptions;
  private readonly events: LinkEvents;
  private connection: Connection | undefined;
  private readonly sent = new Map<number, Request>();
  private readonly queued = new Map<number, Request>();
  private readonly closing = new AbortController();
  private nextId = 1;
  private connectedBefore = false;
  private lastError: RpcError | undefined;
  /** Before the next dial: little or nothing after a connection on which something was answered. */
  private backoff = 0;
  /** When this connection began, and whether something came over it. */
  private upAt = 0;
  private wasHeard = false;
  /** When something came last, and the watch over it; only while replies are owed. */
  private heardAt = 0;
  private readonly silenceMs: number;
  private silence: NodeJS.Timeout | undefined;

  constructor(options: LinkOptions, events: LinkEvents) {
    this.options = options;
    this.silenceMs = options.silenceMs ?? SILENCE_MS;
    this.events = events;
  }

  /** Connects once. */
  async connect(signal?: AbortSignal, timeoutMs?: number): Promise<void> {
    const { transport, endpoint, keys } = this.options;
    const { connection } = await limited(0, [signal, this.closing.signal], async (both) => {
      const dialled = await transport.dial(endpoint, { signal: both, timeoutMs });
      return authenticate(dialled, { role: 'dialer', group: STORE_GROUP, keys, signal: both, timeoutMs });
    });
    if (this.closing.signal.aborted) {
      connection.destroy();
      throw closedError();
    }
    this.start(connection);
  }

  /** Dials until a connection is up or the link is closed. */
  async reconnect(): Promise<void> {
    while (!this.closing.signal.aborted && this.connection === undefined) {
      const { backoff } = this;
      this.backoff = Math.min(Math.max(FIRST_BACKOFF_MS, backoff * 1.6), MAX_BACKOFF_MS);
      if (backoff > 0) await this.pause(backoff / 2 + jitter(backoff));
      try {
        await this.connect();
      } catch (error) {
        this.lastError = RpcError.from(error);
      }
    }
  }

  get isUp(): boolean {
    return this.connection !== undefined;
  }

  /** An id for a request; a watch keeps it as its name. */
  newId(): number {
    const id = this.nextId;
    this.nextId = this.nextId === 0xffff_ffff ? 1 : this.nextId + 1;
    return id;
  }

  request(op: number, parts: readonly Uint8Array[], options: RequestOptions): Promise<Reader> {
    return new Promise((resolve, reject) => {
      if (this.closing.signal.aborted) return reject(closedError());
      if (this.sent.size + this.queued.size >= MAX_OUTSTANDING) {
        return reject(
          new RpcError('resource-exhausted', `${MAX_OUTSTANDING} requests to the store wait for their replies`),
        );
      }
      const id = options.id ?? this.newId();
      const { repeatable, patient = false } = options;
      const request: Request = {
        bytes: frame(op, id, parts),
        resolve,
        reject,
        repeatable,
        patient,
        patience: undefined,
        askedAt: performance.now(),
        sends: 0,
        sentAt: Infinity,
      };
      if (this.connection !== undefined) this.transmit(id, request);
      else this.queue(id, request);
    });
  }

  /** A request without a reply; lost when there is no connection. */
  notify(op: number, id: number): void {
    this.connection?.write([frame(op, id, [])]);
  }

  /** Forgets a request: its promise never settles. */
  forget(id: number): void {
    clearTimeout(this.queued.get(id)?.patience);
    this.sent.delete(id);
    this.queued.delete(id);
  }

  close(): void {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    const deaf = [...this.sent.values()].some(
      ({ patient, sentAt }) => !patient && performance.now() - sentAt > DEAF_MS,
    );
    clearTimeout(this.silence);
    // What was written to a server that has long owed answers would only hold up the end of this process.
    if (deaf) this.connection?.destroy();
    else this.connection?.close();
    this.connection = undefined;
    this.failAll();
  }

  private start(connection: Connection): void {
    this.connection = connection;
    this.upAt = performance.now();
    this.wasHeard = false;
    connection.attach(new ByteReader(this.program(), (error) => this.onDown(connection, error)));
    const first = !this.connectedBefore;
    this.connectedBefore = true;
    this.events.up(first);
    for (const [id, request] of [...this.queued]) {
      this.queued.delete(id);
      clearTimeout(request.patience);
      this.transmit(id, request);
    }
  }

  private transmit(id: number, request: Request): void {
    this.sent.set(id, request);
    request.sends++;
    request.sentAt = performance.now();
    if (!request.patient && this.silence === undefined) {
      this.heardAt = performance.now();
      this.listenFor(this.silenceMs);
    }
    this.connection?.write([request.bytes]);
  }

  private listenFor(ms: number): void {
    const watch = (): void => {
      this.silence = undefined;
      this.dropLost();
      // Waits may last for ever; anything else is answered at once.
      if (![...this.sent.values()].some((request) => !request.patient)) return;
      const left = this.heardAt + this.silenceMs - performance.now();
      if (left > 0) this.listenFor(left);
      else this.connection?.destroy(new RpcError('unavailable', `the store did not answer in ${this.silenceMs} ms`));
    };
    this.silence = unref(setTimeout(watch, ms));
  }

  /** A server that tells other things all the while and never answers this one would be waited for without end. */
  private dropLost(): void {
    for (const [id, request] of this.sent) {
      if (request.patient || !this.isLost(request)) continue;
      this.sent.delete(id);
      const text = `the store at ${this.options.endpoint} tells other things and has not answered in ${MOST_TIMES * this.silenceMs} ms`;
      request.reject(new RpcError('unavailable', text, { executed: 'maybe' }));
    }
  }

  private isLost({ askedAt }: Request): boolean {
    return performance.now() - askedAt >= MOST_TIMES * this.silenceMs;
  }

  private queue(id: number, request: Request): void {
    this.queued.set(id, request);
    if (request.patient) return;
    request.patience = setTimeout(() => {
      this.queued.delete(id);
      const why = this.lastError === undefined ? '' : `: ${this.lastError.message}`;
      request.reject(
        new RpcError('unavailable', `the store at ${this.options.endpoint} is out of reach${why}`, {
          executed: request.sentAt === Infinity ? 'no' : 'maybe',
          cause: this.lastError,
        }),
      );
    }, PATIENCE_MS);
  }

  private *program(): ReadProgram {
    for (;;) {
      const head = new Reader(yield FRAME_HEAD_BYTES);
      this.heardAt = performance.now();
      const op = head.u8();
      const length = head.u32();
      const id = head.u32();
      if (length > MAX_REPLY_BYTES)
        throw new RpcError('protocol-error', `a reply of ${length} bytes, at most ${MAX_REPLY_BYTES} are taken`);
      const body = new Reader(length === 0 ? new Uint8Array(0) : (yield length).slice());
      if (op === Op.EVENT) this.events.event(id, body);
      else if (op === Op.LEASE_LOST) this.events.leaseLost(id);
      else if (op === Op.REPLY) this.onReply(id, body);
      else throw new RpcError('protocol-error', `an unknown frame ${op} from the store`);
      this.wasHeard = true;
    }
  }

  private onReply(id: number, body: Reader): void {
    const request = this.sent.get(id);
    if (request === undefined) return;
    // Read before it is forgotten: one that cannot be read ends the connection, and with that what waits for it.
    const refusal = body.u8() === 0 ? undefined : replyError(body);
    this.sent.delete(id);
    if (refusal === undefined) request.resolve(body);
    else request.reject(refusal);
  }

  private onDown(connection: Connection, error: Error | undefined): void {
    if (this.connection !== connection) return;
    this.connection = undefined;
    if (this.wasHeard)
      this.backoff = performance.now() - this.upAt < BRIEF_MS ? Math.min(this.backoff, MAX_BRIEF_BACKOFF_MS) : 0;
    // What was written may have been done, though nobody said so.
    const text = `the connection to the store at ${this.options.endpoint} broke${whyOf(error)}`;
    this.lastError = new RpcError('unavailable', text, { executed: 'maybe', cause: error });
    for (const [id, request] of [...this.sent]) {
      this.sent.delete(id);
      const isOver = !request.patient && (request.sends >= MAX_SENDS || this.isLost(request));
      if (request.repeatable && !isOver) this.queue(id, request);
      else request.reject(this.lastError);
    }
    void this.reconnect();
  }

  /** Sleeps without keeping the process alive: a program that has ended must not hang on a store that is gone. */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.closing.signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = unref(setTimeout(done, ms));
      this.closing.signal.addEventListener('abort', done, { once: true });
    });
  }

  private failAll(): void {
    for (const table of [this.sent, this.queued]) {
      for (const request of table.values()) {
        clearTimeout(request.patience);
        request.reject(closedError(request.sentAt !== Infinity));
      }
      table.clear();
    }
  }
}

/** What the server did that ended a connection; nothing where it, or the network, just went. */
function whyOf(error: Error | undefined): string {
  const known = rpcInfo(error);
  return known === undefined
    ? ''
    : `: ${bareText(known.code, known.message)}${known.code === 'protocol-error' ? '; is that a store of this library?' : ''}`;
}

/** Up to `ms` more, so that clients that lost one server do not come back all at once. */
function jitter(ms: number): number {
  return (new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32) * ms;
}
