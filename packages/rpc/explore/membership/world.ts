/** @file A small group, its store and its network, to be explored: the production classes, with everything between them as steps. */
import { canonical } from '@backwire/testing';
import type { Bounds } from './bounds.ts';
import { copyOf } from './copy.ts';
import { contradiction, faultAtRest } from './requirements.ts';
import { beginning, isOn, nameOf, reaches, textOf, WAIT_MS, type Rest, type Worker } from './state.ts';
import { Wires, type Packet } from './wires.ts';
import type { Agreement, AgreementEffect } from '../../src/protocol/agreement.ts';
import { lifeOf, removeAll, restored, type Life, type View } from '../../src/protocol/membership.ts';
import type { Opinion } from '../../src/protocol/opinions.ts';
import type { Claim } from '../../src/protocol/parts.ts';

/** The texts of workers, which many worlds share. */
const texts = new WeakMap<Worker, string>();

/** A state of the world. `after` gives the one that follows; workers who do nothing in a step are the same objects in both. */
export class World {
  readonly bounds: Bounds;
  private readonly shared: Worker[];
  private readonly own = new Set<number>();
  private readonly rest: Rest;

  private constructor(bounds: Bounds, workers: Worker[], rest: Rest) {
    this.bounds = bounds;
    this.shared = workers;
    this.rest = rest;
  }

  /** All members know each other, and nothing has happened. */
  static initial(bounds: Bounds): World {
    const { workers, view } = beginning(bounds);
    const rest = { storeIsUp: true, storeIsEmpty: false, cut: false, clock: 0, view, wrong: undefined };
    return new World(bounds, workers, { ...rest, wires: new Wires(), claims: new Map(), happened: new Set() });
  }

  /** The world after an action. */
  after(action: string): World {
    const { wires, claims, happened, ...rest } = this.rest;
    const next = new World(this.bounds, [...this.shared], {
      ...rest,
      wires: wires.copy(),
      claims: new Map(claims),
      happened: new Set(happened),
    });
    next.apply(action);
    return next;
  }

  /** The first thing that went wrong. */
  get wrong(): string | undefined {
    return this.rest.wrong;
  }

  /** To be looked at. */
  get workers(): readonly Worker[] {
    return this.shared;
  }

  /** To be changed. */
  private mine(rank: number): Worker {
    const worker = this.shared[rank];
    if (worker === undefined) throw new Error(`no worker ${rank}`);
    if (this.own.has(rank)) {
      texts.delete(worker);
      return worker;
    }
    this.own.add(rank);
    return (this.shared[rank] = copyOf(worker));
  }

  /** What can happen now. */
  actions(): string[] {
    const inside = this.inside();
    // Time passes slowly: what members and wires have to do is done before.
    const waits = inside.length === 0 && this.workers.some((worker) => isOn(worker) && this.isWaiting(worker));
    return [...this.outside(), ...inside, ...(waits ? ['time passes'] : [])];
  }

  private apply(action: string): void {
    const [what = '', a = '', , b = ''] = action.split(' ');
    if (what === 'event') this.happen(action.slice('event '.length));
    else if (action === 'time passes') this.wait();
    else if (what === 'store') this.askStore(this.mine(Number(a)));
    else if (what === 'notice') this.notice(this.mine(Number(a)), this.workers[Number(b)] as Worker);
    else if (what === 'refuse') {
      this.mine(Number(b)).agreement.expelled();
      this.settle(this.mine(Number(b)));
      if (this.workers[Number(b)]?.agreement.isStoreUp === true) this.askStore(this.mine(Number(b)));
    } else this.deliver(this.mine(Number(a)), this.workers[Number(b)] as Worker);
    this.rest.wrong ??= contradiction(this.bounds, this.workers);
  }

  encode(): string {
    const { rest } = this;
    const workers = this.workers.map((worker) => this.textOf(worker));
    const about = canonical([
      rest.wires.plain(),
      [rest.storeIsUp, rest.storeIsEmpty, rest.cut, rest.view.epoch, rest.view.members.map(lifeOf)],
      [...rest.happened].sort(),
      [...rest.claims.values()],
    ]);
    return [...workers, about].join('\n');
  }

  private textOf(worker: Worker): string {
    const known = texts.get(worker);
    if (known !== undefined) return known;
    const text = textOf(worker, this.rest.clock);
    texts.set(worker, text);
    return text;
  }

  /** What is wrong with a world in which everything has come to rest. */
  fault(): string | undefined {
    return faultAtRest(this.bounds, this.workers, this.rest);
  }

  // What happens from outside

  private outside(): string[] {
    const { bounds } = this;
    const { happened } = this.rest;
    const can: string[] = [];
    const once = (event: string, when: boolean): void => {
      if (when && !happened.has(event)) can.push(`event ${event}`);
    };
    once('death', bounds.death !== undefined && this.workers[bounds.death.of]?.alive === true);
    once('stall', bounds.stall !== undefined && this.workers[bounds.stall]?.alive === true);
    once('wakes', happened.has('stall'));
    once('cut', bounds.cut !== undefined);
    once('mended', happened.has('cut') && bounds.mended !== false);
    once('store goes', bounds.store !== undefined);
    once('store returns', happened.has('store goes') && bounds.store !== 'never');
    return can;
  }

