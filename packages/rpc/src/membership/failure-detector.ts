/** @file What becomes of members that do not answer: found out by links, processes, leases and each other, agreed on, and written into the view. */
import { runAtRoot } from '@backwire/tensor/internal';
import { MessageType } from '@backwire/wire/internal';
import type { Environment } from '../base/environment.ts';
import { RpcError } from '../base/errors.ts';
import type { Group } from './group.ts';
import { Examiner, opinionOf, type ExaminerOptions, type Why } from './examiner.ts';
import type { StoreState } from './group-store.ts';
import { LivenessPolicy, LOOK_MS, type Evidence, type LivenessEffect } from '../liveness/policy.ts';
import type { Peer } from '../session/peer.ts';
import { later, unref } from '../base/platform.ts';
import { sleepUnref } from '../base/within.ts';
import { Agreement, type AgreementEffect } from '../protocol/agreement.ts';
import { lifeOf, type Life, type Membership } from '../protocol/membership.ts';
import type { Opinion } from '../protocol/opinions.ts';
import { watchedBy } from '../protocol/watchers.ts';
import { decodeReport, encodeReport } from './report-codec.ts';

export interface FailureDetectorOptions extends ExaminerOptions {
  readonly group: Group;
  readonly membership: Membership;
  /** The main loop turns. */
  turned(now: number): void;
  peerOf(life: Life): Peer | undefined;
  peers(): Iterable<Peer>;
  /** The members have decided that these are gone. */
  onDecided(lives: readonly Life[]): void;
  onSuspect(peer: Peer): void;
  /** The peer may live, but its calls go nowhere. */
  onUnreachable(peer: Peer, text: string): void;
  /** The group has put this worker out, or may have. */
  onFenced(why: string): void;
}

/** How long calls wait for what is found out about a peer that cannot be reached, before they fail as they are; */
const EXAMINATION_MS = 2_000;
/** and for the group to put out one that is certainly gone: with a store that went with it, that takes as long as the store is waited for. */
const EVICTION_MS = 5_000;
/** A member without a lease that is not heard of in this time, although it was dialled, has ended. */
const DIAL_MS = 1_000;
/** Between two looks at one who is in doubt, and between two questions to the store, at most. */
const ASK_MS = 2_000;
/** How often a lease that is gone is looked for again before its worker is thought gone. */
const LEASELESS_LOOKS = 1;
/** Links that are made at once to find out about members. */
const MAX_REACHING = 32;

export class FailureDetector {
  private readonly options: FailureDetectorOptions;
  private readonly environment: Environment;
  private readonly policy: LivenessPolicy<Peer>;
  private readonly agreement: Agreement;
  private readonly watches = new Map<Life, AbortController>();
  /** Those being put out now. */
  private readonly evicting = new Set<Life>();
  /** Why each peer in doubt came into it, and when it was looked at last. */
  private readonly doubtful = new Map<Peer, { readonly why: Why; lookedAt: number; looking: boolean }>();
  private readonly examiner: Examiner;
  private readonly askMs: number;
  private askedAt = -Infinity;
  private asking = false;
  private settling = false;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(options: FailureDetectorOptions) {
    this.options = options;
    this.environment = options.environment;
    const { liveness } = this.environment;
    this.policy = new LivenessPolicy<Peer>(liveness);
    this.askMs = Math.min(ASK_MS, liveness.pingMs);
    this.examiner = new Examiner(options);
    this.agreement = new Agreement(lifeOf(options.self), {
      leaseMs: liveness.leaseMs,
      deadMs: liveness.deadMs,
      busyDeadMs: liveness.busyDeadMs,
      settleMs: 2 * liveness.pingMs,
      askMs: this.askMs,
    });
  }

  start(): void {
    // The first look is now, so that a loop that stands still right after is noticed as its own fault.
    this.apply(this.policy.tick(this.environment.now()));
    const everyMs = Math.min(LOOK_MS, this.environment.liveness.pingMs / 2);
    this.timer = unref(runAtRoot(() => setInterval(() => this.look(), everyMs)));
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    for (const watch of this.watches.values()) watch.abort();
    this.watches.clear();
  }

  get isStoreUp(): boolean {
    return this.agreement.isStoreUp;
  }

