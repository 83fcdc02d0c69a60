/** @file The other workers, as one agent knows them: their links, their signs of life, and what a change of the view does. */
import { runAtRoot } from '@backwire/tensor/internal';
import {
  bufferPool,
  controlProto,
  encodeProto,
  FrameKind,
  MessageType,
  type handshakeProto,
} from '@backwire/wire/internal';
import { FailureDetector } from './failure-detector.ts';
import type { OpenCalls } from '../client/open-calls.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { RpcError, type Executed } from '../base/errors.ts';
import type { Group } from './group.ts';
import type { StoreState } from './group-store.ts';
import { ACK_MS, MAX_FORMER_MEMBERS, MAX_PENDING_HELLOS } from '../base/limits.ts';
import { Link, type LinkOwner } from '../session/link.ts';
import { Peer, PROTOCOL_VERSION, type PeerOwner } from '../session/peer.ts';
import type { StallGuard } from '../server/stall-guard.ts';
import type { FrameHandler } from '../session/receiver.ts';
import { unref } from '../base/platform.ts';
import {
  lifeOf,
  type Life,
  type Membership,
  type View,
  type ViewChange,
  type ViewMember,
} from '../protocol/membership.ts';
import type { AgentEvents } from '../base/rpc-agent.ts';
import type { Member } from '../extensions/extension.ts';
import { memoryPair } from '../transports/memory.ts';
import type { Knock } from '../transports/knock.ts';
import type { Connection } from '../transports/transport.ts';
import { namesText } from '../base/names-text.ts';
import { WorkerInfo, type To } from '../base/worker-info.ts';

/** Receive memory that was not used for so long goes back to the system. */
const POOL_SWEEP_MS = 30_000;
/** Memory of a session on which nothing was sent for so long goes back to its pool. */
const REST_MS = 1_000;

/** Owns links on which nothing may come but a HELLO, or nothing at all. */
const SILENT: LinkOwner = {
  handshake: (link) => link.refuse('protocol-error', 'a HELLO was sent twice'),
  resumed: (link) => link.end(),
  frame: () => undefined,
  body: () => undefined,
  bodyEnd: () => undefined,
  batch: () => undefined,
  closed: () => undefined,
};

export interface PeersOptions {
  readonly environment: ExtendedEnvironment;
  readonly calls: OpenCalls;
  readonly group: Group;
  readonly membership: Membership;
  readonly stallGuard: StallGuard;
  /** Knocks at endpoints; undefined where that cannot be done. */
  readonly knock: ((endpoints: readonly string[], timeoutMs: number) => Promise<Knock>) | undefined;
  /** Whether a member's process on this machine has certainly ended. */
  readonly isGone: (member: ViewMember) => boolean;
  handlerOf(peer: Peer): FrameHandler;
  /** Connects to a peer and proves who is who. */
  connect(peer: Peer, signal: AbortSignal): Promise<Connection>;
  /** Calls `start` when it is the turn of a dial of `who`; the returned function says that it is over. */
  waitToDial(who: object, again: boolean, start: () => void): () => void;
  emit<E extends keyof AgentEvents>(event: E, value: AgentEvents[E]): void;
  /** The group has put this worker out, or may have. */
  onFenced(why: string): void;
  onUnreachable(worker: WorkerInfo): void;
}

/** How long a fresh view is waited for. */
const FRESH_MS = 1_000;

/** One that was a member, and how that ended. */
interface Former {
  readonly worker: WorkerInfo;
  readonly code: 'peer-died' | 'unavailable';
}

