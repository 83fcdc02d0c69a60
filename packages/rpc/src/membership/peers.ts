/** @file The other workers, as one agent knows them: their links, their signs of life, and what a change of the view does. */
import { runAtRoot } from '@backwire/tensor/internal';
import { controlProto, encodeProto, MessageType } from '@backwire/wire/internal';
import { FailureDetector } from './failure-detector.ts';
import { endOf, FormerMembers, type EndCode } from './former-members.ts';
import { Greeting } from './greeting.ts';
import { PeerTimers } from './peer-timers.ts';
import { Reception } from './reception.ts';
import type { OpenCalls } from '../client/open-calls.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { RpcError, type Executed } from '../base/errors.ts';
import { show } from '../base/shown.ts';
import type { Group } from './group.ts';
import type { StoreState } from './group-store.ts';
import { Peer, type PeerOwner } from '../session/peer.ts';
import type { StallGuard } from '../server/stall-guard.ts';
import type { FrameHandler } from '../session/receiver.ts';
import { within } from '../base/within.ts';
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

/** Sums over sessions that have ended. */
interface PastTraffic {
  bytesSent: number;
  bytesReceived: number;
  reconnects: number;
}

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

export class Peers implements PeerOwner {
  private readonly options: PeersOptions;
  private readonly self: ViewMember;
  private readonly environment: ExtendedEnvironment;
  private readonly calls: OpenCalls;
  private readonly stallGuard: StallGuard;
  /** The members that this worker has had to do with: one of them costs some kilobytes, and in a large group most never meet. */
  private readonly met = new Map<string, Peer>();
  /** All members but this worker, by id, until the view changes. */
  private roster: readonly Member[] | undefined;
  private readonly former = new FormerMembers();
  /** What went to and came from those that are members no more: what was counted stays counted. */
  readonly past: PastTraffic = { bytesSent: 0, bytesReceived: 0, reconnects: 0 };
  /** This worker, for calls to itself: they take the same way as all others, over a connection inside the process. */
  private readonly loop: { readonly out: Peer; readonly in: Peer };
  /** Those that said goodbye, while the store is asked whether it knows. */
  private readonly goodbyes = new Set<Life>();
  private readonly detector: FailureDetector;
  private readonly reception: Reception;
  private readonly timers: PeerTimers;
  private greeting: Greeting | undefined;
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
      peers: () => this.met.values(),
      onDecided: (lives) => {
        const hasLeft = (life: Life): boolean => this.goodbyes.has(life);
        this.decided(lives.filter(hasLeft), 'left');
        this.decided(
          lives.filter((life) => !hasLeft(life)),
          'dead',
        );
      },
      onSuspect: (peer) => options.emit('peer-suspect', peer.worker),
      onUnreachable: (peer, text) => this.failUnreachable(peer, text),
      onFenced: (why) => options.onFenced(why),
    });
    this.reception = new Reception({
      environment,
      membership,
      peerNamed: (name) => this.peerNamed(name),
      refresh: () => group.refresh(),
    });
    this.timers = new PeerTimers({ now: () => environment.now(), peers: () => this.met.values() });
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
      const peer = this.peerNamed(to);
      if (peer !== undefined) return peer;
      throw this.missing(`name ${to}`, to);
    }
    if (to instanceof WorkerInfo) {
      const peer = to.name === self.name ? this.loop.out : this.peerNamed(to.name);
      if (peer !== undefined && peer.worker.id === to.id) return peer;
      throw this.missing(`name ${to.name}`, to);
    }
    if (typeof to !== 'number' || !Number.isInteger(to))
      throw new RpcError('invalid-argument', `Cannot get WorkerInfo from name ${show(to)}`);
    if (to === self.id) return this.loop.out;
    const member = this.options.membership.at(to);
    const peer = member === undefined ? undefined : this.peerNamed(member.name);
    if (peer !== undefined) return peer;
    throw this.missing(`id ${to}`, to);
  }

  /** All other members, by id. */
  others(): readonly Member[] {
    const all = membersOf(this.options.membership.view);
    return (this.roster ??= all.filter(({ worker }) => worker.name !== this.self.name));
  }

  /** The same without those that could not be reached lately. */
  reachable(): readonly Member[] {
    return this.others().filter(({ worker }) => (this.met.get(worker.name)?.state ?? 'open') === 'open');
  }

  /** The members that this worker has had to do with. */
  list(): Peer[] {
    return [...this.met.values()];
  }

  /** The one of that name, if it is among them. */
  peerMet(name: string): Peer | undefined {
    return this.met.get(name);
  }

  /** Every peer there is a session with, this worker's own two ends included. */
  sessions(): Peer[] {
    return [...this.met.values(), this.loop.out, this.loop.in];
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
    this.roster = undefined;
    for (const member of change.dead) this.cut(member, 'peer-died');
    for (const member of change.left) this.cut(member, 'unavailable');
    for (const member of change.joined) this.add(member);
    this.detector.viewChanged();
    const { extensions } = this.environment;
    extensions.viewChanged(
      membership.number,
      membersOf(membership.view),
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
      const { worker } = asMember(member);
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
    this.reception.welcome(connection, claim);
  }

  /** Starts to watch over peers. */
  start(): void {
    this.detector.start();
    this.timers.start();
  }

  /** Dials all others, unless there are too many, and waits a while for their answers: from then on each of them can call this worker, as in PyTorch. */
  greet(): Promise<void> {
    this.greeting = new Greeting(this.others().length, () =>
      this.others().flatMap(({ worker }) => this.peerNamed(worker.name) ?? []),
    );
    return this.greeting.over;
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
    this.timers.ackDue(peer);
  }

  timerChanged(peer: Peer): void {
    this.timers.timerChanged(peer);
  }

  linkUp(peer: Peer, first: boolean): void {
    // One that could not be told when it began.
    if (first && this.environment.refusal === 'draining') sendDrain(peer);
    if (peer === this.loop.out || peer === this.loop.in) return;
    this.greeting?.settled(peer);
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
    const read = this.options.group.refresh().then(
      (view) => this.update(view),
      () => undefined,
    );
    await within(read, FRESH_MS, () => undefined);
  }

  storeIs(state: StoreState): void {
    this.detector.storeIs(state);
  }

  /** The peer cannot be reached: unless the group puts it out soon, what waits for it fails. */
  unreachable(peer: Peer, why: 'refused' | 'unreachable'): void {
    this.greeting?.settled(peer);
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

  /**
   * Its link is over in good order; what still waits for it will not come. It says goodbye once it has left, or could not tell the store:
   * then its word has to do.
   */
  left(peer: Peer): void {
    const life = lifeOf(peer.member);
    // Its process may be found gone before the store says anything.
    this.goodbyes.add(life);
    const farewell = (): void => {
      this.goodbyes.delete(life);
      if (!this.options.membership.has(peer.worker.name, peer.incarnation)) return;
      this.decided([life], 'left');
      this.detector.left(peer);
    };
    void this.options.group
      .refresh()
      .then((view) => this.update(view))
      .then(farewell, farewell);
  }

  /** Tells all members that this worker takes no more calls. */
  announceDrain(): void {
    for (const peer of this.list()) sendDrain(peer);
  }

  close(): void {
    this.closed = true;
    this.greeting?.close();
    this.timers.close();
    this.detector.close();
    this.reception.close();
    for (const peer of this.sessions()) peer.close();
  }

  private add(member: ViewMember): void {
    this.announce(member);
    this.former.forget(member.name);
    // The others cannot dial a worker without an address: it dials them, so that they can call it.
    if (this.self.endpoints.length === 0) this.peerNamed(member.name)?.want();
  }

  /** The member of that name; there is none of this worker's own. */
  private peerNamed(name: string): Peer | undefined {
    const peer = this.met.get(name);
    if (peer !== undefined) return peer;
    const member = this.options.membership.member(name);
    if (member === undefined || name === this.self.name) return undefined;
    const made = new Peer(this.environment, this, member);
    this.met.set(name, made);
    if (this.closed) made.close();
    return made;
  }

  private announce({ name, deviceMaps }: ViewMember): void {
    const maps = deviceMaps as Record<string, unknown> | null | undefined;
    const own = this.environment.self.name;
    const forThis = typeof maps === 'object' && maps !== null && Object.hasOwn(maps, own) ? maps[own] : undefined;
    this.environment.deviceMaps.announced(name, forThis);
  }

  /** Ends the session with one that is gone, and fails what waits for it. */
  private cut(member: ViewMember, code: EndCode): void {
    const peer = this.met.get(member.name);
    if (peer !== undefined && peer.incarnation !== member.incarnation) return;
    const { worker } = peer ?? asMember(member);
    this.former.remember(worker, code);
    this.environment.deviceMaps.forget(member.name);
    if (peer === undefined) return;
    this.met.delete(member.name);
    this.timers.forget(peer);
    this.detector.forget(peer);
    this.greeting?.settled(peer);
    this.stallGuard.forget(peer);
    const text = endOf(member.name, code);
    this.calls.failAll(peer, (executed) => new RpcError(code, text, { executed, peer: worker }), true);
    peer.close();
    this.past.bytesSent += peer.bytesSent;
    this.past.bytesReceived += peer.bytesReceived;
    this.past.reconnects += peer.reconnects;
  }

  /** Why nobody is there; in PyTorch's words, and with what became of one that was. */
  private missing(what: string, to: To): RpcError {
    const { self, refusal, whyFenced } = this.environment;
    if (refusal === 'fenced') return new RpcError('fenced', whyFenced);
    const text = `name:${self.name},rank:${self.id} could not find destination ${what}`;
    const former = this.former.find(to);
    if (former === undefined) return new RpcError('not-found', `${text}; ${this.known()}`);
    const { worker, code } = former;
    return new RpcError(code, `${endOf(worker.name, code)}; ${text}`, { peer: worker });
  }

  /** Why a name is none of a member's, as a clause: that worker died, it left, or there never was one. */
  whyAbsent(name: string): string {
    const former = this.former.find(name);
    return former === undefined ? `worker '${name}' is not a member of the group` : endOf(name, former.code);
  }

  /** Who could have been meant. */
  private known(): string {
    const names = [this.environment.self.name, ...this.others().map(({ worker }) => worker.name)];
    return `the workers of the group are ${namesText(names)}`;
  }

  private peerOf(life: Life): Peer | undefined {
    const peer = this.peerNamed(life.slice(0, life.lastIndexOf('#')));
    return peer !== undefined && lifeOf(peer.member) === life ? peer : undefined;
  }
}

function sendDrain(peer: Peer): void {
  if (!peer.up) return;
  const { lastReceived } = peer.sender.session;
  const notice = encodeProto(controlProto.Drain, { lastSeq: lastReceived, graceMs: 0, reason: 'shutdown' });
  peer.sender.sendControl(MessageType.DRAIN, notice);
}

const members = new WeakMap<View, readonly Member[]>();

/** Made once for all workers of a process. */
function membersOf(view: View): readonly Member[] {
  let made = members.get(view);
  if (made === undefined) members.set(view, (made = view.members.map(asMember)));
  return made;
}

function asMember(member: { readonly name: string; readonly id: number; readonly incarnation: number }): Member {
  return { worker: new WorkerInfo(member.name, member.id), incarnation: member.incarnation };
}
