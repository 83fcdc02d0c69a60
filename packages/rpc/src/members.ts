/** @file The other workers, as one agent knows them: their links, their signs of life, and what a change of the view does. */
import { runAtRoot } from '@backwire/tensor/internal';
import { bufferPool, type handshakeProto } from '@backwire/wire/internal';
import type { Core } from './core.ts';
import { RpcError } from './errors.ts';
import type { Group } from './group.ts';
import { ACK_MS, MAX_FORMER_MEMBERS, MAX_PENDING_HELLOS } from './limits.ts';
import { Link, type LinkOwner } from './link.ts';
import { LivenessPolicy, type LivenessEffect } from './liveness/policy.ts';
import { Peer, PROTOCOL_VERSION } from './peer.ts';
import { unref } from './platform.ts';
import { type Membership, type View, type ViewMember } from './protocol/membership.ts';
import type { AgentEvents } from './agent-types.ts';
import type { Member } from './extension.ts';
import { memoryPair } from './transports/memory.ts';
import type { Connection } from './transports/transport.ts';
import { WorkerInfo, type To } from './worker-info.ts';

/** The store answers an eviction in this time, or the peer is merely unreachable. */
const EVICTION_MS = 2_000;
/** Receive memory that was not used for so long goes back to the system. */
const POOL_SWEEP_MS = 30_000;

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

export interface MembersOptions {
  readonly core: Core;
  readonly group: Group;
  readonly membership: Membership;
  emit<E extends keyof AgentEvents>(event: E, value: AgentEvents[E]): void;
  onFenced(): void;
  onUnreachable(worker: WorkerInfo): void;
  /** This worker is cut off from the store and from that member. */
  onCutOff(worker: WorkerInfo): void;
}

/** One that was a member, and how that ended. */
interface Former {
  readonly worker: WorkerInfo;
  readonly code: 'peer-died' | 'unavailable';
}