export class Peers implements PeerOwner {
  private readonly options: PeersOptions;
  private readonly self: ViewMember;
  private readonly environment: ExtendedEnvironment;
  private readonly calls: OpenCalls;
  private readonly stallGuard: StallGuard;
  private readonly byName = new Map<string, Peer>();
  private readonly byId: (Peer | undefined)[] = [];
  /** How the latest life of each worker ended that is no member any more, by name. */
  private readonly former = new Map<string, Former>();
  /** This worker, for calls to itself: they take the same way as all others, over a connection inside the process. */
  private readonly loop: { readonly out: Peer; readonly in: Peer };
  private readonly detector: FailureDetector;
  private readonly hellos = new Set<Link>();
  private readonly wanting = new Set<Peer>();
  private readonly acks = new Set<Peer>();
  private wakeTimer: NodeJS.Timeout | undefined;
  private wakeAt = Infinity;
  private ackTimer: NodeJS.Timeout | undefined;
  private sweepTimer: NodeJS.Timeout | undefined;
  private restTimer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(options: PeersOptions, self: ViewMember) {
    this.options = options;
    this.self = self;
    this.environment = options.environment;
    this.calls = options.calls;
    this.stallGuard = options.stallGuard;
    const { environment, stallGuard, group, membership, knock, isGone } = options;
    this.detector = new FailureDetector({
      ...{ environment, group, membership, knock, isGone, self },
      turned: (now) => stallGuard.turn(now),
      peerOf: (life) => this.peerOf(life),
      peers: () => this.byName.values(),
      onDecided: (lives) => this.decided(lives, 'dead'),
      onSuspect: (peer) => options.emit('peer-suspect', peer.worker),
      onUnreachable: (peer, text) => this.failUnreachable(peer, text),
      onFenced: (why) => options.onFenced(why),
    });
    this.announce(self);
    const [a, b] = memoryPair([`memory://${self.name}/out`, `memory://${self.name}/in`]);
    this.loop = { out: new Peer(this.environment, this, self), in: new Peer(this.environment, this, self) };
    runAtRoot(() => {
      this.loop.out.attachLoop(a);
      this.loop.in.attachLoop(b);
    });
  }

  /**
   * The peer behind a name, an id or a record.
   * @throws RpcError 'not-found'; 'peer-died' or 'unavailable' for one that was a member; 'fenced' when this worker is none.
   */
  find(to: To): Peer {
    const { self } = this.environment;
    if (typeof to === 'string') {
      if (to === self.name) return this.loop.out;
      const peer = this.byName.get(to);
      if (peer !== undefined) return peer;
      throw this.missing(`name ${to}`, this.former.get(to));
    }
    if (to instanceof WorkerInfo) {
      const peer = to.name === self.name ? this.loop.out : this.byName.get(to.name);
      if (peer !== undefined && peer.worker.id === to.id) return peer;
      const former = this.former.get(to.name);
      throw this.missing(`name ${to.name}`, former?.worker.id === to.id ? former : undefined);
    }
    if (typeof to !== 'number' || !Number.isInteger(to))
      throw new RpcError('invalid-argument', `Cannot get WorkerInfo from name ${String(to)}`);
    if (to === self.id) return this.loop.out;
    const peer = this.byId[to];
    if (peer !== undefined) return peer;
    throw this.missing(`id ${to}`, this.formerId(to));
  }

  /** All other members. */
  list(): Peer[] {
    return [...this.byName.values()].sort((a, b) => a.worker.id - b.worker.id);
  }

  /** The other members, without those that could not be reached lately. */
  reachable(): Peer[] {
    return this.list().filter((peer) => peer.state === 'open');
  }

  /** Every peer there is a session with, this worker's own two ends included. */
  sessions(): Peer[] {
    return [...this.byName.values(), this.loop.out, this.loop.in];
  }

  /** A new view of the store. */
  update(view: View): void {
    if (this.closed) return;
    const change = this.options.membership.update(view);
    if (change !== undefined) this.install(change);
  }

  /** What the members decided while the store is away. */
  decided(lives: readonly Life[], how: 'left' | 'dead'): void {
    if (this.closed) return;
    const change = this.options.membership.decide(lives, how);
    if (change !== undefined) this.install(change);
  }

