/** @file A simulated member of a group in doubt: pings those it has links to, watches leases, and does what the agreement says. */
import type { NodeEnv, SimNode } from '@backwire/testing';
import { Agreement, type AgreementEffect } from '../../src/protocol/agreement.ts';
import {
  EMPTY_VIEW,
  isRefusal,
  join,
  lifeOf,
  Membership,
  removeAll,
  type Life,
  type View,
} from '../../src/protocol/membership.ts';
import { isOther, isRestored, rejoined, restored } from '../../src/protocol/histories.ts';
import { ALL_AGREEMENT_RULES, type AgreementRules, type Opinion } from '../../src/protocol/opinions.ts';
import type { Claim } from '../../src/protocol/parts.ts';
import { watchedBy } from '../../src/protocol/watchers.ts';
import type { Knock } from '../../src/transports/knock.ts';
import { STORE, type DoubtMessage, type StoreReply, type StoreRequest } from './messages.ts';
import { nodeOf, type DoubtOracle } from './oracle.ts';
import { LEASE_MS } from './sim-store.ts';

/** What members do differently when they are wrong on purpose. */
export interface DoubtRules extends AgreementRules {
  /** Everybody's lease is watched by somebody; else only those are watched to whom there is a link. */
  readonly watching: boolean;
}

export const SOUND: DoubtRules = { ...ALL_AGREEMENT_RULES, watching: true };

export interface DoubtPlan {
  readonly oracle: DoubtOracle;
  readonly rules: DoubtRules;
  /** Nodes to which there is a link from the start. */
  readonly linked: readonly string[];
  /** What the host of a node says to one who knocks. */
  readonly knock: (node: string) => Knock;
}

const TURN_MS = 250;
const PING_MS = 500;
const SUSPECT_MS = 1_500;
const DEAD_MS = 4_000;
const BUSY_MS = 30_000;
const ASK_MS = 500;
const PATIENCE_MS = 1_000;
const WATCH_MS = 1_000;
const TIMES = { leaseMs: LEASE_MS, deadMs: DEAD_MS, busyDeadMs: BUSY_MS, settleMs: 1_000, askMs: ASK_MS };

/** What a step waits for: an answer of the store, or a time. */
type Step = Generator<StoreRequest | number, void, StoreReply | undefined>;

/** A peer as one life of this worker sees it. */
interface Link {
  heardAt: number;
  pingedAt: number;
  examinedAt: number;
  sent: number;
  received: number;
}

/** One process: *joining* → *member* → *joining* as another life. */
export class DoubtMember implements SimNode {
  private readonly env: NodeEnv;
  private readonly plan: DoubtPlan;
  private readonly asked = new Map<number, (reply: StoreReply | undefined) => void>();
  private nextId = 1;
  private life: Life | undefined;
  private membership = new Membership({ name: '', incarnation: 0 });
  private agreement = new Agreement('', TIMES);
  private links = new Map<Life, Link>();
  private evicting = false;
  private restoring = false;
  private forgotAt = -Infinity;
  /** Leases that were seen since the store forgot all. */
  private readonly seen = new Set<Life>();

  constructor(env: NodeEnv, plan: DoubtPlan) {
    this.env = env;
    this.plan = plan;
    this.run(this.live());
  }

  /** The view, if this worker is a member, knows the store's and has no doubts. */
  get settledView(): View | undefined {
    const { membership, agreement, life } = this;
    const calm = life !== undefined && membership.unwritten.size === 0 && !agreement.isTroubled(this.env.now());
    return calm && agreement.isStoreUp ? membership.stored : undefined;
  }

  onDatagram(_from: string, message: unknown): void {
    const got = message as DoubtMessage;
    if (got.kind === 'answer') {
      this.agreement.storeIs('up', this.env.now());
      this.asked.get(got.id)?.(got.reply);
      this.asked.delete(got.id);
    } else if (got.kind !== 'ask' && got.to === this.life) this.hear(got);
  }