export class Members {
  private readonly options: MembersOptions;
  private readonly self: ViewMember;
  private readonly core: Core;
  private readonly byName = new Map<string, Peer>();
  private readonly byId: (Peer | undefined)[] = [];
  /** How the latest life of each worker ended that is no member any more, by name. */
  private readonly former = new Map<string, Former>();
  /** This worker, for calls to itself: they take the same way as all others, over a connection inside the process. */
  private readonly loop: { readonly out: Peer; readonly in: Peer };
  private readonly policy: LivenessPolicy<Peer>;
  private readonly hellos = new Set<Link>();
  private readonly wanting = new Set<Peer>();
  private readonly acks = new Set<Peer>();
  private wakeTimer: NodeJS.Timeout | undefined;
  private wakeAt = Infinity;
  private ackTimer: NodeJS.Timeout | undefined;
  private livenessTimer: NodeJS.Timeout | undefined;
  private sweepTimer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(options: MembersOptions, self: ViewMember) {
    this.options = options;
    this.self = self;
    this.core = options.core;
    this.policy = new LivenessPolicy<Peer>(options.core.liveness);
    this.announce(self);
    const [a, b] = memoryPair([`memory://${self.name}/out`, `memory://${self.name}/in`]);
    this.loop = { out: new Peer(options.core, self), in: new Peer(options.core, self) };
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
    const { self } = this.core;
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
    if (typeof to !== 'number') throw new RpcError('invalid-argument', `Cannot get WorkerInfo from name ${String(to)}`);
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

  /** A new view. Sessions with those that are gone are cut before anybody is told. */
  update(view: View): void {
    const { membership } = this.options;
    if (this.closed) return;
    const change = membership.update(view);
    if (change === undefined) return;
    for (const member of change.dead) this.cut(member, 'peer-died');
    for (const member of change.left) this.cut(member, 'unavailable');
    for (const member of change.joined) this.add(member);
    const { extensions } = this.core;
    extensions.viewChanged(
      view.epoch,
      view.members.map(asMember),
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
    if (membership.fenced) this.options.onFenced();
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
    const link = new Link(connection, doorman, this.core.slabs, this.core.wireLimits);
    this.hellos.add(link);
    link.start();
  }

  /** Starts to watch over peers. */
  start(): void {
    // The first look is now, so that a loop that stands still right after is noticed as its own fault.
    this.apply(this.policy.tick(this.core.now()));
    this.livenessTimer = runAtRoot(() =>
      setInterval(() => this.checkLiveness(), Math.min(500, this.core.liveness.pingMs / 2)),
    );
    unref(this.livenessTimer);
    this.sweepTimer = runAtRoot(() => setInterval(() => bufferPool.sweep(), POOL_SWEEP_MS));
    unref(this.sweepTimer);
  }

  // What peers ask of the agent

  ackSoon(peer: Peer): void {
    this.acks.add(peer);
    this.ackTimer ??= unref(runAtRoot(() => setTimeout(() => this.sendAcks(), ACK_MS)));
  }

  wakePeer(peer: Peer): void {
    const { timerAt } = peer.connector;
    if (timerAt === Infinity) {
      this.wanting.delete(peer);
      return;
    }
    this.wanting.add(peer);
    if (timerAt < this.wakeAt) this.armWake(timerAt);
  }

  linkUp(peer: Peer, first: boolean): void {
    if (peer === this.loop.out || peer === this.loop.in) return;
    this.apply(this.policy.linkUp(peer, this.core.now()));
    if (!first) this.options.emit('peer-reconnected', peer.worker);
    void this.options.group.acquit(peer.member).catch(() => undefined);
  }

  linkLost(peer: Peer): void {
    this.apply(this.policy.linkLost(peer, this.core.now()));
  }

  /** The peer cannot be reached: evicts it if that is certain, else fails what waits for it. */
  givenUp(peer: Peer, why: 'refused' | 'unreachable'): void {
    if (this.closed) return;
    const fail = (): void => {
      if (peer.state === 'gone') return;
      const text = `worker '${peer.worker.name}' cannot be reached (${why})`;
      this.core.caller.failAll(peer, (executed) => new RpcError('unavailable', text, { executed, peer: peer.worker }));
      this.options.onUnreachable(peer.worker);
    };
    this.judge(peer, why === 'refused', fail).catch(() => fail());
  }

  sessionLost(peer: Peer, why: string): void {
    this.core.logger.warn({ peer: peer.worker.name, why }, 'a session cannot go on; the worker has to join again');
    if (peer === this.loop.out || peer === this.loop.in || this.closed) return;
    void this.options.group.evict(peer.member).then(
      (view) => this.update(view),
      () => this.givenUp(peer, 'unreachable'),
    );
  }

  /** Its link is over in good order; what still waits for it will not come. */
  saidGoodbye(peer: Peer): void {
    void this.options.group.refresh().then(
      (view) => this.update(view),
      () => this.cut(peer.member, 'unavailable'),
    );
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.wakeTimer);
    clearTimeout(this.ackTimer);
    clearInterval(this.livenessTimer);
    clearInterval(this.sweepTimer);
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
    const { core } = this;
    if (identity.minVersion > PROTOCOL_VERSION || identity.maxVersion < PROTOCOL_VERSION) {
      link.refuse('version-mismatch', `this side speaks version ${PROTOCOL_VERSION}`);
    } else if (`${identity.name}#${identity.incarnation}` !== claim)
      link.refuse('unauthenticated', 'another worker than the one that proved itself');
    else if (identity.group !== core.group) link.refuse('permission-denied', 'another group');
    else if (identity.peerIncarnation !== core.incarnation)
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
      else if (this.options.membership.view.epoch >= identity.epoch)
        link.refuse('fenced', 'the group has no such member');
      else link.refuse('unavailable', 'this worker does not know the newest view', 100);
    };
    this.options.group.refresh().then(settle, settle);
  }

  private add(member: ViewMember): void {
    this.announce(member);
    const peer = new Peer(this.core, member);
    this.byName.set(member.name, peer);
    this.former.delete(member.name);
    this.byId[member.id] = peer;
    // The others cannot dial a worker without an address: it dials them, so that they can call it.
    if (this.self.endpoints.length === 0) peer.want();
  }

  private announce({ name, deviceMaps }: ViewMember): void {
    const maps = deviceMaps as Record<string, unknown> | null | undefined;
    const own = this.core.self.name;
    const forThis = typeof maps === 'object' && maps !== null && Object.hasOwn(maps, own) ? maps[own] : undefined;
    this.core.deviceMaps.announced(name, forThis);
  }

  /** Ends the session with one that is gone, and fails what waits for it. */
  private cut(member: ViewMember, code: 'peer-died' | 'unavailable'): void {
    const peer = this.byName.get(member.name);
    if (peer === undefined || peer.incarnation !== member.incarnation) return;
    this.byName.delete(member.name);
    if (this.byId[member.id] === peer) this.byId[member.id] = undefined;
    this.wanting.delete(peer);
    this.acks.delete(peer);
    this.policy.forget(peer);
    const text = endOf(member.name, code);
    this.remember({ worker: peer.worker, code });
    this.core.caller.failAll(peer, (executed) => new RpcError(code, text, { executed, peer: peer.worker }), true);
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
    const { self, refusal } = this.core;
    if (refusal === 'fenced') return new RpcError('fenced', 'the group has removed this worker');
    const text = `name:${self.name},rank:${self.id} could not find destination ${what}`;
    if (former === undefined) return new RpcError('not-found', text);
    const { worker, code } = former;
    return new RpcError(code, `${endOf(worker.name, code)}; ${text}`, { peer: worker });
  }