  /** Sessions with those that are gone are cut before anybody is told. */
  private install(change: ViewChange): void {
    const { membership } = this.options;
    for (const member of change.dead) this.cut(member, 'peer-died');
    for (const member of change.left) this.cut(member, 'unavailable');
    for (const member of change.joined) this.add(member);
    this.detector.viewChanged();
    const { extensions } = this.environment;
    extensions.viewChanged(
      membership.number,
      membership.view.members.map(asMember),
      change.dead.map(asMember),
      change.left.map(asMember),
    );
    // A name that comes back in the same change has gone before.
    for (const member of change.dead) {
      const worker = asMember(member).worker;
      extensions.peerDown(worker);
      this.options.emit('peer-down', worker);
    }
    for (const member of change.left) {
      const worker = asMember(member).worker;
      extensions.peerDown(worker);
      this.options.emit('peer-left', worker);
    }
    for (const member of change.joined) {
      const worker = this.byName.get(member.name)?.worker;
      if (worker === undefined) continue;
      extensions.peerJoined(worker, member.incarnation);
      this.options.emit('peer-joined', worker);
    }
    if (membership.fenced) this.options.onFenced('the group has removed this worker');
  }

  /** A peer refused this worker as one that is gone: whether the group says so. */
  expelled(): Promise<boolean> {
    return this.detector.expelled();
  }

  /** Someone connected and has proved that it is `claim`, a name and an incarnation. */
  welcome(connection: Connection, claim: string): void {
    if (this.closed) {
      connection.destroy();
      return;
    }
    if (this.hellos.size >= MAX_PENDING_HELLOS)
      for (const oldest of this.hellos) {
        oldest.end();
        this.hellos.delete(oldest);
        break;
      }
    const doorman: LinkOwner = {
      ...SILENT,
      handshake: (from, step) => this.handshake(from, step, claim),
      closed: (gone) => void this.hellos.delete(gone),
    };
    const link = new Link(connection, doorman, this.environment.slabs, this.environment.wireLimits);
    this.hellos.add(link);
    link.start();
  }

  /** Starts to watch over peers. */
  start(): void {
    this.detector.start();
    this.sweepTimer = runAtRoot(() => setInterval(() => bufferPool.sweep(), POOL_SWEEP_MS));
    unref(this.sweepTimer);
    this.restTimer = runAtRoot(() =>
      setInterval(() => {
        for (const peer of this.byName.values()) peer.sender.rest();
      }, REST_MS),
    );
    unref(this.restTimer);
  }

  // PeerOwner

  handlerOf(peer: Peer): FrameHandler {
    return this.options.handlerOf(peer);
  }

  connect(peer: Peer, signal: AbortSignal): Promise<Connection> {
    return this.options.connect(peer, signal);
  }

  waitToDial(again: boolean, start: () => void): () => void {
    return this.options.waitToDial(this, again, start);
  }

  failCalls(peer: Peer, error: (executed: Executed) => RpcError): void {
    this.calls.failAll(peer, error);
  }

  ackDue(peer: Peer): void {
    this.acks.add(peer);
    this.ackTimer ??= unref(runAtRoot(() => setTimeout(() => this.sendAcks(), ACK_MS)));
  }

  timerChanged(peer: Peer): void {
    const { timerAt } = peer.connector;
    if (timerAt === Infinity) {
      this.wanting.delete(peer);
      return;
    }
    this.wanting.add(peer);
    if (timerAt < this.wakeAt) this.armWake(timerAt);
  }

  linkUp(peer: Peer, first: boolean): void {
    // One that could not be told when it began.
    if (first && this.environment.refusal === 'draining') sendDrain(peer);
    if (peer === this.loop.out || peer === this.loop.in) return;
    this.detector.linkUp(peer);
    this.stallGuard.met(peer);
    if (!first) this.options.emit('peer-reconnected', peer.worker);
  }

  linkLost(peer: Peer): void {
    this.detector.linkLost(peer);
  }

  /** Another member says what it knows of the others. */
  reported(peer: Peer, payload: Uint8Array): void {
    this.detector.reported(peer, payload);
  }

