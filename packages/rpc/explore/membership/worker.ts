/** @file One worker of an explored group: the production classes, and what each thing that happens to it makes of them. */
import type { Packet } from './packet.ts';
import type { Agreement, AgreementEffect } from '../../src/protocol/agreement.ts';
import { restored } from '../../src/protocol/histories.ts';
import { lifeOf, removeAll, type Life, type Membership, type View } from '../../src/protocol/membership.ts';
import type { Opinion } from '../../src/protocol/opinions.ts';
import type { Claim } from '../../src/protocol/parts.ts';

/** Waits are longer than a lease and shorter than any other limit. */
export const WAIT_MS = 11;

export type End = 'killed' | 'fenced' | 'stop';

export interface Worker {
  readonly life: Life;
  readonly rank: number;
  clock: number;
  alive: boolean;
  /** How it ended: killed, put out by the others, or by itself. */
  end: End | undefined;
  stalled: boolean;
  readonly agreement: Agreement;
  readonly membership: Membership;
  /** Its lease ran out while it did not reach the store. */
  leaseless: boolean;
  parked: { number: number; removed: readonly Life[] }[];
}

/** What is in the store. */
export interface StoreState {
  readonly view: View;
  /** It has come back with nothing in it, and nobody has written anything yet. */
  readonly isEmpty: boolean;
  readonly claims: ReadonlyMap<Life, Claim>;
}

/** What a worker finds around it when something happens to it. */
export interface Surroundings {
  /** All that were members in the beginning. */
  readonly everybody: readonly Life[];
  /** The store answers this worker, */
  readonly answers: boolean;
  /** or its host says that it does not run. */
  readonly down: boolean;
  store: StoreState;
  /** The claims in the store have changed: those who have claimed something look at them. */
  claimed: boolean;
  send(to: Life, packet: Packet): void;
}

/** One thing that happens to a worker. */
export type Act = (actor: Actor) => void;

export class Actor {
  readonly worker: Worker;
  private readonly around: Surroundings;

  constructor(worker: Worker, around: Surroundings) {
    this.worker = worker;
    this.around = around;
  }

  over(how: End): void {
    this.worker.alive = false;
    this.worker.end ??= how;
  }

  /** Longer than a lease lasts. Whoever does not reach a store that runs loses its lease. */
  wait(losesLease: boolean): void {
    const { worker } = this;
    worker.clock += WAIT_MS;
    if (losesLease) worker.leaseless = true;
    if (!worker.stalled) this.settle();
  }

  notice(other: Life, opinion: Opinion): void {
    this.worker.agreement.opinion(other, opinion, this.worker.clock);
    this.settle();
  }

  /** One that it knows does not know it any more. */
  refused(): void {
    this.worker.agreement.expelled();
    this.settle();
    if (this.worker.agreement.isStoreUp) this.askStore();
  }

  deliver(from: Life, packet: Packet): void {
    const { worker } = this;
    if (!worker.membership.view.members.some((member) => lifeOf(member) === from)) return;
    if (packet.kind === 'report') {
      if (packet.view !== undefined) this.learn(packet.view);
      if (!worker.alive) return;
      worker.agreement.report(from, packet.report, worker.clock);
      this.settle();
    } else {
      worker.parked.push({ number: packet.number, removed: packet.removed });
      this.answerFences();
    }
  }

  askStore(): void {
    const { around, worker } = this;
    const { agreement, membership, clock } = worker;
    if (!around.answers) {
      agreement.storeIs(around.down ? 'down' : 'silent', clock);
      this.settle();
      return;
    }
    if (around.store.isEmpty)
      around.store = { ...around.store, view: Object.freeze(restored(membership.stored)), isEmpty: false };
    agreement.storeIs('up', clock);
    worker.leaseless = false;
    this.learn(around.store.view);
    this.settle();
  }

  lookAtClaims(): void {
    const { agreement, clock } = this.worker;
    agreement.claims([...this.around.store.claims.values()], clock);
    for (const next of agreement.settle(clock)) if (next.type !== 'claim') this.perform(next);
  }

  private learn(view: View): void {
    const { agreement, membership, clock } = this.worker;
    if (view.epoch <= membership.stored.epoch) return;
    const before = membership.view;
    membership.update(view);
    Object.freeze(membership.view);
    agreement.view(view, membership.unwritten.keys(), clock);
    if (membership.fenced) this.over('fenced');
    else this.changed(before);
  }

  private settle(): void {
    const { worker } = this;
    for (let again = true; again && worker.alive;) {
      const before = worker.membership.number;
      for (const effect of worker.agreement.settle(worker.clock)) if (worker.alive) this.perform(effect);
      again = worker.membership.number !== before;
    }
  }

  private perform(effect: AgreementEffect): void {
    const { around, worker } = this;
    const { membership } = worker;
    switch (effect.type) {
      case 'report': {
        const view = effect.news ? membership.stored : undefined;
        around.send(effect.to, { kind: 'report', report: effect.report, view });
        break;
      }
      case 'decided': {
        const before = membership.view;
        membership.decide(effect.lives, 'dead');
        Object.freeze(membership.view);
        this.changed(before);
        break;
      }
      case 'evict':
        this.evict(effect);
        break;
      case 'claim':
        this.claim(effect.claim);
        break;
      case 'fenced':
      case 'stop':
        this.over(effect.type);
        break;
      case 'reach':
      case 'ask-store': // Steps of their own.
    }
  }

  private evict({ lives, certain }: { lives: readonly Life[]; certain: boolean }): void {
    const { around, worker } = this;
    if (!around.answers || around.store.isEmpty) return;
    const { agreement, clock } = worker;
    const claims = new Map(around.store.claims);
    const still = lives.filter(
      (life) =>
        certain || agreement.isLost(life, clock) || agreement.claimedLosers([...claims.values()], clock).includes(life),
    );
    const view = Object.freeze(removeAll(around.store.view, new Set(still), 'dead', worker.life));
    for (const life of still) claims.delete(life);
    around.store = { ...around.store, view, claims };
    this.learn(view);
  }

  private claim(claim: Claim | undefined): void {
    const { around, worker } = this;
    if (!around.answers) return;
    const claims = new Map(around.store.claims);
    if (claim === undefined) claims.delete(worker.life);
    else claims.set(worker.life, claim);
    around.store = { ...around.store, claims };
    around.claimed = true;
  }

  /** The view lost members: owners of remote values ask all others whether they know. */
  private changed(before: View): void {
    const { life, membership } = this.worker;
    const now = new Set(membership.view.members.map(lifeOf));
    const removed = before.members.map(lifeOf).filter((other) => !now.has(other));
    if (removed.length > 0) {
      const gone = this.around.everybody.filter((other) => !now.has(other));
      const fence: Packet = { kind: 'fence', number: membership.number, removed: gone };
      for (const to of now) if (to !== life) this.around.send(to, fence);
    }
    this.answerFences();
  }

  private answerFences(): void {
    const { worker } = this;
    const members = new Set(worker.membership.view.members.map(lifeOf));
    const { number } = worker.membership;
    worker.parked = worker.parked.filter(
      (fence) => fence.number > number || fence.removed.some((life) => members.has(life)),
    );
  }
}