  /** The store's view has changed, or what was decided beside it. */
  viewChanged(): void {
    const { membership } = this.options;
    this.agreement.view(membership.stored, membership.unwritten.keys(), this.environment.now());
    this.watch();
    this.settleSoon();
  }

  linkUp(peer: Peer): void {
    this.apply(this.policy.linkUp(peer, this.environment.now()));
    this.heard(peer);
  }

  linkLost(peer: Peer): void {
    this.policy.linkLost(peer, this.environment.now());
    if (this.opinionOf(peer) === 'heard') this.think(peer, 'unsure');
  }

  forget(peer: Peer): void {
    this.policy.forget(peer);
    this.doubtful.delete(peer);
  }

  /** The peer's link cannot be made. */
  givenUp(peer: Peer, why: 'refused' | 'unreachable'): void {
    void this.doubt(peer, why, `worker '${peer.worker.name}' cannot be reached (${why})`);
  }

  /** The peer left in good order, and the store cannot say so. */
  left(peer: Peer): void {
    this.agreement.left(lifeOf(peer.member));
    this.settleSoon();
  }

  /** Another member says what it knows. */
  reported(peer: Peer, payload: Uint8Array): void {
    const { membership, group } = this.options;
    const { report, view } = decodeReport(payload, membership.stored);
    // What the store says is believed; what a member says of it is a reason to ask, unless the store cannot be asked.
    if (view !== undefined && view.epoch > membership.stored.epoch) {
      if (this.agreement.isStoreUp) this.askStore();
      else group.learn(view);
    }
    const now = this.environment.now();
    for (const life of [...report.doubts, ...report.proved]) {
      const doubted = this.options.peerOf(life);
      if (doubted !== undefined) this.apply(this.policy.attend(doubted, now));
    }
    this.agreement.report(lifeOf(peer.member), report, now);
    this.settleSoon();
  }

  /** A member refused this worker as one that is gone: whether it is, as far as the store can be asked. */
  async expelled(): Promise<boolean> {
    this.agreement.expelled();
    this.settleSoon();
    await this.options.group.refresh().catch(() => undefined);
    return this.agreement.over || this.options.membership.fenced;
  }

  storeIs(state: StoreState): void {
    const changed = this.agreement.isStoreUp !== (state === 'up');
    this.agreement.storeIs(state, this.environment.now());
    if (changed) this.settleSoon();
  }

  // What is looked at again and again

  private look(): void {
    const now = this.environment.now();
    this.options.turned(now);
    for (const peer of this.options.peers()) {
      const { link } = peer;
      if (link === undefined || link.heardAt <= peer.notedAt) continue;
      peer.notedAt = link.heardAt;
      this.apply(this.policy.heard(peer, link.heardAt, link.receiving));
      if (this.opinionOf(peer) !== 'heard') this.heard(peer);
    }
    this.apply(this.policy.tick(now, (peer) => peer.inUse || this.watches.has(lifeOf(peer.member))));
    for (const life of this.watches.keys()) this.lookForProcess(life);
    for (const [peer, { why, lookedAt, looking }] of this.doubtful)
      if (!looking && now - lookedAt >= this.askMs) void this.examine(peer, why);
    if (this.agreement.isTroubled(now)) this.settle();
  }

  /** Whoever has no link to one of those it watches looks for its process, where it can. */
  private lookForProcess(life: Life): void {
    const peer = this.options.peerOf(life);
    if (peer !== undefined && !peer.up && this.examiner.processOf(peer) === 'gone') this.think(peer, 'gone');
  }

  /** Watches the leases of those that are this worker's to watch. */
  private watch(): void {
    const { membership, self, group } = this.options;
    const wanted = new Map(watchedBy(self, membership.view.members).map((member) => [lifeOf(member), member]));
    for (const [life, watch] of this.watches) {
      if (wanted.has(life) && !this.closed) continue;
      watch.abort();
      this.watches.delete(life);
    }
    if (this.closed) return;
    for (const [life, member] of wanted) {
      if (this.watches.has(life)) continue;
      const watch = new AbortController();
      this.watches.set(life, watch);
      const { signal } = watch;
      runAtRoot(() => group.watchLease(member, signal, () => void this.leaseless(life, signal))).catch(
        (error: unknown) => this.environment.logger.debug({ error, worker: member.name }, 'a lease cannot be watched'),
      );
    }
  }

