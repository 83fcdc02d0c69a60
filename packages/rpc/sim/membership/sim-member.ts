/** @file A simulated member: joins, keeps its lease, watches some others, meets at barriers, leaves, and starts again as another life. */
import type { NodeEnv, SimNode } from '@backwire/testing';
import { LivenessPolicy, type LivenessEffect } from '../../src/liveness/policy.ts';
import { Meetings, type MeetingEffect } from '../../src/protocol/meetings.ts';
import {
  EMPTY_VIEW,
  isRefusal,
  join,
  Membership,
  remove,
  type View,
  type ViewMember,
} from '../../src/protocol/membership.ts';
import { isView, lifeOf, STORE, type Life, type SimMessage, type StoreReply, type StoreRequest } from './messages.ts';
import type { MembershipOracle } from './oracle.ts';
import { atDoor } from './sim-door.ts';
import { LEASE_MS } from './sim-store.ts';

/** What a member does differently when it is wrong on purpose. */
export interface MemberRules {
  /** Takes the place of an earlier life of its name without asking whether that one lives. */
  readonly usurps: boolean;
  /** Takes whoever waits into the view without looking at who is there. */
  readonly waves: boolean;
  /** Lets a barrier go on when most have come. */
  readonly hurries: boolean;
}

export interface MemberPlan {
  readonly name: string;
  /** Which worker process runs at a node; others know only names. */
  readonly nodeOf: (life: Life) => string | undefined;
  readonly started: (life: Life, node: string) => void;
  readonly oracle: MembershipOracle;
  readonly rules: MemberRules;
  /** The names of the small barrier that this worker is part of. */
  readonly crew: readonly string[];
  /** How long it stays before it leaves, in virtual milliseconds. */
  readonly stayMs: number;
  /** It starts within this time. */
  readonly spreadMs: number;
  /** No one leaves any more, and everybody meets. */
  readonly closing: () => boolean;
  /** It was released from a barrier of all while closing: what the end of a run is. */
  readonly met: () => void;
}

const LIVENESS = { pingMs: 8_000, suspectMs: 20_000, deadMs: 45_000, busyDeadMs: 90_000, reconnectGraceMs: 10_000 };
/** As long as a look may be late without counting as the worker's own stall. */
const TICK_MS = 1_400;
const STORE_PATIENCE_MS = 2_000;
const REFRESH_MS = 15_000;
const NEIGHBOURS = 3;
const BARRIER_PATIENCE_MS = 20_000;
const RESEND_MS = 3_000;
/** How soon a worker whose life was ended by others starts another one. */
const NOTICE_MS = 5_000;

/** What a step waits for: an answer of the store, a time, or the end of a call (for as long as until it is made again). */
type Step = Generator<StoreRequest | number | Call, void, StoreReply | undefined>;

/** One process. Its states: *joining* → *member* → *gone* → *joining* as another life … */
export class SimMember implements SimNode {
  private readonly env: NodeEnv;
  private readonly plan: MemberPlan;
  private readonly asked = new Map<number, (reply: StoreReply | undefined) => void>();
  private nextId = 1;
  private life: Life | undefined;
  /** The one that is not a member yet. */
  private coming: Life | undefined;
  private membership: Membership | undefined;
  private meetings = new Meetings<Arrival>();
  private policy: LivenessPolicy<Life>;
  private readonly watched = new Set<Life>();
  /** The epoch of the view that the watched were chosen from. */
  private lookedAt = 0;
  private readonly calls = new Map<number, Call>();
  /** Answers already given, so that a repeated call gets the same. */
  private readonly answered = new Map<string, boolean>();

  constructor(env: NodeEnv, plan: MemberPlan) {
    this.env = env;
    this.plan = plan;
    this.policy = this.newPolicy();
    this.run(this.live());
  }

  get view(): View {
    return this.membership?.view ?? EMPTY_VIEW;
  }

  onDatagram(_from: string, message: unknown): void {
    const got = message as SimMessage;
    if (got.kind === 'answer') {
      this.asked.get(got.id)?.(got.reply);
      this.asked.delete(got.id);
    } else if (got.kind === 'news') this.learn(got.view);
    else if (got.kind !== 'ask') this.hear(got);
  }

  /** A link to one of the watched is cut. */
  loseLink(): void {
    const peer = [...this.watched][0];
    if (peer === undefined) return;
    this.policy.linkLost(peer, this.env.now());
    this.env.setTimer(0, 'dial', () => this.watched.has(peer) && this.send('dial', peer));
  }

  // Its life, as steps between answers of the store and pauses

