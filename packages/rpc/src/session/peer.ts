/** @file Another worker in one of its lives: its link, its session, and what both sides agreed on. */
import { runAtRoot } from '@backwire/tensor/internal';
import { FrameKind, protocolError, type FrameHeader, type handshakeProto } from '@backwire/wire/internal';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { RpcError, type Executed, type RpcErrorCode } from '../base/errors.ts';
import { identityOf, PROTOCOL_VERSION } from './identity.ts';
import { Receiver, type FrameHandler } from './receiver.ts';
import {
  ACK_BYTES,
  ACK_FRAMES,
  ACK_MS,
  HELLO_TIMEOUT_MS,
  SESSION_WINDOW_BYTES,
  SESSION_WINDOW_FRAMES,
} from '../base/limits.ts';
import { Link, type LinkOwner } from './link.ts';
import { Sender } from './sender.ts';
import { newTokenBytes } from '../base/ids.ts';
import { randomBytes } from '../base/platform.ts';
import { Connector, CONNECTOR_TIMES, type ConnectorPort } from '../protocol/connector.ts';
import type { ViewMember } from '../protocol/membership.ts';
import type { Resume } from '../protocol/session.ts';
import { sameBytes } from '../security/digest.ts';
import { howDialFailed, UNANSWERED, unanswered } from '../transports/dialling.ts';
import type { Connection } from '../transports/transport.ts';
import { WorkerInfo } from '../base/worker-info.ts';

type Step = NonNullable<handshakeProto.Handshake['step']>;

/** What a peer asks of whoever keeps the peers of an agent. */
export interface PeerOwner {
  /** Who gets what this peer sends. */
  handlerOf(peer: Peer): FrameHandler;
  /** Connects and authenticates; the peer's claim has been checked. */
  connect(peer: Peer, signal: AbortSignal): Promise<Connection>;
  /** Calls `start` when it is the turn of a dial; the returned function says that it is over. */
  waitToDial(again: boolean, start: () => void): () => void;
  /** A pure acknowledgement is due before long. */
  ackDue(peer: Peer): void;
  /** `connector.timerAt` has changed. */
  timerChanged(peer: Peer): void;
  linkUp(peer: Peer, first: boolean): void;
  linkLost(peer: Peer): void;
  /** The peer cannot be reached. */
  unreachable(peer: Peer, why: 'refused' | 'unreachable'): void;
  /** The two sides cannot go on: one of them has lost what it knew of the session. */
  sessionLost(peer: Peer, why: string): void;
  /** The peer refused this worker as one that is gone: whether the group says so. */
  expelled(): Promise<boolean>;
  /** The peer said goodbye: its link will not come back. */
  left(peer: Peer): void;
  /** Fails every call to the peer. */
  failCalls(peer: Peer, error: (executed: Executed) => RpcError): void;
}

/** A dial in progress. */
interface Dial {
  /** Ends it; there is none while it stands in line. */
  controller: AbortController | undefined;
  /** When it was connected. */
  startedAt: number;
  /** The peer answered, and will take it another time. */
  postponed: boolean;
  /** It is over: the next in line may dial. */
  leave: () => void;
  link: Link | undefined;
  timer: NodeJS.Timeout | undefined;
}

/**
 * States: `open` (calls may be sent; a link is dialled when one is wanted), `unreachable` (the last attempts failed: calls fail at once
 * unless a link comes up), `gone` (final: dead, left, or this agent closed).
 */
export type PeerState = 'open' | 'unreachable' | 'gone';

export class Peer implements ConnectorPort<Link>, LinkOwner {
  readonly worker: WorkerInfo;
  readonly incarnation: number;
  readonly member: ViewMember;
  readonly sender: Sender;
  readonly receiver: Receiver;
  readonly connector: Connector<Link>;
  state: PeerState = 'open';
  /** Links made again after one was lost. */
  reconnects = 0;
  /** The last frame whose call it still serves; Infinity unless it is leaving. */
  lastServed = Infinity;
  /** The extensions it named; those of the view until its handshake. */
  extensions: ReadonlySet<string>;
  link: Link | undefined;
  /** Numbers of the names that calls to it use; negative while it may not have been told. */
  readonly interned = new Map<string, number>();
  /** The last sign of life that was taken note of. */
  notedAt = 0;
  /** Calls to it that are not answered. */
  awaited = 0;
  private readonly environment: ExtendedEnvironment;
  private readonly owner: PeerOwner;
  /** Names the session; the dialer proposes one, and it is settled once a WELCOME or RESUME came back. */
  private token: Uint8Array = newTokenBytes();
  private agreed = false;
  private dialing: Dial | undefined;
  private earlierSent = 0;
  private earlierReceived = 0;
  /** Of the session, when the last link was lost. */
  private progress = 0;

