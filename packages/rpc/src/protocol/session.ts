/** @file One end of a resumable session: numbers, retains, acknowledges and replays the header lane, and keeps the credits of calls. */
import { BodyLane, type BodyPosition } from './body-lane.ts';

/**
 * What a session asks of its shell. Called synchronously, from inside an event; the shell must not call the session back from there.
 * `S` is a segment: a run of frames in the shell's own form (a range of a slab).
 */
export interface SessionPort<S> {
  /** Sends a retained segment once more, in order, before anything newer. */
  resend(segment: S): void;
  /** The peer has all frames of this segment, or the session is over: its memory may be used again. */
  release(segment: S): void;
}

/** What both sides say when a link comes up: where each stands. */
export interface Resume {
  /** The highest number received in order. */
  readonly received: number;
  /** What has arrived of the storages that are still incomplete. */
  readonly bodies: readonly BodyPosition[];
}

/** The bounds of one session; both sides may differ. */
export interface SessionLimits {
  /** Bytes of frames that are not acknowledged; past it nothing is numbered. */
  readonly windowBytes: number;
  /** Frames that are not acknowledged. */
  readonly windowFrames: number;
  /** An acknowledgement of its own after so many frames, */
  readonly ackFrames: number;
  /** or so many bytes, */
  readonly ackBytes: number;
  /** or so many milliseconds. */
  readonly ackMs: number;
}

/** What became of a frame that arrived: deliver it, drop it (it came before), or break the link (one is missing). */
export type Arrival = 'deliver' | 'duplicate' | 'gap';

/**
 * The states of a session:
 *
 * - `idle`: no link yet; frames are numbered and retained, nothing is sent;
 * - `up`: a link carries frames both ways;
 * - `lost`: the link broke; as `idle`, and what arrived late on the old link is ignored;
 * - `closed`: final; the peer died, left, or lost its side of the session.
 */
export type SessionState = 'idle' | 'up' | 'lost' | 'closed';

interface Retained<S> {
  readonly segment: S;
  readonly last: number;
  readonly bytes: number;
}

/** The plain state of a session, for simulators and explorers. */
export interface SessionSnapshot {
  readonly state: SessionState;
  readonly sent: number;
  readonly acked: number;
  readonly received: number;
  readonly ackSent: number;
  readonly retained: number;
  readonly usedCalls: number;
  readonly grantedCalls: number;
  /** What of this end's credits was used, and what of the peer's is finished here: equal at both ends when all is over. */
  readonly usedBytes: number;
  readonly finishedCalls: number;
  readonly finishedBytes: number;
}

/**
 * The header lane of one pair of incarnations, as one end sees it. Every frame gets the next number; frames are retained until the peer
 * has acknowledged them, in the segments they were written as; a link that comes up again continues where the peer stands. The receiver
 * takes each number once, in order.
 */
export class Session<S, B = unknown> {
  state: SessionState = 'idle';
  /** Out-of-band storages of the messages in both directions. */
  readonly bodies = new BodyLane<B>();
  readonly limits: SessionLimits;
  private readonly port: SessionPort<S>;
  private readonly retained: Retained<S>[] = [];
  /** `retained` starts here; the rest is cut off now and then, so that taking the first costs nothing. */
  private head = 0;
  private retainedBytes = 0;
  private sent = 0;
  private acked = 0;
  private received = 0;
  private ackSent = 0;
  private unackedBytes = 0;
  private ackDueAt = Infinity;
  private credit: CreditBook | undefined;

  constructor(port: SessionPort<S>, limits: SessionLimits) {
    this.port = port;
    this.limits = limits;
  }

  /** The number of the last frame drawn. */
  get lastSent(): number {
    return this.sent;
  }
  /** The number up to which the peer has everything. */
  get lastAcked(): number {
    return this.acked;
  }
  /** The number up to which everything has arrived here; goes into the `ack` field of every frame. */
  get lastReceived(): number {
    return this.received;
  }
  /** Whether anything has got through, either way: before that, a new start loses nothing. */
  get hasDelivered(): boolean {
    return this.acked > 0 || this.received > 0;
  }
  /** Grows with whatever gets through, either way, and need not be sent again. */
  get progress(): number {
    return this.acked + this.received + this.bodies.progress;
  }
  /** Bytes retained for the peer. */
  get pendingBytes(): number {
    return this.retainedBytes;
  }