  private happen(event: string): void {
    const { bounds } = this;
    this.rest.happened.add(event);
    if (event === 'death') this.over(this.mine(bounds.death?.of ?? 0), 'killed');
    else if (event === 'stall') this.mine(bounds.stall ?? 0).stalled = true;
    else if (event === 'wakes') this.mine(bounds.stall ?? 0).stalled = false;
    else if (event === 'cut') this.rest.cut = true;
    else if (event === 'mended') this.rest.cut = false;
    else if (event === 'store goes') this.rest.storeIsUp = false;
    else {
      this.rest.storeIsUp = true;
      this.rest.storeIsEmpty = bounds.store === 'empty';
      if (this.rest.storeIsEmpty) this.rest.claims.clear();
    }
  }

  /** Longer than a lease lasts. Whoever does not reach a store that runs loses its lease. */
  private wait(): void {
    this.rest.clock += WAIT_MS;
    for (const { rank } of this.workers) {
      const worker = this.mine(rank);
      if (this.rest.storeIsUp && !this.reaches(worker, 'store')) worker.leaseless = true;
      if (isOn(worker)) this.settle(worker);
      if (isOn(worker) && this.rest.claims.has(worker.life)) this.lookAtClaims(worker);
    }
  }

  /** Whether time has to pass until this worker does more. */
  private isWaiting({ agreement, leaseless, rank }: Worker): boolean {
    const losing = this.rest.storeIsUp && !leaseless && !this.reaches(this.workers[rank] as Worker, 'store');
    return losing || !this.isTimeless(agreement);
  }

  private isTimeless(agreement: Agreement): boolean {
    return (
      JSON.stringify(agreement.snapshot(this.rest.clock)) ===
      JSON.stringify(agreement.snapshot(this.rest.clock + WAIT_MS))
    );
  }

  // What happens inside

  private inside(): string[] {
    const can: string[] = [];
    for (const a of this.workers) {
      if (!isOn(a)) continue;
      if (this.storeNews(a)) can.push(`store ${a.rank}`);
      for (const b of this.workers) {
        if (a === b) continue;
        const known = a.membership.has(nameOf(b), b.rank + 1);
        if (known && this.truth(a, b) !== a.agreement.opinionOf(b.life)) can.push(`notice ${a.rank} of ${b.rank}`);
        if (!known && isOn(b) && this.reaches(a, b) && b.membership.has(nameOf(a), a.rank + 1))
          can.push(`refuse ${a.rank} to ${b.rank}`);
        const first = this.rest.wires.first(b.rank, a.rank);
        if (first === undefined || !this.reaches(a, b)) continue;
        const deliver = `deliver ${a.rank} from ${b.rank}`;
        if (this.bounds.prompt === true) return [deliver];
        can.push(deliver);
      }
    }
    return can;
  }

  /** What a worker can find out about another. */
  private truth(a: Worker, b: Worker): Opinion {
    const asksStore = this.rest.storeIsUp && this.reaches(a, 'store') && a.agreement.isStoreUp;
    if (asksStore && !this.rest.storeIsEmpty && (!b.alive || (b.leaseless && !this.reaches(a, b)))) return 'gone';
    if (!this.reaches(a, b)) return 'doubted';
    if (b.alive) return b.stalled ? 'stuck' : 'heard';
    const how = this.bounds.death?.how ?? 'silent';
    // What was found out once is known, also after the store went away.
    if (a.agreement.opinionOf(b.life) === 'gone') return 'gone';
    return how === 'proved' ? 'gone' : how === 'refused' ? 'refused' : 'doubted';
  }

  private notice(a: Worker, b: Worker): void {
    a.agreement.opinion(b.life, this.truth(a, b), this.rest.clock);
    this.settle(a);
  }

  private deliver(a: Worker, b: Worker): void {
    const packet = this.rest.wires.take(b.rank, a.rank);
    if (packet === undefined || !a.membership.has(nameOf(b), b.rank + 1)) return;
    if (packet.kind === 'report') {
      if (packet.view !== undefined) this.learn(a, packet.view);
      if (!a.alive) return;
      a.agreement.report(b.life, packet.report, this.rest.clock);
      this.settle(a);
    } else {
      a.parked.push(packet);
      this.answerFences(a);
    }
  }

  /** Whether a worker would learn something from the store: that it is away or back, or its view. */
  private storeNews(worker: Worker): boolean {
    const answers = this.rest.storeIsUp && this.reaches(worker, 'store');
    if (answers !== worker.agreement.isStoreUp) return true;
    if (!answers) return false;
    // Whoever is certain that a member is gone tries to put it out until it is: the store may have been away at the first try.
    const owes = this.rest.view.members.some((member) => worker.agreement.isCertain(lifeOf(member), this.rest.clock));
    return owes || this.rest.storeIsEmpty || worker.leaseless || this.rest.view.epoch > worker.membership.stored.epoch;
  }

