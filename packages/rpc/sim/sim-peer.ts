/** @file The simulated counterpart of the agent's peer: the production session, connector and body lane behind a virtual connection. */
import type { End, NodeEnv } from '@backwire/testing';
import { LivenessPolicy } from '../src/liveness/policy.ts';
import { Connector, CONNECTOR_TIMES, type ConnectorPort } from '../src/protocol/connector.ts';
import { type Session, type SessionLimits } from '../src/protocol/session.ts';
import {
  frameBytes,
  type Frame,
  type Handshake,
  type Life,
  type Numbered,
  type Packet,
  type Payload,
} from './frames.ts';
import type { Oracle } from './oracle.ts';
import { Outbox, type Queued, type SegmentPort } from './outbox.ts';
import { Storages } from './storages.ts';

/** Small, so that windows fill and acknowledgements matter. */
const LIMITS: SessionLimits = { windowBytes: 400, windowFrames: 12, ackFrames: 4, ackBytes: 200, ackMs: 20 };
const CREDIT_CALLS = 6;
const CREDIT_BYTES = 600;
/** A tenth of the defaults. */
const LIVENESS = {
  pingMs: 200,
  suspectMs: 600,
  deadMs: 1_500,
  busyDeadMs: 6_000,
  reconnectGraceMs: 60_000,
  leaseMs: 60_000,
};
const HELLO_TIMEOUT_MS = 500;

/** What a peer tells its worker. */
export interface PeerOwner {
  readonly env: NodeEnv;
  readonly self: Life;
  readonly oracle: Oracle;
  makeSession(port: SegmentPort, limits: SessionLimits): Session<Numbered[], number>;
  /** A numbered frame, or a call that is complete with its storages. */
  received(peer: SimPeer, payload: Payload, seq: number): void;
  /** A call arrived; its storages may still be on their way. */
  arrived(uid: number): void;
  /** Whether the life behind a name makes a difference. */
  readonly tellsLives: boolean;
  /** Links are slow: storages go at their pace, and whoever is silent is noticed. */
  readonly slow: boolean;
  /** Storages are sent at the pace of the link. */
  readonly paced: boolean;
  /** A peer whose link carries bytes was thought dead. */
  accused(peer: SimPeer): void;
  /** Calls `start` when it is the turn of a dial; the returned function says that it is over. */
  waitToDial(again: boolean, start: () => void): () => void;
  /** The connector gave up: everything that waits fails. */
  unreachable(peer: SimPeer): void;
  /** A live session cannot go on; without a crash this must never happen. */
  sessionLost(peer: SimPeer, why: string): void;
}

/** Another worker in one of its lives, as one worker sees it. */
export class SimPeer implements ConnectorPort<End> {
  readonly life: Life;
  readonly session: Session<Numbered[], number>;
  readonly connector: Connector<End>;
  readonly #owner: PeerOwner;
  readonly #outbox: Outbox;
  readonly #storages: Storages;
  readonly #hellos = new Map<End, Extract<Handshake, { kind: 'hello' }>>();
  /** The last frame whose call it still serves. */
  lastServed = Infinity;
  #token: number;
  #agreed = false;
  #dialing: End | undefined;
  #leave: () => void = () => undefined;
  #link: End | undefined;
  #resumed = false;
  /** Of the session, when the last link was lost. */
  #progress = 0;
  #gone = false;
  #flushing = false;
  readonly #liveness = new LivenessPolicy<SimPeer>(LIVENESS);

