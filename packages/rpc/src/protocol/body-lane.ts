/** @file Out-of-band storages: which piece goes next, what has arrived, and where each stands after a reconnect. */

/** One storage on its way out. `B` is the shell's own: the bytes and who holds them. */
export interface OutBody<B> {
  readonly seq: number;
  readonly storage: number;
  readonly bytes: number;
  readonly body: B;
  /** Handed to the link. */
  sent: number;
  /** The peer said that it has all of it, or nobody wants it any more. */
  done: boolean;
  /** Pieces the link is still reading. */
  inFlight: number;
}

/** The storages of one message on their way out. */
interface OutBodies<B> {
  readonly byStorage: ReadonlyMap<number, OutBody<B>>;
  /** Those that are not done. */
  open: number;
}

/** One storage on its way in. */
export interface InBody {
  readonly seq: number;
  readonly storage: number;
  readonly bytes: number;
  got: number;
}

/** The storages of one message on their way in. A message may have tens of thousands, and each piece names one. */
interface InBodies {
  readonly byStorage: ReadonlyMap<number, InBody>;
  /** Those that are not complete. */
  open: number;
}

/** How much of a storage has arrived. */
export interface BodyPosition {
  /** The number of the header frame. */
  readonly seq: number;
  /** Which of the message's out-of-band storages. */
  readonly storage: number;
  readonly bytes: number;
}

/** A piece of a storage to send now. The shell counts it in `inFlight` until the link has taken it. */
export interface Chunk<B> {
  readonly out: OutBody<B>;
  readonly offset: number;
  readonly bytes: number;
}

/** Up to this size a storage goes before all larger ones, turn by turn with them. */
const SMALL_BODY_BYTES = 8 * 1024 * 1024;

/**
 * The body lane of one session. Pieces of one storage go in order. Storages go first in, first out, in two queues that take turns: small
 * and large, so that a megabyte never waits for a gigabyte, and neither starves.
 */
export class BodyLane<B> {
  private readonly out = new Map<number, OutBodies<B>>();
  private readonly incoming = new Map<number, InBodies>();
  private readonly small: OutBody<B>[] = [];
  private readonly large: OutBody<B>[] = [];
  private largeTurn = false;
  /** Bytes of storages the peer has not confirmed. */
  pendingBytes = 0;
  /** Grows with whatever gets through, either way. */
  progress = 0;

  /** Queues the storages of frame `seq`; each has at least one byte. */
  send(seq: number, bodies: readonly { storage: number; bytes: number; body: B }[]): void {
    const made = bodies.map(({ storage, bytes, body }) => ({
      seq,
      storage,
      bytes,
      body,
      sent: 0,
      done: false,
      inFlight: 0,
    }));
    this.out.set(seq, { byStorage: new Map(made.map((body) => [body.storage, body])), open: made.length });
    for (const body of made) {
      this.pendingBytes += body.bytes;
      this.queueOf(body).push(body);
    }
  }

  /** The next piece of at most `max` bytes; undefined when all is sent. */
  next(max: number): Chunk<B> | undefined {
    const [first, second] = this.largeTurn ? [this.large, this.small] : [this.small, this.large];
    const chunk = this.take(first, max) ?? this.take(second, max);
    if (chunk !== undefined) this.largeTurn = !(chunk.out.bytes > SMALL_BODY_BYTES);
    return chunk;
  }

  /** Whether something is left to send. */
  hasMore(): boolean {
    return this.small.length > 0 || this.large.length > 0;
  }

  /** The peer says that more of some storage is there. */
  arrived(): void {
    this.progress++;
  }

  /** The peer has all of this storage; the shell lets go of what is returned. */
  confirmed(seq: number, storage: number): OutBody<B> | undefined {
    const body = this.out.get(seq)?.byStorage.get(storage);
    if (body === undefined || body.done) return undefined;
    this.finish(body);
    return body;
  }