  constructor(environment: ExtendedEnvironment, owner: PeerOwner, member: ViewMember) {
    this.environment = environment;
    this.owner = owner;
    this.member = member;
    this.worker = new WorkerInfo(member.name, member.id);
    this.incarnation = member.incarnation;
    this.extensions = new Set(member.extensions);
    this.sender = new Sender({
      slabs: environment.slabs,
      wireLimits: environment.wireLimits,
      maxBufferedBytes: environment.limits.maxBufferedBytesPerPeer,
      session: {
        windowBytes: SESSION_WINDOW_BYTES,
        windowFrames: SESSION_WINDOW_FRAMES,
        ackFrames: ACK_FRAMES,
        ackBytes: ACK_BYTES,
        ackMs: ACK_MS,
      },
      now: () => environment.now(),
      wanted: () => this.want(),
      overflowed: () => owner.sessionLost(this, 'more results and control wait than may be kept'),
    });
    this.sender.session.credits.allow(environment.limits.maxInboundCalls, environment.limits.maxBufferedBytesPerPeer);
    this.receiver = new Receiver(environment, owner.handlerOf(this), this.sender);
    const own = { name: environment.self.name, peer: member.name, sameHost: member.host === environment.hostId };
    this.connector = new Connector<Link>(this, own, {
      ...CONNECTOR_TIMES,
      graceMs: environment.liveness.reconnectGraceMs,
      busyGraceMs: environment.liveness.busyDeadMs,
    });
  }

  /** It is leaving: it finishes the calls it has and takes no more. */
  get draining(): boolean {
    return this.lastServed !== Infinity;
  }

  /** Over all links there were. */
  get bytesSent(): number {
    return this.earlierSent + (this.link?.connection.sentBytes ?? 0);
  }
  get bytesReceived(): number {
    return this.earlierReceived + (this.link?.connection.receivedBytes ?? 0);
  }

  /** Whether a link carries frames now. */
  get up(): boolean {
    return this.link?.state === 'open';
  }

  /** Whether somebody waits for it: calls either way that are not answered, frames that it has not acknowledged. */
  get inUse(): boolean {
    const { session } = this.sender;
    return this.awaited > 0 || this.receiver.serving || session.lastSent > session.lastAcked;
  }

  /** A link is wanted. */
  want(): void {
    if (this.state === 'gone') return;
    runAtRoot(() => {
      this.connector.want(this.environment.now());
      this.owner.timerChanged(this);
    });
  }

  /** The connector's timer has come. */
  tick(now: number): void {
    runAtRoot(() => {
      this.connector.tick(now);
      this.owner.timerChanged(this);
    });
  }

  /** Sends a ping; whatever comes back counts as life. */
  ping(now: number): void {
    this.sender.sendLoose(FrameKind.PING, Math.floor(now));
  }

  /** Breaks the link; the session stays and both sides redial. For silence, and for tests. */
  reset(error: Error): void {
    const { link } = this;
    if (link === undefined) return;
    link.end(error);
    this.closed(link);
  }

  /** Ends it for good. Pending calls are the caller's to fail. */
  close(): void {
    if (this.state === 'gone') return;
    this.state = 'gone';
    this.connector.close();
    this.receiver.close();
    this.sender.close();
    this.link?.finish();
    if (this.link !== undefined) this.forgetLink(this.link);
  }

  /** One end of this worker's connection to itself: there is nobody to ask who is there. */
  attachLoop(connection: Connection): void {
    this.agreed = true;
    const { limits } = this.environment;
    this.sender.session.credits.allowed(limits.maxInboundCalls, limits.maxBufferedBytesPerPeer);
    const link = new Link(connection, this, this.environment.wireLimits);
    this.connector.hello(link, 1, this.environment.now());
    this.adopt(link);
    link.start();
  }

  /** A stranger's link said HELLO and is this peer's, in this life. */
  hello(link: Link, identity: handshakeProto.Identity): void {
    link.handTo(this);
    hellos.set(link, identity);
    this.connector.hello(link, identity.dial, this.environment.now());
    this.owner.timerChanged(this);
  }

  // ConnectorPort