  private askStore(worker: Worker): void {
    const { agreement, membership } = worker;
    if (!this.rest.storeIsUp || !this.reaches(worker, 'store')) {
      agreement.storeIs(
        this.bounds.down === true && this.reaches(worker, 'store') ? 'down' : 'silent',
        this.rest.clock,
      );
      this.settle(worker);
      return;
    }
    if (this.rest.storeIsEmpty) {
      this.rest.view = Object.freeze(restored(membership.stored));
      this.rest.storeIsEmpty = false;
    }
    agreement.storeIs('up', this.rest.clock);
    worker.leaseless = false;
    this.learn(worker, this.rest.view);
    this.settle(worker);
  }

  private learn(worker: Worker, view: View): void {
    if (view.epoch <= worker.membership.stored.epoch) return;
    const before = worker.membership.view;
    worker.membership.update(view);
    Object.freeze(worker.membership.view);
    worker.agreement.view(view, worker.membership.unwritten.keys(), this.rest.clock);
    if (worker.membership.fenced) this.over(worker, 'fenced');
    else this.changed(worker, before);
  }

  private settle(worker: Worker): void {
    for (let again = true; again && worker.alive;) {
      const effects = worker.agreement.settle(this.rest.clock);
      const before = worker.membership.number;
      for (const effect of effects) if (worker.alive) this.perform(worker, effect);
      again = worker.membership.number !== before;
    }
  }

  private perform(worker: Worker, effect: AgreementEffect): void {
    switch (effect.type) {
      case 'report':
        this.send(worker, effect.to, {
          kind: 'report',
          report: Object.freeze(effect.report),
          view: effect.news ? worker.membership.stored : undefined,
        });
        break;
      case 'decided': {
        const before = worker.membership.view;
        worker.membership.decide(effect.lives, 'dead');
        Object.freeze(worker.membership.view);
        this.changed(worker, before);
        break;
      }
      case 'evict':
        this.evict(worker, effect);
        break;
      case 'claim':
        this.claim(worker, effect.claim);
        break;
      case 'fenced':
      case 'stop':
        this.over(worker, effect.type);
        break;
      case 'reach':
      case 'ask-store': // Steps of their own.
    }
  }

  private evict(worker: Worker, { lives, certain }: { lives: readonly Life[]; certain: boolean }): void {
    if (!this.rest.storeIsUp || !this.reaches(worker, 'store') || this.rest.storeIsEmpty) return;
    const still = lives.filter(
      (life) =>
        certain ||
        worker.agreement.isLost(life, this.rest.clock) ||
        worker.agreement.claimedLosers([...this.rest.claims.values()], this.rest.clock).includes(life),
    );
    this.rest.view = Object.freeze(removeAll(this.rest.view, new Set(still), 'dead', worker.life));
    for (const life of still) this.rest.claims.delete(life);
    this.learn(worker, this.rest.view);
  }

  private claim(worker: Worker, claim: Claim | undefined): void {
    if (!this.rest.storeIsUp || !this.reaches(worker, 'store')) return;
    if (claim === undefined) this.rest.claims.delete(worker.life);
    else this.rest.claims.set(worker.life, Object.freeze(claim));
    // Whoever has claimed something looks at the claims again and again.
    for (const { rank } of this.workers) {
      const other = this.mine(rank);
      if (isOn(other) && this.rest.claims.has(other.life)) this.lookAtClaims(other);
    }
  }

  private lookAtClaims(worker: Worker): void {
    if (!this.rest.storeIsUp || !this.reaches(worker, 'store')) return;
    worker.agreement.claims([...this.rest.claims.values()], this.rest.clock);
    for (const next of worker.agreement.settle(this.rest.clock)) if (next.type !== 'claim') this.perform(worker, next);
  }

  /** A worker's view lost members: owners of remote values ask all others whether they know. */
  private changed(worker: Worker, before: View): void {
    const now = new Set(worker.membership.view.members.map(lifeOf));
    if (before.members.every((member) => now.has(lifeOf(member)))) return this.answerFences(worker);
    const removed = this.workers.filter(({ life }) => !now.has(life)).map(({ life }) => life);
    const fence: Packet = { kind: 'fence', number: worker.membership.number, removed };
    for (const life of now) if (life !== worker.life) this.send(worker, life, fence);
    this.answerFences(worker);
  }

  private answerFences(worker: Worker): void {
    const members = new Set(worker.membership.view.members.map(lifeOf));
    const { number } = worker.membership;
    worker.parked = worker.parked.filter(
      (fence) => fence.number > number || fence.removed.some((life) => members.has(life)),
    );
  }

  private send(from: Worker, to: Life, packet: Packet): void {
    const target = this.workers.find(({ life }) => life === to);
    if (target?.alive === true) this.rest.wires.put(from.rank, target.rank, packet);
  }

  private over(worker: Worker, how: 'killed' | 'fenced' | 'stop'): void {
    worker.alive = false;
    worker.end ??= how;
    this.rest.claims.delete(worker.life);
    this.rest.wires.drop(worker.rank);
  }

  private reaches(a: Worker, b: Worker | 'store'): boolean {
    return reaches(this.bounds, this.rest, a, b);
  }
}