  /** Takes the view as the store has it now, if it answers in time. */
  async freshen(): Promise<void> {
    if (!this.detector.isStoreUp || this.closed) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = unref(setTimeout(resolve, FRESH_MS))));
    const read = this.options.group.refresh().then(
      (view) => this.update(view),
      () => undefined,
    );
    await Promise.race([read, late]);
    clearTimeout(timer);
  }

  storeIs(state: StoreState): void {
    this.detector.storeIs(state);
  }

  /** The peer cannot be reached: unless the group puts it out soon, what waits for it fails. */
  unreachable(peer: Peer, why: 'refused' | 'unreachable'): void {
    if (!this.closed) this.detector.givenUp(peer, why);
  }

  private failUnreachable(peer: Peer, text: string): void {
    this.calls.failAll(peer, (executed) => new RpcError('unavailable', text, { executed, peer: peer.worker }));
    this.options.onUnreachable(peer.worker);
  }

  sessionLost(peer: Peer, why: string): void {
    this.environment.logger.warn(
      { peer: peer.worker.name, why },
      'a session cannot go on; the worker has to join again',
    );
    if (peer === this.loop.out || peer === this.loop.in || this.closed) return;
    void this.options.group.evict([lifeOf(peer.member)]).then(
      (view) => this.update(view),
      () => this.unreachable(peer, 'unreachable'),
    );
  }

  /** Its link is over in good order; what still waits for it will not come. */
  left(peer: Peer): void {
    void this.options.group.refresh().then(
      (view) => this.update(view),
      () => {
        this.detector.left(peer);
        this.decided([lifeOf(peer.member)], 'left');
      },
    );
  }

  /** Tells all members that this worker takes no more calls. */
  announceDrain(): void {
    for (const peer of this.list()) sendDrain(peer);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.wakeTimer);
    clearTimeout(this.ackTimer);
    this.detector.close();
    clearInterval(this.sweepTimer);
    clearInterval(this.restTimer);
    for (const link of this.hellos) link.end();
    this.hellos.clear();
    for (const peer of this.sessions()) peer.close();
  }

  /** A link says whose it is. */
  private handshake(link: Link, step: NonNullable<handshakeProto.Handshake['step']>, claim: string): void {
    this.hellos.delete(link);
    const identity = step.$case === 'hello' ? step.value.identity : undefined;
    if (identity === undefined) {
      link.refuse('protocol-error', 'a HELLO was due');
      return;
    }
    const { environment } = this;
    if (identity.minVersion > PROTOCOL_VERSION || identity.maxVersion < PROTOCOL_VERSION) {
      link.refuse('version-mismatch', `this side speaks version ${PROTOCOL_VERSION}`);
    } else if (`${identity.name}#${identity.incarnation}` !== claim)
      link.refuse('unauthenticated', 'another worker than the one that proved itself');
    else if (identity.group !== environment.group) link.refuse('permission-denied', 'another group');
    else if (identity.peerIncarnation !== environment.incarnation)
      link.refuse('unavailable', 'another life of this worker was meant');
    else this.introduce(link, identity);
  }

  private introduce(link: Link, identity: handshakeProto.Identity): void {
    const known = this.byName.get(identity.name);
    if (known?.incarnation === identity.incarnation) {
      known.hello(link, identity);
      return;
    }
    // Its view may be newer than this one.
    link.handTo(SILENT);
    this.hellos.add(link);
    const settle = (): void => {
      this.hellos.delete(link);
      const peer = this.byName.get(identity.name);
      if (link.state === 'closed') return;
      if (peer?.incarnation === identity.incarnation) peer.hello(link, identity);
      else if (this.options.membership.stored.epoch >= identity.epoch)
        link.refuse('fenced', 'the group has no such member');
      else link.refuse('unavailable', 'this worker does not know the newest view', 100);
    };
    this.options.group.refresh().then(settle, settle);
  }

  private add(member: ViewMember): void {
    this.announce(member);
    const peer = new Peer(this.environment, this, member);
    this.byName.set(member.name, peer);
    this.former.delete(member.name);
    this.byId[member.id] = peer;
    // The others cannot dial a worker without an address: it dials them, so that they can call it.
    if (this.self.endpoints.length === 0) peer.want();
  }

  private announce({ name, deviceMaps }: ViewMember): void {
    const maps = deviceMaps as Record<string, unknown> | null | undefined;
    const own = this.environment.self.name;
    const forThis = typeof maps === 'object' && maps !== null && Object.hasOwn(maps, own) ? maps[own] : undefined;
    this.environment.deviceMaps.announced(name, forThis);
  }

  /** Ends the session with one that is gone, and fails what waits for it. */
  private cut(member: ViewMember, code: 'peer-died' | 'unavailable'): void {
    const peer = this.byName.get(member.name);
    if (peer === undefined || peer.incarnation !== member.incarnation) return;
    this.byName.delete(member.name);
    if (this.byId[member.id] === peer) this.byId[member.id] = undefined;
    this.wanting.delete(peer);
    this.acks.delete(peer);
    this.detector.forget(peer);
    this.stallGuard.forget(peer);
    const text = endOf(member.name, code);
    this.remember({ worker: peer.worker, code });
    this.calls.failAll(peer, (executed) => new RpcError(code, text, { executed, peer: peer.worker }), true);
    peer.close();
  }

  private remember(former: Former): void {
    const { name } = former.worker;
    this.former.delete(name);
    this.former.set(name, former);
    if (this.former.size <= MAX_FORMER_MEMBERS) return;
    for (const oldest of this.former.keys()) {
      this.former.delete(oldest);
      break;
    }
  }

  private formerId(id: number): Former | undefined {
    for (const former of this.former.values()) if (former.worker.id === id) return former;
    return undefined;
  }

  /** Why nobody is there; in PyTorch's words, and with what became of one that was. */
  private missing(what: string, former: Former | undefined): RpcError {
    const { self, refusal } = this.environment;
    if (refusal === 'fenced') return new RpcError('fenced', 'the group has removed this worker');
    const text = `name:${self.name},rank:${self.id} could not find destination ${what}`;
    if (former === undefined) return new RpcError('not-found', `${text}; ${this.known()}`);
    const { worker, code } = former;
    return new RpcError(code, `${endOf(worker.name, code)}; ${text}`, { peer: worker });
  }

  /** Who could have been meant. */
  private known(): string {
    const names = [this.environment.self.name, ...this.list().map(({ worker }) => worker.name)];
    return `the workers of the group are ${namesText(names)}`;
  }

  private peerOf(life: Life): Peer | undefined {
    const peer = this.byName.get(life.slice(0, life.lastIndexOf('#')));
    return peer !== undefined && lifeOf(peer.member) === life ? peer : undefined;
  }

  private sendAcks(): void {
    this.ackTimer = undefined;
    for (const peer of this.acks) if (peer.sender.session.ackAt() !== Infinity) peer.sender.sendAck();
    this.acks.clear();
  }

  private armWake(at: number): void {
    clearTimeout(this.wakeTimer);
    this.wakeAt = at;
    this.wakeTimer = runAtRoot(() =>
      setTimeout(() => this.wake(), Math.max(1, Math.ceil(at - this.environment.now()))),
    );
  }

  private wake(): void {
    this.wakeAt = Infinity;
    const now = this.environment.now();
    for (const peer of [...this.wanting]) if (peer.connector.timerAt <= now) peer.tick(now);
    let next = Infinity;
    for (const peer of this.wanting) next = Math.min(next, peer.connector.timerAt);
    if (next !== Infinity && next < this.wakeAt) this.armWake(next);
  }
}

function sendDrain(peer: Peer): void {
  if (!peer.up) return;
  const { lastReceived } = peer.sender.session;
  const notice = encodeProto(controlProto.Drain, { lastSeq: lastReceived, graceMs: 0, reason: 'shutdown' });
  peer.sender.sendControl(FrameKind.CONTROL, MessageType.DRAIN, notice);
}

function asMember(member: { readonly name: string; readonly id: number; readonly incarnation: number }): Member {
  return { worker: new WorkerInfo(member.name, member.id), incarnation: member.incarnation };
}

function endOf(name: string, code: Former['code']): string {
  return code === 'peer-died' ? `worker '${name}' died` : `worker '${name}' has left the group`;
}