  /** Nobody wants the storages of `seq` any more (or they are gone): sends no further piece. Returns those that were not confirmed. */
  drop(seq: number): OutBody<B>[] {
    const open = [...(this.out.get(seq)?.byStorage.values() ?? [])].filter((body) => !body.done);
    for (const body of open) this.finish(body);
    return open;
  }

  /** Everything that is not confirmed; for a session that ends. */
  dropAll(): OutBody<B>[] {
    return [...this.out.keys()].flatMap((seq) => this.drop(seq));
  }

  /** Frame `seq` arrived and says that these storages follow, of at least one byte each. */
  expect(seq: number, storages: readonly { storage: number; bytes: number }[]): void {
    const byStorage = new Map(storages.map(({ storage, bytes }) => [storage, { seq, storage, bytes, got: 0 }]));
    this.incoming.set(seq, { byStorage, open: byStorage.size });
  }

  /** Whether a piece is what has to come next of a storage that is expected; `unknown` ones were given up and are skipped. */
  place(seq: number, storage: number, offset: number, bytes: number): InBody | 'unknown' | 'wrong' {
    const bodies = this.incoming.get(seq);
    if (bodies === undefined) return 'unknown';
    const body = bodies.byStorage.get(storage);
    if (body === undefined || body.got !== offset || body.got + bytes > body.bytes) return 'wrong';
    return body;
  }

  /** Bytes of a storage landed. True when all storages of its message are complete; the message is forgotten then. */
  landed(body: InBody, bytes: number): boolean {
    body.got += bytes;
    this.progress += bytes;
    const bodies = this.incoming.get(body.seq);
    if (bodies === undefined || bytes === 0 || body.got < body.bytes) return false;
    if (--bodies.open > 0) return false;
    this.incoming.delete(body.seq);
    return true;
  }

  /** The message of `seq` is not wanted any more: its pieces are skipped from now on. True when it was incomplete. */
  giveUp(seq: number): boolean {
    return this.incoming.delete(seq);
  }

  /** What has arrived of each message that is incomplete. */
  positions(): BodyPosition[] {
    return [...this.incoming.values()].flatMap(({ byStorage }) =>
      [...byStorage.values()].map(({ seq, storage, got }) => ({ seq, storage, bytes: got })),
    );
  }

  /**
   * A link is up again and the peer has frames to `received` and these positions. Of a frame it has and does not name, it has everything or
   * wants nothing. Of a frame it has not, everything starts again.
   */
  resume(received: number, positions: readonly BodyPosition[]): void {
    const at = new Map<number, Map<number, number>>();
    for (const { seq, storage, bytes } of positions) {
      if (!at.has(seq)) at.set(seq, new Map());
      at.get(seq)?.set(storage, bytes);
    }
    this.small.length = 0;
    this.large.length = 0;
    for (const [seq, { byStorage }] of this.out) {
      for (const body of byStorage.values()) {
        if (body.done) continue;
        const got = seq > received ? 0 : at.get(seq)?.get(body.storage);
        body.sent = Math.min(got ?? body.bytes, body.bytes);
        if (body.sent < body.bytes) this.queueOf(body).push(body);
        else this.resumed.push(body);
      }
    }
  }

  /** Storages that a resume showed to be complete; the shell confirms each of them. */
  readonly resumed: OutBody<B>[] = [];

  private queueOf(body: OutBody<B>): OutBody<B>[] {
    return body.bytes > SMALL_BODY_BYTES ? this.large : this.small;
  }

  private take(queue: OutBody<B>[], max: number): Chunk<B> | undefined {
    let first = queue[0];
    while (first !== undefined && first.done) {
      queue.shift();
      first = queue[0];
    }
    if (first === undefined) return undefined;
    const offset = first.sent;
    const bytes = Math.min(max, first.bytes - offset);
    first.sent += bytes;
    if (first.sent === first.bytes) queue.shift();
    return { out: first, offset, bytes };
  }

  private finish(body: OutBody<B>): void {
    body.done = true;
    this.pendingBytes -= body.bytes;
    const all = this.out.get(body.seq);
    if (all !== undefined && --all.open === 0) this.out.delete(body.seq);
  }
}