  private *live(): Step {
    yield Math.round(this.env.random.float() * this.plan.spreadMs);
    for (;;) {
      yield* this.join();
      if (this.life === undefined) {
        this.plan.oracle.counts.refused++;
        yield 2_000 + Math.round(this.env.random.float() * 8_000);
        continue;
      }
      const { life } = this;
      this.run(this.lookAround(life));
      this.run(this.meet(life));
      const until = this.env.now() + this.plan.stayMs * (0.5 + this.env.random.float());
      while (this.life === life) {
        const left = until - this.env.now();
        if (left <= 0 && !this.plan.closing()) break;
        yield left > 0 ? Math.min(left, NOTICE_MS) : NOTICE_MS;
      }
      if (this.life === life) yield* this.leave(life);
      yield 1_000 + Math.round(this.env.random.float() * 20_000);
    }
  }

  private *join(): Step {
    yield* this.come();
    this.coming = undefined;
  }

  private *come(): Step {
    const { name } = this.plan;
    const incarnation = yield { op: 'incarnation', name };
    if (typeof incarnation !== 'number') return;
    const life = lifeOf({ name, incarnation });
    if ((yield { op: 'lease', life }) !== true) return;
    this.plan.started(life, this.env.name);
    this.coming = life;
    this.run(this.keepLease(life));
    for (let attempt = 0; attempt < 20; attempt++) {
      const view = yield { op: 'view' };
      if (!isView(view)) continue;
      if (view.members.some((member) => lifeOf(member) === life)) {
        this.begin(name, incarnation, view);
        return;
      }
      const member = newcomer(view, name, incarnation);
      const next = join(view, member, undefined);
      if (!isRefusal(next)) {
        // Now and then by itself, as one that saw no door; the others at the door.
        const alone = attempt === 0 ? this.env.random.chance(0.5) : attempt > 10;
        if (alone) yield { op: 'change', before: view, next };
        else yield* atDoor(this.env.random, this.plan.rules, life, { kind: 'join', member, anyId: true });
        continue;
      }
      if (next.kind !== 'name-taken') return;
      const lives = this.plan.rules.usurps ? false : yield { op: 'lease-of', life: lifeOf(next.by) };
      if (lives !== false) return;
      yield { op: 'change', before: view, next: remove(view, name, next.by.incarnation, 'dead') };
    }
  }

  private begin(name: string, incarnation: number, view: View): void {
    this.membership = new Membership({ name, incarnation });
    this.meetings = new Meetings();
    this.policy = this.newPolicy();
    this.watched.clear();
    this.answered.clear();
    this.open.clear();
    this.life = lifeOf({ name, incarnation });
    this.learn(view);
  }

  /** Its own clock says how long nobody has confirmed the lease; then it looks whether it still belongs to the group. */
  private *keepLease(life: Life): Step {
    while (this.life === life || this.coming === life) {
      yield LEASE_MS / 3;
      if (this.life !== life && this.coming !== life) return;
      const held = yield { op: 'renew', life };
      if (held === false) yield* this.refresh();
    }
  }

  private *refresh(): Step {
    const view = yield { op: 'view' };
    if (isView(view)) this.learn(view);
  }

  private *lookAround(life: Life): Step {
    for (let turn = 0; this.life === life; turn++) {
      this.watchNeighbours();
      const isNeeded = (peer: Life): boolean => [...this.calls.values()].some(({ to }) => to === peer);
      this.apply(this.policy.tick(this.env.now(), isNeeded));
      if (turn % Math.round(REFRESH_MS / TICK_MS) === 0) yield* this.refresh();
      yield TICK_MS;
    }
  }

  private *leave(life: Life): Step {
    for (let attempt = 0; attempt < 20 && this.life === life; attempt++) {
      const view = yield { op: 'view' };
      if (!isView(view) || this.membership === undefined) continue;
      const { name } = this.plan;
      const next = remove(view, name, Number(life.split('#')[1]), 'left');
      if (next === view) break;
      if (attempt === 0 && this.env.random.chance(0.7))
        yield* atDoor(this.env.random, this.plan.rules, life, { kind: 'leave', life });
      else if ((yield { op: 'change', before: view, next }) === true) break;
    }
    this.end();
    yield { op: 'revoke', life };
  }

  // What it knows of the others

  private learn(view: View): void {
    const { membership, life } = this;
    if (membership === undefined || life === undefined) return;
    const before = membership.view;
    const change = membership.update(view);
    if (change === undefined) return;
    this.plan.oracle.installed(life, before, view);
    for (const gone of [...change.dead, ...change.left]) {
      this.policy.forget(lifeOf(gone));
      this.watched.delete(lifeOf(gone));
      for (const call of this.calls.values()) if (call.to === lifeOf(gone)) this.settle(call, false);
      this.tell(this.meetings.gone(gone.name));
    }
    if (!membership.fenced) return;
    this.plan.oracle.counts.fenced++;
    this.end();
  }