  private async judge(peer: Peer, certain: boolean, fail: () => void): Promise<void> {
    const { group } = this.options;
    const { member } = peer;
    const evict = async (): Promise<boolean> => {
      const { alive } = certain ? { alive: false } : await group.leaseOf(member);
      // Whoever has no address (a browser) is dialled by nobody: that it cannot be reached says nothing of it.
      if (alive && (member.endpoints.length === 0 || !(await group.accuse(member)))) return false;
      this.update(await group.evict(member, certain ? undefined : () => group.doomed(member)));
      return !this.options.membership.has(member.name, member.incarnation);
    };
    const slow = new Promise<boolean>((resolve) => unref(setTimeout(() => resolve(false), EVICTION_MS)));
    if (!(await Promise.race([evict(), slow]))) fail();
  }

  private checkLiveness(): void {
    const now = this.core.now();
    for (const peer of this.byName.values()) {
      const { link } = peer;
      if (link !== undefined && link.heardAt > peer.notedAt) {
        peer.notedAt = link.heardAt;
        this.apply(this.policy.heard(peer, link.heardAt));
      }
    }
    this.apply(this.policy.tick(now));
  }

  private apply(effects: readonly LivenessEffect<Peer>[]): void {
    for (const effect of effects) {
      const { peer } = effect;
      switch (effect.type) {
        case 'ping':
          peer.ping(this.core.now());
          break;
        case 'suspect':
          this.options.emit('peer-suspect', peer.worker);
          break;
        case 'inquire':
          this.options.group.leaseOf(peer.member).then(
            (lease) => this.apply(this.policy.lease(peer, this.core.now(), lease)),
            () => undefined,
          );
          break;
        case 'accuse':
          this.accused(peer, effect.certain);
          break;
        case 'redial':
        case 'trusted':
          break;
      }
    }
  }

  /** Silence on a link that is up: it is cut, so that a living peer can come back on another. */
  private accused(peer: Peer, certain: boolean): void {
    peer.reset(new RpcError('unavailable', 'nothing was heard for too long', { peer: peer.worker }));
    const text = `worker '${peer.worker.name}' does not answer`;
    const fail = (): void => {
      this.core.caller.failAll(peer, (executed) => new RpcError('unavailable', text, { executed, peer: peer.worker }));
      this.lookForSplit(peer);
    };
    this.judge(peer, certain, fail).catch(() => fail());
  }

  /**
   * Neither the store nor a member says anything, and nothing refuses either: this is the side of a split network without the store.
   * Once its lease must be over, the others go on without it, and it stops. A store that alone is lost stops nobody.
   */
  private lookForSplit(peer: Peer): void {
    const { group } = this.options;
    const { silentMs } = group;
    if (this.closed || silentMs === 0 || peer.up) return;
    const left = this.core.liveness.leaseMs - silentMs;
    if (left > 0) unref(setTimeout(() => this.lookForSplit(peer), left));
    else this.options.onCutOff(peer.worker);
  }

  private sendAcks(): void {
    this.ackTimer = undefined;
    for (const peer of this.acks) if (peer.outbox.session.ackAt() !== Infinity) peer.outbox.sendAck();
    this.acks.clear();
  }

  private armWake(at: number): void {
    clearTimeout(this.wakeTimer);
    this.wakeAt = at;
    this.wakeTimer = runAtRoot(() => setTimeout(() => this.wake(), Math.max(1, Math.ceil(at - this.core.now()))));
  }

  private wake(): void {
    this.wakeAt = Infinity;
    const now = this.core.now();
    for (const peer of [...this.wanting]) if (peer.connector.timerAt <= now) peer.tick(now);
    let next = Infinity;
    for (const peer of this.wanting) next = Math.min(next, peer.connector.timerAt);
    if (next !== Infinity && next < this.wakeAt) this.armWake(next);
  }
}

export function asMember(member: { readonly name: string; readonly id: number; readonly incarnation: number }): Member {
  return { worker: new WorkerInfo(member.name, member.id), incarnation: member.incarnation };
}

function endOf(name: string, code: Former['code']): string {
  return code === 'peer-died' ? `worker '${name}' died` : `worker '${name}' has left the group`;
}