  /** Whether one more frame may be numbered; results and control wait for this alone, calls for credit too. */
  hasRoom(): boolean {
    return (
      this.retainedBytes < this.limits.windowBytes &&
      this.sent - this.acked < this.limits.windowFrames &&
      this.state !== 'closed'
    );
  }

  /** The number of the next frame. It must be part of the next segment retained. */
  draw(): number {
    return ++this.sent;
  }

  /** Retains a segment that ends with the frame drawn last. The shell sends it now if the session is `up`. */
  retain(segment: S, bytes: number): void {
    if (this.state === 'closed') {
      this.port.release(segment);
      return;
    }
    this.retained.push({ segment, last: this.sent, bytes });
    this.retainedBytes += bytes;
  }

  /** The peer has everything up to `ack`. False when it claims what was never sent. */
  acknowledged(ack: number): boolean {
    if (ack <= this.acked) return true;
    if (ack > this.sent) return false;
    this.acked = ack;
    const { retained } = this;
    while (this.head < retained.length) {
      const first = retained[this.head] as Retained<S>;
      if (first.last > ack) break;
      this.head++;
      this.retainedBytes -= first.bytes;
      this.port.release(first.segment);
    }
    if (this.head === retained.length) {
      retained.length = 0;
      this.head = 0;
    } else if (this.head > 256) {
      retained.splice(0, this.head);
      this.head = 0;
    }
    return true;
  }

  /** A numbered frame arrived on the current link. */
  arrived(seq: number, bytes: number, now: number): Arrival {
    if (seq <= this.received) {
      // The peer replays what it does not know to be here: tell it.
      this.ackDueAt = Math.min(this.ackDueAt, now);
      return 'duplicate';
    }
    if (seq !== this.received + 1) return 'gap';
    this.received = seq;
    this.unackedBytes += bytes;
    if (this.ackDueAt === Infinity) this.ackDueAt = now + this.limits.ackMs;
    return 'deliver';
  }

  /** Frames were handed to the link; the highest `ack` field among them was `ack`. */
  ackCarried(ack: number): void {
    if (ack > this.ackSent) this.ackSent = ack;
    if (ack !== this.received) return;
    this.unackedBytes = 0;
    this.ackDueAt = Infinity;
  }

  /** When an acknowledgement of its own has to be sent, unless a frame carries it before; Infinity = none is due. */
  ackAt(): number {
    if (this.state !== 'up') return Infinity;
    if (this.received - this.ackSent >= this.limits.ackFrames || this.unackedBytes >= this.limits.ackBytes) return 0;
    return this.ackDueAt;
  }

  /** What to tell the peer when a link comes up. */
  position(): Resume {
    return { received: this.received, bodies: this.bodies.positions() };
  }

  /**
   * A link is up and the peer said where it stands: releases what it has and resends the rest. False when its claim is impossible:
   * the session cannot go on.
   */
  linkUp(peer: Resume): boolean {
    if (this.state === 'closed' || peer.received < this.acked || !this.acknowledged(peer.received)) return false;
    this.state = 'up';
    this.ackSent = this.received;
    this.unackedBytes = 0;
    this.ackDueAt = Infinity;
    this.bodies.resume(peer.received, peer.bodies);
    for (let i = this.head; i < this.retained.length; i++) this.port.resend((this.retained[i] as Retained<S>).segment);
    return true;
  }

  /** The link broke. */
  linkLost(): void {
    if (this.state !== 'up') return;
    this.state = 'lost';
    this.ackDueAt = Infinity;
  }

  /** Ends the session: releases every segment. Bodies are given back by the shell, which knows whose they are. */
  close(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.ackDueAt = Infinity;
    for (let i = this.head; i < this.retained.length; i++) this.port.release((this.retained[i] as Retained<S>).segment);
    this.retained.length = 0;
    this.head = 0;
    this.retainedBytes = 0;
  }

  /** The credits of this end; made at the first handshake from what the peer allows. */
  get credits(): CreditBook {
    return (this.credit ??= new CreditBook());
  }