  /** A member's lease is not there. It may live all the same: whoever cannot reach the store loses it too. */
  private async leaseless(life: Life, signal: AbortSignal): Promise<void> {
    let looks = 0;
    while (!signal.aborted) {
      const peer = this.options.peerOf(life);
      if (peer === undefined || this.opinionOf(peer) === 'heard') return;
      if (peer.member.endpoints.length > 0) peer.want();
      await sleepUnref(DIAL_MS);
      if (signal.aborted || this.opinionOf(peer) === 'heard') return;
      const { lease } = await this.examiner.find(peer, false);
      if (lease?.state === 'alive' || this.opinionOf(peer) === 'heard') return;
      // Whoever comes back to the store after an outage renews its lease a little later.
      if (lease?.state === 'gone' && ++looks > LEASELESS_LOOKS) this.think(peer, 'gone');
      await sleepUnref(DIAL_MS);
    }
  }

  private apply(effects: readonly LivenessEffect<Peer>[]): void {
    for (const effect of effects) {
      const { peer } = effect;
      switch (effect.type) {
        case 'ping':
          peer.ping(this.environment.now());
          break;
        case 'answer':
          peer.sender.sendAck();
          break;
        case 'suspect':
          this.options.onSuspect(peer);
          if (this.opinionOf(peer) === 'heard') this.think(peer, 'unsure');
          break;
        case 'inquire':
          void this.inquire(peer);
          break;
        case 'accuse':
          this.accused(peer, effect.evidence);
          break;
        case 'trusted':
          break;
      }
    }
  }

  /** What is known of one who is silent for a while. */
  private async inquire(peer: Peer): Promise<void> {
    if (this.examiner.processOf(peer) === 'there') this.policy.there(peer, this.environment.now());
    const { lease, process, knock } = await this.examiner.find(peer, true);
    const now = this.environment.now();
    if (process === 'there' || knock === 'there') this.policy.there(peer, now);
    if (process === 'gone' || lease?.state === 'gone') this.apply(this.policy.lease(peer, now, { alive: false }));
    else if (lease?.state === 'alive') this.apply(this.policy.lease(peer, now, { alive: true, ageMs: lease.ageMs }));
    else this.apply(this.policy.unknown(peer, now));
  }

  private accused(peer: Peer, evidence: Evidence): void {
    // That it cannot be reached again is what its connector says.
    if (evidence === 'unreachable') return;
    if (evidence === 'lease-gone') {
      this.think(peer, 'gone');
      void this.orFail(peer, `worker '${peer.worker.name}' does not answer`);
      return;
    }
    // Silence on a link that is up: it is cut, so that a living peer can come back on another.
    peer.reset(new RpcError('unavailable', 'nothing was heard for too long', { peer: peer.worker }));
    void this.doubt(peer, evidence, `worker '${peer.worker.name}' does not answer`);
  }

  // What is thought of one who does not answer

  /** Finds out more; unless the group puts it out soon, what waits for it fails. */
  private async doubt(peer: Peer, why: Why, text: string): Promise<void> {
    if (this.closed) return;
    const until = this.environment.now() + EXAMINATION_MS;
    const examined = this.examine(peer, why);
    await Promise.race([examined, sleepUnref(EXAMINATION_MS)]);
    if (why === 'silent' || why === 'busy') await this.redialled(peer, until);
    await this.orFail(peer, text);
  }

  /** Waits for the dial that follows a link that was cut: where only that link was dead, what waits for the peer goes on over the next. */
  private async redialled(peer: Peer, until: number): Promise<void> {
    const isOnItsWay = (): boolean => peer.connector.state === 'dialing' || peer.connector.state === 'up';
    const isOpen = (): boolean => peer.state !== 'gone' && this.opinionOf(peer) !== 'gone' && !this.closed;
    while (!peer.up && isOnItsWay() && isOpen() && this.environment.now() < until) await sleepUnref(10);
  }

  /** Waits a little for its end, if that is certain. */
  private async orFail(peer: Peer, text: string): Promise<void> {
    const until = this.environment.now() + EVICTION_MS;
    while (this.opinionOf(peer) === 'gone' && peer.state !== 'gone' && this.environment.now() < until)
      await sleepUnref(10);
    if (peer.state !== 'gone' && !peer.up && !this.closed) this.options.onUnreachable(peer, text);
  }