  // Its lives

  private *live(): Step {
    yield Math.round(this.env.random.float() * 2_000);
    for (;;) {
      yield* this.join();
      const { life } = this;
      if (life !== undefined) {
        this.run(this.keepLease(life));
        this.run(this.watch(life));
        while (this.life === life) {
          this.turn();
          yield TURN_MS;
        }
      }
      yield 500 + Math.round(this.env.random.float() * 1_000);
    }
  }

  private *join(): Step {
    const { name } = this.env;
    const incarnation = yield { op: 'incarnation' };
    if (typeof incarnation !== 'number') return;
    const life = lifeOf({ name, incarnation });
    if (!isView(yield { op: 'renew', life })) return;
    const id = Number(name.slice(1));
    const endpoints = [{ transport: 'tcp', domain: '', address: `tcp://${name}` }];
    const member = { name, id, incarnation, endpoints, host: name, pid: 1, extensions: [], reports: true };
    for (let attempt = 0; attempt < 20; attempt++) {
      const view = yield { op: 'view' };
      if (!isView(view)) return;
      if (view.members.some((other) => lifeOf(other) === life)) return this.begin(life, incarnation, view);
      const next = join(view, member, undefined);
      if (!isRefusal(next)) {
        yield { op: 'change', before: view, next };
        continue;
      }
      if (next.kind !== 'name-taken') return;
      const before = lifeOf(next.by);
      if ((yield { op: 'lease-of', life: before }) === true) return;
      // A store that was restored has the leases of the others a moment later.
      yield LEASE_MS;
      if ((yield { op: 'lease-of', life: before }) !== false) return;
      yield { op: 'change', before: view, next: removeAll(view, new Set([before]), 'dead') };
    }
  }

  private begin(life: Life, incarnation: number, view: View): void {
    const { name } = this.env;
    this.life = life;
    this.membership = new Membership({ name, incarnation });
    this.agreement = new Agreement(life, TIMES, this.plan.rules);
    this.links = new Map();
    this.evicting = false;
    this.restoring = false;
    this.plan.oracle.began(name, life, this.membership);
    this.learn(view);
  }

  private end(how: 'fenced' | 'stop'): void {
    const { life } = this;
    if (life === undefined) return;
    this.life = undefined;
    this.plan.oracle.ended(this.env.name, life, how);
  }

  private *keepLease(life: Life): Step {
    while (this.life === life) {
      const view = yield { op: 'renew', life };
      if (this.life !== life) return;
      if (isView(view)) this.learn(view);
      yield LEASE_MS / 6;
    }
  }

  // What it knows of the others

  private isMember(life: Life): boolean {
    return this.membership.view.members.some((member) => lifeOf(member) === life);
  }

  private learn(view: View): void {
    const { membership, agreement, life } = this;
    const known = membership.stored;
    if (life === undefined) return;
    if (isOther(life, known, view)) {
      this.run(this.restore(view));
      return;
    }
    if (view.epoch <= known.epoch) return;
    if (known !== EMPTY_VIEW && isRestored(known, view)) {
      this.forgotAt = this.env.now();
      this.seen.clear();
    }
    membership.update(view);
    agreement.view(view, membership.unwritten.keys(), this.env.now());
    this.meet();
    this.settle();
  }

  /** The store has forgotten the group. */
  private *restore(found: View): Step {
    if (this.restoring) return;
    this.restoring = true;
    const { stored } = this.membership;
    const next = found === EMPTY_VIEW || found.members.length === 0 ? restored(stored) : rejoined(stored, found);
    yield { op: 'change', before: found, next };
    this.restoring = false;
  }

  /** Links that are there from the start. */
  private meet(): void {
    for (const member of this.membership.view.members)
      if (this.plan.linked.includes(member.name)) this.link(lifeOf(member));
  }