  snapshot(): SessionSnapshot {
    return {
      state: this.state,
      sent: this.sent,
      acked: this.acked,
      received: this.received,
      ackSent: this.ackSent,
      retained: this.retained.length - this.head,
      usedCalls: this.credits.usedCalls,
      grantedCalls: this.credits.grantedCalls,
      usedBytes: this.credits.usedBytes,
      finishedCalls: this.credits.finishedCalls,
      finishedBytes: this.credits.finishedBytes,
    };
  }
}

/**
 * Credits for calls and stream items, as totals since the start of the session, so that a lost or repeated grant does no harm. Only calls
 * and items need them: results and control always flow, or two full peers would wait for each other for ever.
 */
export class CreditBook {
  /** Totals the peer granted, and what was used of them. */
  grantedCalls = 0;
  grantedBytes = 0;
  usedCalls = 0;
  usedBytes = 0;
  /** Totals finished here, which the peer gets back. */
  finishedCalls = 0;
  finishedBytes = 0;
  private ownCalls = 0;
  private ownBytes = 0;
  private toldCalls = 0;
  private toldBytes = 0;
  private window = 0;
  private windowCalls = 0;

  /** What the peer allows at once; undefined before it has said so. */
  get peerAllows(): { readonly calls: number; readonly bytes: number } | undefined {
    return this.windowCalls === 0 ? undefined : { calls: this.windowCalls, bytes: this.window };
  }

  /** What this end allows the peer to have in progress here. */
  allow(calls: number, bytes: number): void {
    this.ownCalls = calls;
    this.ownBytes = bytes;
    this.toldCalls = calls;
    this.toldBytes = bytes;
  }

  /** What the peer allows, by its handshake. */
  allowed(calls: number, bytes: number): void {
    this.grantedCalls = Math.max(this.grantedCalls, calls);
    this.grantedBytes = Math.max(this.grantedBytes, bytes);
    this.window = bytes;
    this.windowCalls = calls;
  }

  /** Whether a call of `bytes` may go. One that is larger than the whole window goes alone. */
  canCall(bytes: number): boolean {
    if (this.usedCalls >= this.grantedCalls) return false;
    return this.usedBytes + bytes <= this.grantedBytes || this.usedBytes + this.window <= this.grantedBytes;
  }

  /** A call of `bytes` goes. */
  use(bytes: number): void {
    this.usedCalls++;
    this.usedBytes += bytes;
  }

  /** The peer granted more: totals, so older ones are harmless. */
  granted(calls: number, bytes: number): void {
    if (calls > this.grantedCalls) this.grantedCalls = calls;
    if (bytes > this.grantedBytes) this.grantedBytes = bytes;
  }

  /**
   * Whether the peer kept to what it was told. Checked at each call that arrives, which is among `receivedCalls`; `receivedBytes` are those
   * of the calls before it, for one call may go past the window.
   */
  inWindow(receivedCalls: number, receivedBytes: number): boolean {
    return receivedCalls - this.finishedCalls <= this.ownCalls && receivedBytes - this.finishedBytes <= this.ownBytes;
  }

  /** Whether the peer was told that it may send so many calls. */
  wasTold(receivedCalls: number): boolean {
    return receivedCalls <= Math.max(this.toldCalls, this.ownCalls);
  }

  /** A call of the peer is over. */
  finished(calls: number, bytes: number): void {
    this.finishedCalls += calls;
    this.finishedBytes += bytes;
  }

  /** Whether half of a window came free since the peer was last told. */
  grantIsDue(): boolean {
    const calls = this.finishedCalls + this.ownCalls - this.toldCalls;
    const bytes = this.finishedBytes + this.ownBytes - this.toldBytes;
    return calls * 2 >= this.ownCalls || bytes * 2 >= this.ownBytes;
  }

  /** The totals to tell the peer now. */
  grant(): { calls: number; bytes: number } {
    this.toldCalls = this.finishedCalls + this.ownCalls;
    this.toldBytes = this.finishedBytes + this.ownBytes;
    return { calls: this.toldCalls, bytes: this.toldBytes };
  }
}