  dial(again: boolean): void {
    const dial: Dial = {
      controller: undefined,
      startedAt: Infinity,
      postponed: false,
      leave: nothing,
      link: undefined,
      timer: undefined,
    };
    this.dialing = dial;
    const leave = this.owner.waitToDial(again, () => runAtRoot(() => this.startDial(dial)));
    if (this.dialing === dial) dial.leave = leave;
    else leave();
  }

  private startDial(dial: Dial): void {
    if (this.dialing !== dial) return;
    this.connector.dialStarted(this.environment.now());
    dial.controller = new AbortController();
    this.owner.connect(this, dial.controller.signal).then(
      (connection) => {
        if (this.dialing !== dial) {
          connection.destroy();
          return;
        }
        dial.startedAt = performance.now();
        dial.link = new Link(connection, this, this.environment.wireLimits);
        dial.timer = setTimeout(
          () => this.failDial(dial, new RpcError('deadline-exceeded', `no WELCOME came: ${UNANSWERED}`)),
          HELLO_TIMEOUT_MS,
        );
        dial.link.start();
        dial.link.sendHandshake({ $case: 'hello', value: { identity: this.identity() } });
      },
      (error: unknown) => this.failDial(dial, error),
    );
  }

  abandonDial(): void {
    const dial = this.dialing;
    if (dial === undefined) return;
    this.dialing = undefined;
    dial.leave();
    clearTimeout(dial.timer);
    dial.controller?.abort(new RpcError('cancelled', 'another link of this pair has won'));
    dial.link?.end();
  }

  accept(link: Link): void {
    const identity = hellos.get(link);
    if (this.worker.name === this.environment.self.name) return;
    if (identity === undefined || link.state === 'closed') {
      this.connectorLost();
      return;
    }
    this.endOldLink();
    const known = sameBytes(identity.session, this.token);
    if (this.agreed && !known && this.sender.session.hasDelivered) {
      link.refuse('failed-precondition', 'this side knows another session');
      this.connectorLost();
      this.owner.sessionLost(this, 'it does not know its session any more');
      return;
    }
    const resumed = this.agreed && known;
    this.token = identity.session;
    this.learn(identity);
    const welcome = { identity: this.identity(), resumed, version: PROTOCOL_VERSION };
    this.adopt(link, [link.handshakeFrame({ $case: 'welcome', value: welcome })]);
  }

  refuse(link: Link): void {
    link.refuse('unavailable', 'another link of this pair has won');
  }

  park(_link: Link): void {
    // It stays open and silent until the own dial is decided.
  }

  giveUp(why: 'refused' | 'unreachable'): void {
    if (this.state === 'open') this.state = 'unreachable';
    this.owner.unreachable(this, why);
  }

  random(): number {
    return new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32;
  }

  // LinkOwner

  handshake(link: Link, step: Step): void {
    const dial = this.dialing;
    if (dial?.link !== link) throw protocolError('a handshake out of turn');
    switch (step.$case) {
      case 'welcome':
        this.welcome(dial, link, step.value);
        return;
      case 'reject':
        this.rejected(dial, step.value);
        return;
      case 'hello':
      case 'challenge':
      case 'auth':
        throw protocolError(`a ${step.$case} instead of WELCOME`);
    }
  }