  private end(): void {
    this.life = undefined;
    this.membership = undefined;
    this.meetings.close();
    for (const call of [...this.calls.values()]) this.settle(call, false);
  }

  /** Half of the members have more links than they attend to. */
  private newPolicy(): LivenessPolicy<Life> {
    const attended = (this.plan.name.codePointAt(this.plan.name.length - 1) ?? 0) % 2 === 0 ? 2 : undefined;
    return new LivenessPolicy<Life>({ ...LIVENESS, leaseMs: LEASE_MS }, attended);
  }

  /** The next few of the view, round it once. */
  private watchNeighbours(): void {
    const { members, epoch } = this.view;
    if (epoch === this.lookedAt) return;
    this.lookedAt = epoch;
    const at = members.findIndex(({ name }) => name === this.plan.name);
    if (at < 0) return;
    for (let i = 1; i <= NEIGHBOURS && i < members.length; i++) {
      const peer = lifeOf(members[(at + i) % members.length] as ViewMember);
      if (this.watched.has(peer) || this.watched.size >= 3 * NEIGHBOURS) continue;
      this.watched.add(peer);
      this.policy.track(peer, this.env.now());
    }
  }

  private apply(effects: readonly LivenessEffect<Life>[]): void {
    for (const effect of effects) {
      const { peer } = effect;
      if (effect.type === 'ping') this.send('ping', peer);
      else if (effect.type === 'inquire') this.run(this.inquire(peer));
      else if (effect.type === 'accuse') this.run(this.judge(peer));
    }
  }

  private *inquire(peer: Life): Step {
    const alive = yield { op: 'lease-of', life: peer };
    if (typeof alive === 'boolean') this.apply(this.policy.lease(peer, this.env.now(), { alive, ageMs: 0 }));
  }

  /** Puts out one whose lease is gone; what to do with one that merely says nothing is another suite's. */
  private *judge(peer: Life): Step {
    if (this.life === undefined || (yield { op: 'lease-of', life: peer }) !== false) return;
    for (let attempt = 0; attempt < 20; attempt++) {
      const view = yield { op: 'view' };
      if (!isView(view)) continue;
      const [name = '', incarnation] = peer.split('#');
      const next = remove(view, name, Number(incarnation), 'dead');
      if (next === view || (yield { op: 'change', before: view, next }) === true) return;
    }
  }

  private hear(got: Exclude<SimMessage, { kind: 'ask' | 'answer' | 'news' }>): void {
    const { membership, life } = this;
    // Of another life, or from one outside the view: nothing of it is delivered.
    if (membership === undefined || life === undefined || got.to !== life) return;
    const [name = '', incarnation] = got.from.split('#');
    if (!membership.has(name, Number(incarnation))) return;
    this.apply(this.policy.heard(got.from, this.env.now()));
    switch (got.kind) {
      case 'ping':
        return this.send('pong', got.from);
      case 'dial':
        return this.send('dialled', got.from);
      case 'dialled':
        if (this.watched.has(got.from)) this.apply(this.policy.linkUp(got.from, this.env.now()));
        return;
      case 'arrive':
        return this.arrived(name, got.from, got.key, got.call);
      case 'withdraw': {
        const missing = this.meetings.withdraw(name, this.arrivalOf(got.from, got.call));
        if (missing === undefined) return;
        this.answered.set(`${got.from}/${got.call}`, false);
        this.open.delete(`${got.from}/${got.call}`);
        return;
      }
      case 'outcome': {
        const call = this.calls.get(got.call);
        if (call !== undefined) this.settle(call, got.ok);
        return;
      }
      case 'pong':
        return;
    }
  }

  // Barriers

  /** Now and then with its crew, and once with everybody. */
  private *meet(life: Life): Step {
    while (this.life === life) {
      yield Math.round(10_000 + this.env.random.float() * 20_000);
      if (this.life !== life) return;
      const names = new Set(this.view.members.map(({ name }) => name));
      const everybody = this.plan.closing() || this.env.random.chance(0.05);
      const group = everybody ? [...names] : this.plan.crew;
      const first = group.reduce((least, name) => (name < least ? name : least), group[0] ?? '');
      const leader = this.membership?.member(first);
      if (leader === undefined || group.some((name) => !names.has(name))) continue;
      const call: Call = { id: this.nextId++, life, to: lifeOf(leader), ok: undefined, wake: undefined };
      const key = everybody ? '*' : group.join();
      this.calls.set(call.id, call);
      this.plan.oracle.calls(life, call.id);
      const until = this.env.now() + (this.plan.closing() ? 6 : 1) * BARRIER_PATIENCE_MS;
      while (call.ok === undefined && this.env.now() < until) {
        if (call.to === life) this.arrived(this.plan.name, life, key, call.id);
        else this.post({ kind: 'arrive', from: life, to: call.to, key, call: call.id });
        if (call.ok === undefined) yield call;
      }
      if (call.ok === undefined) {
        this.plan.oracle.counts.late++;
        if (call.to === life) this.meetings.withdraw(this.plan.name, this.arrivalOf(life, call.id));
        else this.post({ kind: 'withdraw', from: life, to: call.to, call: call.id });
        this.settle(call, false);
      } else if (call.ok && everybody && this.plan.closing()) this.plan.met();
    }
  }