  private link(life: Life): Link {
    const known = this.links.get(life);
    if (known !== undefined) return known;
    const link = { heardAt: this.env.now(), pingedAt: -Infinity, examinedAt: -Infinity, sent: 0, received: 0 };
    this.links.set(life, link);
    this.ping(life);
    return link;
  }

  private hear(got: Extract<DoubtMessage, { from: Life }>): void {
    const now = this.env.now();
    if (got.kind === 'refused') return this.end('fenced');
    if (!this.isMember(got.from)) {
      const known = got.kind === 'ping' && this.membership.stored.epoch >= got.epoch;
      if (known) this.post({ kind: 'refused', from: got.to, to: got.from });
      return;
    }
    const link = this.link(got.from);
    link.heardAt = now;
    if (this.agreement.opinionOf(got.from) !== 'heard') this.think(got.from, 'heard');
    if (got.kind === 'ping') this.post({ kind: 'pong', from: got.to, to: got.from });
    if (got.kind !== 'report' || got.seq <= link.received) return;
    link.received = got.seq;
    if (got.view !== undefined) this.learn(got.view);
    if (this.life === undefined) return;
    this.agreement.report(got.from, got.report, now);
    this.settle();
  }

  private think(life: Life, opinion: Opinion): void {
    this.agreement.opinion(life, opinion, this.env.now());
    this.settle();
  }

  private turn(): void {
    const now = this.env.now();
    for (const [life, link] of this.links) {
      if (!this.isMember(life)) {
        this.links.delete(life);
        continue;
      }
      const silence = now - link.heardAt;
      if (silence >= PING_MS && now - link.pingedAt >= PING_MS) {
        link.pingedAt = now;
        this.ping(life);
      }
      if (silence >= SUSPECT_MS && this.agreement.opinionOf(life) === 'heard') this.think(life, 'unsure');
      if (silence < DEAD_MS || now - link.examinedAt < ASK_MS) continue;
      link.examinedAt = now;
      this.run(this.examine(life));
    }
    if (this.life !== undefined && this.agreement.isTroubled(now)) this.settle();
  }

  private *examine(life: Life): Step {
    const lease = yield* this.leaseOf(life);
    if (this.life === undefined || !this.isMember(life) || this.agreement.opinionOf(life) === 'heard') return;
    const knock = this.plan.knock(nodeOf(life));
    const found = knock === 'there' ? 'stuck' : knock === 'refused' ? 'refused' : 'doubted';
    this.think(life, lease === false ? 'gone' : found);
  }

  /** Undefined: nobody knows. Forgotten: it is not there, in a store that has lost what it had, and that says nothing yet. */
  private *leaseOf(life: Life): Generator<StoreRequest, boolean | 'forgotten' | undefined, StoreReply | undefined> {
    const alive = yield { op: 'lease-of', life };
    if (typeof alive !== 'boolean') return undefined;
    if (alive) this.seen.add(life);
    else {
      const { life: self, membership } = this;
      const known = membership.stored;
      const view = yield { op: 'view' };
      if (self === undefined || !isView(view)) return undefined;
      if (view === EMPTY_VIEW || isRestored(known, view) || isOther(self, known, view)) return 'forgotten';
    }
    return alive || this.env.now() - this.forgotAt >= BUSY_MS || this.seen.has(life) ? alive : 'forgotten';
  }

  /** The leases of those that are this worker's to watch. One that is not there is a reason to dial its worker, and once more not there, of none that answers, its end. */
  private *watch(self: Life): Step {
    while (this.life === self) {
      const { members } = this.membership.view;
      const own = members.find((member) => lifeOf(member) === self);
      for (const member of own === undefined || !this.plan.rules.watching ? [] : watchedBy(own, members)) {
        const life = lifeOf(member);
        const lease = yield* this.leaseOf(life);
        if (lease === true || lease === undefined || this.life !== self) continue;
        if (!this.isMember(life) || this.agreement.opinionOf(life) === 'heard') continue;
        this.link(life);
        yield WATCH_MS;
        if (this.life !== self || this.agreement.opinionOf(life) === 'heard') continue;
        if ((yield* this.leaseOf(life)) === false && this.isMember(life)) this.think(life, 'gone');
      }
      yield WATCH_MS;
    }
  }