  resumed(link: Link, position: Resume): void {
    if (link !== this.link) return;
    this.agreed = true;
    this.state = 'open';
    const first = this.sender.session.state === 'idle';
    if (!first) this.reconnects++;
    if (!this.sender.resume(position)) {
      link.end();
      this.owner.sessionLost(this, 'it claims to have what was never sent');
      return;
    }
    this.owner.linkUp(this, first);
  }

  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    this.receiver.frame(header, bytes, start, end);
  }

  body(header: FrameHeader): Uint8Array | undefined {
    return this.receiver.body(header);
  }

  bodyEnd(header: FrameHeader, landed: number): void {
    this.receiver.bodyEnd(header, landed);
  }

  batch(_link: Link): void {
    const at = this.sender.session.ackAt();
    if (at === 0) this.sender.sendAck();
    else if (at !== Infinity) this.owner.ackDue(this);
  }

  closed(link: Link, error?: Error): void {
    const dial = this.dialing;
    if (dial?.link === link) {
      const text = `the connection was closed during the handshake${unanswered(performance.now() - dial.startedAt)}`;
      this.failDial(dial, error ?? new RpcError('unavailable', text));
      return;
    }
    if (link !== this.link) {
      this.connector.parkedLost(link);
      return;
    }
    this.dropLink(link);
    this.environment.logger.debug({ peer: this.worker.name, error: error?.message }, 'link lost');
    if (this.state === 'gone') return;
    this.owner.linkLost(this);
    if (this.receiver.saidGoodbye) this.owner.left(this);
    else runAtRoot(() => this.connectorLost());
    this.owner.timerChanged(this);
  }

  private connectorLost(): void {
    const { progress } = this.sender.session;
    this.connector.linkLost(this.environment.now(), progress !== this.progress);
    this.progress = progress;
  }

  private welcome(dial: Dial, link: Link, welcome: handshakeProto.Welcome): void {
    const { identity } = welcome;
    if (identity === undefined || identity.name !== this.worker.name || identity.incarnation !== this.incarnation) {
      throw protocolError('another worker answered');
    }
    if (!sameBytes(identity.session, this.token)) throw protocolError('another session was answered');
    clearTimeout(dial.timer);
    this.dialing = undefined;
    dial.leave();
    // A peer that had agreed to nothing yet has delivered nothing: with it, the session simply begins.
    if (this.agreed && !welcome.resumed && this.sender.session.hasDelivered) {
      link.end();
      this.owner.sessionLost(this, 'it does not know the session any more');
      return;
    }
    this.agreed = true;
    this.learn(identity);
    this.endOldLink();
    this.connector.welcomed(identity.dial, this.environment.now());
    this.adopt(link);
  }

  private rejected(dial: Dial, { code, message }: handshakeProto.Reject): void {
    if (code === 'fenced') {
      void this.owner.expelled().then((gone) => {
        const text = gone ? message : `worker '${this.worker.name}' counts this worker as gone, and its group does not`;
        this.failDial(dial, new RpcError(gone ? 'fenced' : 'unavailable', text, { peer: this.worker }));
      });
      return;
    }
    if (code === 'failed-precondition') this.owner.sessionLost(this, message);
    dial.postponed = code === 'unavailable';
    const known = HOPELESS.has(code as RpcErrorCode) ? (code as RpcErrorCode) : 'unavailable';
    this.failDial(dial, new RpcError(known, message, { peer: this.worker }));
  }

  private adopt(link: Link, first: readonly Uint8Array[] = []): void {
    this.link = link;
    this.sender.open(link.connection, [...first, link.resumeFrame(this.sender.session.position())]);
  }

  /** What the other side says of itself. */
  private learn(identity: handshakeProto.Identity): void {
    this.extensions = new Set(identity.extensions.map(({ name }) => name));
    const { limits } = identity;
    if (limits !== undefined) this.sender.session.credits.allowed(limits.maxInboundCalls, limits.maxInboundBytes);
  }

  private identity(): handshakeProto.Identity {
    const session = { peerIncarnation: this.incarnation, session: this.token, dial: this.connector.dialCount };
    return identityOf(this.environment, session);
  }

  /** Delivery on the old link has to be over before a new one says where this side stands. */
  private endOldLink(): void {
    const { link } = this;
    if (link === undefined) return;
    link.end();
    this.dropLink(link);
  }

  private dropLink(link: Link): void {
    this.forgetLink(link);
    this.sender.lost();
  }

  /** What went over it stays counted. */
  private forgetLink(link: Link): void {
    this.earlierSent += link.connection.sentBytes;
    this.earlierReceived += link.connection.receivedBytes;
    this.link = undefined;
  }

  private failDial(dial: Dial, error: unknown): void {
    if (this.dialing !== dial) return;
    this.dialing = undefined;
    dial.leave();
    clearTimeout(dial.timer);
    dial.link?.end();
    this.environment.logger.debug(
      { peer: this.worker.name, error: error instanceof Error ? error.message : String(error) },
      'dial failed',
    );
    if (error instanceof RpcError && HOPELESS.has(error.code)) {
      this.connector.dialRejected();
      const { code, message } = error;
      this.owner.failCalls(
        this,
        (executed) => new RpcError(code, message, { executed, peer: this.worker, cause: error }),
      );
    } else {
      runAtRoot(() =>
        this.connector.dialFailed(dial.postponed ? 'busy' : howDialFailed(error), this.environment.now()),
      );
    }
    this.owner.timerChanged(this);
  }
}

/** Another dial would end the same way. */
const HOPELESS: ReadonlySet<RpcErrorCode> = new Set(['unauthenticated', 'version-mismatch', 'permission-denied']);

/** The HELLO of each link that is parked or being accepted. */
const hellos = new WeakMap<Link, handshakeProto.Identity>();

function nothing(): void {
  // It has not stood in line.
}