  /** Somebody has come to a barrier that this worker collects for. */
  private arrived(name: string, from: Life, key: string, call: number): void {
    const known = this.answered.get(`${from}/${call}`);
    if (known !== undefined) return this.answer(from, call, known);
    const arrival = this.arrivalOf(from, call);
    if (this.open.get(`${from}/${call}`) !== undefined) return;
    // Who comes again has given up before, also when that was not heard.
    for (const [id, earlier] of this.open)
      if (earlier.life === from && earlier.key === key) {
        this.meetings.withdraw(name, earlier);
        this.answered.set(id, false);
        this.open.delete(id);
      }
    this.open.set(`${from}/${call}`, arrival);
    arrival.key = key;
    this.tell(
      this.meetings.arrive(key, name, arrival, () => {
        const all = key === '*' ? this.view.members.map((member) => member.name) : key.split(',');
        this.plan.oracle.opened(this.life as Life, key, new Set([...all, name]));
        return { expected: this.plan.rules.hurries ? all.slice(0, Math.ceil(all.length / 2)) : all, survive: false };
      }),
    );
  }

  private readonly open = new Map<string, Arrival>();

  private arrivalOf(life: Life, call: number): Arrival {
    return this.open.get(`${life}/${call}`) ?? { life, call, key: '' };
  }

  private tell(effects: readonly MeetingEffect<Arrival>[]): void {
    const { oracle } = this.plan;
    for (const effect of effects) {
      // Of rounds that go on without the gone, which are not simulated.
      if (effect.type === 'left') continue;
      const { type, arrivals } = effect;
      const [first] = arrivals.values();
      const key = first?.key ?? '';
      if (effect.type === 'released') oracle.released(this.life as Life, key, arrivals);
      else oracle.broken(this.life as Life, key, effect.why.gone);
      for (const { life, call } of arrivals.values()) {
        this.open.delete(`${life}/${call}`);
        this.answered.set(`${life}/${call}`, type === 'released');
        this.answer(life, call, type === 'released');
      }
    }
  }

  private answer(life: Life, call: number, ok: boolean): void {
    const own = this.calls.get(call);
    if (life !== this.life) this.post({ kind: 'outcome', from: this.life as Life, to: life, call, ok });
    else if (own !== undefined) this.settle(own, ok);
  }

  private settle(call: Call, ok: boolean): void {
    call.ok ??= ok;
    this.calls.delete(call.id);
    call.wake?.();
  }

  // How it talks

  private send(kind: 'ping' | 'pong' | 'dial' | 'dialled', to: Life): void {
    if (this.life !== undefined) this.post({ kind, from: this.life, to });
  }

  private post(message: SimMessage & { readonly to: Life }): void {
    const node = this.plan.nodeOf(message.to);
    if (node !== undefined) this.env.send(node, message);
  }

  /** Runs steps: a request waits for its answer or for the store's silence, a call for its end or its repetition, a number is a pause. */
  private run(step: Step, reply?: StoreReply): void {
    const { value, done } = step.next(reply);
    if (done === true) return;
    if (typeof value === 'number') {
      this.env.setTimer(value, 'go on', () => this.run(step));
      return;
    }
    if ('wake' in value) {
      const again = this.env.setTimer(RESEND_MS, 'again', () => value.wake?.());
      value.wake = () => {
        value.wake = undefined;
        again.cancel();
        this.run(step);
      };
      return;
    }
    const id = this.nextId++;
    const late = this.env.setTimer(STORE_PATIENCE_MS, 'store', () => {
      this.asked.delete(id);
      this.run(step);
    });
    this.asked.set(id, (answer) => {
      late.cancel();
      this.run(step, answer);
    });
    this.env.send(STORE, { kind: 'ask', id, request: value } satisfies SimMessage);
  }
}

interface Arrival {
  readonly life: Life;
  readonly call: number;
  key: string;
}

interface Call {
  readonly id: number;
  readonly life: Life;
  readonly to: Life;
  ok: boolean | undefined;
  /** Goes on with the step that waits for it. */
  wake: (() => void) | undefined;
}

function newcomer(view: View, name: string, incarnation: number): ViewMember {
  const taken = new Set(view.members.map(({ id }) => id));
  let id = 0;
  while (taken.has(id)) id++;
  return { name, id, incarnation, endpoints: [], host: name, pid: 1, extensions: [] };
}