  private async examine(peer: Peer, why: Why): Promise<void> {
    const state = { why, lookedAt: this.environment.now(), looking: true };
    this.doubtful.set(peer, state);
    const found = await this.examiner.find(peer, true);
    state.looking = false;
    if (this.doubtful.get(peer) !== state || peer.state === 'gone') return;
    // Nobody can dial one without an address: only its lease says something.
    const mute = peer.member.endpoints.length === 0 && found.lease?.state !== 'gone' && why !== 'silent';
    this.think(peer, mute ? 'unsure' : opinionOf(found, why));
  }

  private heard(peer: Peer): void {
    this.doubtful.delete(peer);
    this.think(peer, 'heard');
  }

  private think(peer: Peer, opinion: Opinion): void {
    const life = lifeOf(peer.member);
    if (this.closed || this.agreement.opinionOf(life) === opinion) return;
    this.agreement.opinion(life, opinion, this.environment.now());
    if (opinion === 'heard' || opinion === 'gone') this.doubtful.delete(peer);
    this.settleSoon();
  }

  private opinionOf(peer: Peer): Opinion {
    return this.agreement.opinionOf(lifeOf(peer.member));
  }

  // What the members agree on

  private settleSoon(): void {
    if (this.settling || this.closed) return;
    this.settling = true;
    later(() => this.settle());
  }

  private settle(): void {
    this.settling = false;
    if (this.closed) return;
    for (const effect of this.agreement.settle(this.environment.now())) runAtRoot(() => this.perform(effect));
  }

  private perform(effect: AgreementEffect): void {
    switch (effect.type) {
      case 'report':
        this.report(effect);
        break;
      case 'reach':
        this.reach(effect.peer);
        break;
      case 'ask-store':
        this.askStore();
        break;
      case 'evict':
        void this.evict(effect.lives, effect.certain);
        break;
      case 'claim':
        this.options.group.claim(effect.claim).then(
          (claims) => {
            this.agreement.claims(claims, this.environment.now());
            this.settleSoon();
          },
          () => undefined,
        );
        break;
      case 'decided':
        this.options.onDecided(effect.lives);
        break;
      case 'fenced':
        this.options.onFenced('the group has removed this worker');
        break;
      case 'stop':
        this.options.onFenced('this worker is cut off from the store and from most of its group');
        break;
    }
  }

  private report({ to, report, news }: Extract<AgreementEffect, { type: 'report' }>): void {
    const { membership } = this.options;
    const peer = this.options.peerOf(to);
    if (peer?.up !== true) return;
    const payload = encodeReport(report, membership.stored, news ? membership.stored : undefined);
    peer.sender.sendControl(MessageType.REPORT, payload);
  }

  private reach(life: Life): void {
    const peer = this.options.peerOf(life);
    if (peer === undefined || peer.up || peer.member.endpoints.length === 0 || peer.connector.state !== 'idle') return;
    let reaching = 0;
    for (const other of this.options.peers()) if (other.connector.state === 'dialing') reaching++;
    if (reaching < MAX_REACHING) peer.want();
  }

  private askStore(): void {
    const now = this.environment.now();
    if (this.asking || now - this.askedAt < this.askMs) return;
    this.asking = true;
    this.askedAt = now;
    const done = (): void => void (this.asking = false);
    this.options.group.refresh().then(done, done);
  }

  private async evict(lives: readonly Life[], certain: boolean): Promise<void> {
    const { group } = this.options;
    const due = lives.filter((life) => !this.evicting.has(life));
    if (due.length === 0) return;
    for (const life of due) this.evicting.add(life);
    const still = async (life: Life): Promise<boolean> => {
      const now = this.environment.now();
      if (certain) return this.agreement.isCertain(life, now);
      return this.agreement.isLost(life, now) || this.agreement.claimedLosers(await group.claims(), now).includes(life);
    };
    const how = (life: Life): 'left' | 'dead' => this.options.membership.unwritten.get(life) ?? 'dead';
    await group.evict(due, still, how).catch((error: unknown) => {
      this.environment.logger.debug({ error, workers: due }, 'nobody could be put out');
      return sleepUnref(this.askMs);
    });
    for (const life of due) this.evicting.delete(life);
  }
}