  // What the members agree on

  private settle(): void {
    const { life } = this;
    for (const effect of this.agreement.settle(this.env.now())) if (this.life === life) this.perform(effect);
  }

  private perform(effect: AgreementEffect): void {
    const { life, membership } = this;
    if (life === undefined) return;
    switch (effect.type) {
      case 'report': {
        const { to, report, news } = effect;
        const seq = ++this.link(to).sent;
        this.post({ kind: 'report', from: life, to, seq, report, view: news ? membership.stored : undefined });
        break;
      }
      case 'decided':
        membership.decide(effect.lives, 'dead');
        this.plan.oracle.decided(life, effect.lives, membership);
        agreeAgain(this.agreement, membership, this.env.now());
        break;
      case 'evict':
        this.run(this.evict(effect.lives, effect.certain));
        break;
      case 'claim':
        this.run(this.claim(life, effect.claim));
        break;
      case 'fenced':
      case 'stop':
        this.end(effect.type);
        break;
      case 'reach':
        this.link(effect.peer);
        break;
      case 'ask-store': // The lease is renewed as often, and its answer is the view.
    }
  }

  private *claim(life: Life, claim: Claim | undefined): Step {
    const claims = yield { op: 'claim', life, claim };
    if (!Array.isArray(claims) || this.life !== life) return;
    this.agreement.claims(claims as Claim[], this.env.now());
    this.settle();
  }

  private *evict(lives: readonly Life[], certain: boolean): Step {
    const { life: self } = this;
    if (this.evicting || self === undefined) return;
    this.evicting = true;
    const [view, claims] = [yield { op: 'view' }, yield { op: 'claims' }];
    this.evicting = false;
    if (!isView(view) || !Array.isArray(claims) || this.life !== self) return;
    const now = this.env.now();
    const { agreement } = this;
    const losers = agreement.claimedLosers(claims as Claim[], now);
    const still = lives.filter((life) =>
      certain ? agreement.isCertain(life, now) : agreement.isLost(life, now) || losers.includes(life),
    );
    const next = removeAll(view, new Set(still), 'dead', self);
    if (next === view || (yield { op: 'change', before: view, next }) !== true) return;
    if (this.life === self) this.learn(next);
  }

  // How it talks

  private ping(to: Life): void {
    this.post({ kind: 'ping', from: this.life as Life, to, epoch: this.membership.stored.epoch });
  }

  private post(message: Extract<DoubtMessage, { to: Life }>): void {
    this.env.send(nodeOf(message.to), message);
  }

  /** Runs steps: a request waits for its answer or for the store's silence, a number is a pause. */
  private run(step: Step, reply?: StoreReply): void {
    const { value, done } = step.next(reply);
    if (done === true) return;
    if (typeof value === 'number') {
      this.env.setTimer(value, 'go on', () => this.run(step));
      return;
    }
    const id = this.nextId++;
    const late = this.env.setTimer(PATIENCE_MS, 'store', () => {
      this.asked.delete(id);
      this.agreement.storeIs('silent', this.env.now());
      this.run(step);
    });
    this.asked.set(id, (answer) => {
      late.cancel();
      this.run(step, answer);
    });
    this.env.send(STORE, { kind: 'ask', id, request: value } satisfies DoubtMessage);
  }
}

function agreeAgain(agreement: Agreement, { stored, unwritten }: Membership, now: number): void {
  agreement.view(stored, unwritten.keys(), now);
}

function isView(reply: StoreReply | undefined): reply is View {
  return typeof reply === 'object' && 'members' in reply;
}