  constructor(life: Life, owner: PeerOwner) {
    this.life = life;
    this.#owner = owner;
    this.#token = owner.env.random.uint32();
    this.#outbox = new Outbox(
      (port) => owner.makeSession(port, LIMITS),
      (seq, payload) => this.#numbered(seq, payload),
    );
    this.session = this.#outbox.session;
    this.#storages = new Storages(this.session, owner);
    this.session.credits.allow(CREDIT_CALLS, CREDIT_BYTES);
    this.session.credits.allowed(CREDIT_CALLS, CREDIT_BYTES);
    const own = { name: owner.self.name, peer: life.name, sameHost: false };
    this.connector = new Connector<End>(this, own, CONNECTOR_TIMES);
    this.#poll();
  }

  /** What is not settled on this side; empty when all is quiet. */
  open(): string | undefined {
    const { sent, acked, retained } = this.session.snapshot();
    if (this.#gone) return this.#outbox.isReleased ? undefined : 'segments were not released';
    if (!this.#outbox.isEmpty) return 'frames wait';
    if (sent !== acked || retained > 0) return `${sent - acked} frames are not acknowledged`;
    if (this.session.bodies.pendingBytes > 0)
      return `${this.session.bodies.pendingBytes} bytes of storages are not confirmed`;
    if (this.#storages.assembling > 0) return 'a call waits for its storages';
    return this.#outbox.isReleased ? undefined : 'segments were not released exactly once';
  }

  /** Queues a call; nothing when too many wait. `sentAs` is told its number. */
  call(payload: Payload, bytes: number, sentAs: (seq: number) => void): Queued | undefined {
    const queued = this.#outbox.call(payload, bytes, sentAs);
    if (queued !== undefined) this.#schedule();
    return queued;
  }

  /** Queues a frame that needs no credit. */
  control(payload: Payload, bytes = 10): void {
    if (this.#gone) return;
    this.#outbox.control(payload, bytes);
    this.#schedule();
  }

  /** Nobody wants the storages of a call any more. */
  dropBodies(seq: number): void {
    if (this.session.bodies.drop(seq).length > 0) this.control({ kind: 'body-lost', seq });
  }

  /** A call of the peer is over: its credit goes back. */
  finished(bytes: number): void {
    this.session.credits.finished(1, bytes);
    if (this.session.credits.grantIsDue())
      this.#sendLoose({ kind: 'credit', ack: this.session.lastReceived, ...this.session.credits.grant() });
  }

  /** A connection's first message was this peer's HELLO. */
  hello(end: End, hello: Extract<Handshake, { kind: 'hello' }>): void {
    this.#hellos.set(end, hello);
    end.onClose = () => this.#closed(end);
    this.connector.hello(end, hello.dial, this.#owner.env.now());
  }

  /** It died, or this worker closes. */
  close(): void {
    this.#gone = true;
    this.connector.close();
    this.#link?.close();
    this.#link = undefined;
    this.session.close();
    this.session.bodies.dropAll();
    this.#outbox.clear();
    this.#storages.clear();
  }

  // ConnectorPort

  dial(again: boolean): void {
    this.#leave = this.#owner.waitToDial(again, () => this.#dial());
  }

  #dial(): void {
    if (this.connector.state !== 'dialing' || this.#dialing !== undefined) return;
    this.connector.dialStarted(this.#owner.env.now());
    const end = this.#owner.env.connect(this.life.name);
    this.#dialing = end;
    end.onOpen = () => {
      const { self } = this.#owner;
      end.send({
        kind: 'hello',
        from: self,
        to: this.life,
        token: this.#token,
        dial: this.connector.dialCount,
      } satisfies Packet);
    };
    end.onMessage = (packet) => this.#answered(end, packet as Packet);
    end.onClose = (reason) => this.#dialOver(end, reason === 'refused');
    this.#owner.env.setTimer(HELLO_TIMEOUT_MS, 'hello timeout', () => {
      if (this.#dialing !== end) return;
      end.close();
      this.#dialOver(end, false);
    });
  }

  abandonDial(): void {
    const end = this.#dialing;
    this.#dialing = undefined;
    this.#leave();
    end?.close();
  }

  accept(end: End): void {
    const hello = this.#hellos.get(end);
    this.#hellos.delete(end);
    if (hello === undefined || end.state === 'closed') {
      this.#redial();
      return;
    }
    // Only now: a HELLO of a dial that is over says nothing about the session.
    if (this.#agreed && hello.token !== this.#token && this.session.hasDelivered) {
      end.send({ kind: 'reject', code: 'lost' } satisfies Packet);
      end.close();
      this.#owner.sessionLost(this, 'another token');
      return;
    }
    this.#endOldLink();
    const resumed = this.#agreed;
    this.#token = hello.token;
    const dial = this.connector.dialCount;
    end.send({ kind: 'welcome', from: this.#owner.self, token: this.#token, dial, resumed } satisfies Packet);
    this.#adopt(end);
  }

  refuse(end: End): void {
    this.#hellos.delete(end);
    end.send({ kind: 'reject', code: 'unavailable' } satisfies Packet);
    end.close();
  }

  park(): void {
    // The connection stays open and silent until the own dial is decided.
  }

  giveUp(): void {
    this.#outbox.withdrawCalls();
    this.#owner.unreachable(this);
  }

  random(): number {
    return this.#owner.env.random.float();
  }

  #answered(end: End, packet: Packet): void {
    if (this.#dialing !== end) return;
    if (packet.kind === 'reject') {
      end.close();
      if (packet.code === 'lost') this.#owner.sessionLost(this, 'the peer refused its token');
      this.#dialOver(end, false);
      return;
    }
    if (packet.kind !== 'welcome' || (this.#owner.tellsLives && packet.from.incarnation !== this.life.incarnation)) {
      end.close();
      this.#dialOver(end, false);
      return;
    }
    this.#dialing = undefined;
    this.#leave();
    // Before the peer's first RESUME nothing can have been delivered either way: then there is nothing to forget.
    if (this.#agreed && !packet.resumed && this.session.hasDelivered) {
      end.close();
      this.#owner.sessionLost(this, 'the peer forgot the session');
      return;
    }
    this.#agreed = true;
    this.#endOldLink();
    this.connector.welcomed(packet.dial, this.#owner.env.now());
    this.#adopt(end);
  }

  #adopt(end: End): void {
    this.#link = end;
    this.#resumed = false;
    end.onMessage = (packet) => this.#received(end, packet as Packet);
    end.onClose = () => this.#closed(end);
    this.#send([{ kind: 'resume', position: this.session.position() }]);
  }

  #received(end: End, packet: Packet): void {
    if (packet.kind !== 'batch') return this.#owner.sessionLost(this, `${packet.kind} out of turn`);
    this.#liveness.heard(this, this.#owner.env.now());
    for (const frame of packet.frames) {
      if (end !== this.#link) return;
      this.#frame(frame);
    }
    if (end === this.#link && this.session.ackAt() === 0) this.#sendAck();
  }

  #frame(frame: Frame): void {
    if (frame.kind === 'resume') return this.#resume(frame.position);
    if (!this.#resumed) return this.#owner.sessionLost(this, 'a frame before RESUME');
    const { session } = this;
    if (!session.acknowledged(frame.ack))
      return this.#owner.sessionLost(this, 'an acknowledgement of what was never sent');
    switch (frame.kind) {
      case 'numbered':
        return this.#arrived(frame);
      case 'body':
        return this.#body(frame);
      case 'body-ack':
        this.#storages.acknowledged(frame, this.#owner.env.now());
        break;
      case 'ping':
        this.#sendLoose({ kind: 'pong', ack: session.lastReceived });
        break;
      case 'pong':
        break;
      case 'credit':
        session.credits.granted(frame.calls, frame.bytes);
        break;
      case 'ack':
        break;
    }
    this.#schedule();
  }

  #resume(position: Parameters<Session<unknown>['linkUp']>[0]): void {
    this.#agreed = true;
    this.#resumed = true;
    this.#outbox.retain();
    if (!this.session.linkUp(position)) return this.#owner.sessionLost(this, 'an impossible position');
    for (const { seq, storage } of this.session.bodies.resumed.splice(0)) this.session.bodies.confirmed(seq, storage);
    this.#sendLoose({ kind: 'credit', ack: this.session.lastReceived, ...this.session.credits.grant() });
    this.#liveness.linkUp(this, this.#owner.env.now());
    this.#schedule();
  }

  #arrived(frame: Numbered): void {
    const { session } = this;
    const { env, self, oracle } = this.#owner;
    const arrival = session.arrived(frame.seq, frame.bytes, env.now());
    if (arrival === 'gap') return this.#owner.sessionLost(this, `frame ${frame.seq} after ${session.lastReceived}`);
    const due = session.ackAt();
    if (due !== Infinity && due > 0) env.setTimer(due - env.now(), 'ack', () => this.#ackIfDue());
    this.#schedule();
    if (arrival === 'duplicate') return;
    const { payload } = frame;
    if (payload.kind === 'call') this.#owner.arrived(payload.uid);
    if ('uid' in payload) oracle.delivered(this.life, self, payload.uid);
    if (payload.kind === 'call' && payload.bodies.length > 0) {
      this.#storages.expect(frame.seq, payload);
    } else if (payload.kind === 'body-lost') {
      const lost = this.#storages.lost(payload.seq);
      if (lost?.kind === 'call') {
        this.finished(lost.bytes);
        this.control({ kind: 'result', callId: lost.callId, uid: oracle.uid(), ran: false, value: 0 });
      }
    } else this.#owner.received(this, payload, frame.seq);
  }

  #body(frame: Extract<Frame, { kind: 'body' }>): void {
    const landed = this.#storages.arrived(frame);
    if (landed === 'out of place') return this.#owner.sessionLost(this, 'a piece of a storage out of place');
    const { answer, complete } = landed;
    if (answer !== undefined) this.#sendLoose(answer);
    if (complete !== undefined) this.#owner.received(this, complete, frame.seq);
  }

  #closed(end: End): void {
    this.#hellos.delete(end);
    if (end !== this.#link) return this.connector.parkedLost(end);
    this.#endOldLink();
    if (!this.#gone) this.#redial();
  }

  #redial(): void {
    const { progress } = this.session;
    this.connector.linkLost(this.#owner.env.now(), progress !== this.#progress);
    this.#progress = progress;
  }

  #dialOver(end: End, refused: boolean): void {
    if (this.#dialing !== end) return;
    this.#dialing = undefined;
    this.#leave();
    this.connector.dialFailed(refused ? 'refused' : 'failed', this.#owner.env.now());
  }

  /** Delivery on the old link is over before a new one says where this side stands. */
  #endOldLink(): void {
    const link = this.#link;
    this.#link = undefined;
    this.#outbox.takeReplay();
    this.session.linkLost();
    this.#storages.linkLost();
    link?.close();
  }

  /** The end of a tick: numbers what may go, retains it and sends it. */
  #schedule(): void {
    if (this.#flushing || this.#gone) return;
    this.#flushing = true;
    this.#owner.env.setTimer(0, 'flush', () => {
      this.#flushing = false;
      if (this.#gone) return;
      if (this.#link === undefined && this.#outbox.wantsLink) this.connector.want(this.#owner.env.now());
      this.#outbox.drain();
      const segment = this.#outbox.retain();
      if (this.#link === undefined || this.session.state !== 'up') return;
      const frames: Frame[] = this.#outbox.takeReplay() ?? segment ?? [];
      this.#sendAll([...frames, ...this.#pieces()]);
    });
  }

  /** A frame has got its number. */
  #numbered(seq: number, payload: Payload): void {
    const { self, oracle } = this.#owner;
    oracle.unacknowledged(self, this.life, seq - this.session.lastAcked, LIMITS.windowFrames);
    if ('uid' in payload) oracle.sent(self, this.life, payload.uid);
  }

  #pieces(): Frame[] {
    const piece = this.#storages.next(this.#owner.env.now());
    if (piece === undefined) return [];
    if (this.session.bodies.hasMore()) this.#schedule();
    return [piece];
  }

  /** Pings one that is silent, and accuses one that stays so. */
  #watch(): void {
    for (const { type } of this.#liveness.tick(this.#owner.env.now())) {
      if (type === 'ping') this.#sendLoose({ kind: 'ping', ack: this.session.lastReceived });
      else if (type === 'accuse') this.#owner.accused(this);
    }
  }

  #ackIfDue(): void {
    if (this.session.ackAt() <= this.#owner.env.now() && this.#link !== undefined) this.#sendAck();
  }

  #sendAck(): void {
    this.session.ackCarried(this.session.lastReceived);
    this.#sendLoose({ kind: 'ack', ack: this.session.lastReceived });
  }

  #sendLoose(frame: Frame): void {
    if (this.#link !== undefined && this.session.state === 'up') this.#send([frame]);
  }

  #sendAll(frames: Frame[]): void {
    // Frames that were written before, or are sent again, carry an older acknowledgement than the one that is due.
    const last = frames.at(-1);
    if (last !== undefined && 'ack' in last) this.session.ackCarried(last.ack);
    this.#send(frames);
  }

  #send(frames: Frame[]): void {
    if (frames.length === 0) return;
    const bytes = frames.reduce((sum, frame) => sum + frameBytes(frame), 0);
    this.#link?.send({ kind: 'batch', frames } satisfies Packet, bytes);
  }

  /** Stands for the shell's timers: the connector's, and a link for what is left to send. */
  #poll(): void {
    if (this.#gone) return;
    const { env } = this.#owner;
    if (this.connector.timerAt <= env.now()) this.connector.tick(env.now());
    if (this.#outbox.wantsLink) this.#schedule();
    this.#ackIfDue();
    if (this.#owner.slow) this.#watch();
    env.setTimer(20, 'poll', () => this.#poll());
  }
}
