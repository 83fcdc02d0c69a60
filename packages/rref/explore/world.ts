/** @file The worlds of one exploration as rows of numbers: what a row means, which step leads to which row, and one row for worlds that behave alike. */
import type { EmitRow } from '@backwire/testing';
import type { GlobalId, MemberKey } from '../src/protocol/ids.ts';
import { ALL_RULES, type Rules } from '../src/protocol/rules.ts';
import type { ProtocolWorker } from '../src/protocol/worker.ts';
import type { UserFork } from '../src/protocol/user-table.ts';
import type { Bounds } from './bounds.ts';
import { Locals, type Act, type Facts, type Outcome } from './locals.ts';
import { bitOf, freeLocal, idText, Queues, type Packet, type Renaming } from './packets.ts';

export const OWNER = 0;
const OBJECT_OF_OWNER: GlobalId = { member: OWNER, local: 0 };
const OBJECT_OF_USER: GlobalId = { member: 1, local: 0 };
const FORK_OF_CREATOR: GlobalId = { member: 1, local: 1 };
const TIMED_OUT = { code: 'deadline-exceeded', text: 'timed out' };

/** Events that are told apart at one worker; an event's number is its kind and up to three small arguments. */
const EVENT = { share: 1, drop: 2, giveUp: 3, runCreation: 4, ownerShare: 5, deliver: 6, view: 7, unsent: 8 } as const;

/**
 * A row: a number for the state of each worker (0 = it died), one for the queue of each ordered pair, one for who died (in the order
 * of the views, in octal digits of member + 1), and one for what is left of the bounds.
 *
 * Rows are brought into one form for worlds that behave alike: interchangeable users are renamed; a tombstone of an id that nobody can
 * mention any more is forgotten, and such an id is drawn again; a message is taken off the head of its queue when neither now nor later
 * it could do anything. Owner's handles are never dropped: an owner that may always share can do all that one can which let go.
 */
export class Worlds {
  readonly bounds: Bounds;
  readonly rules: Rules;
  readonly count: number;
  readonly width: number;
  readonly locals: Locals;
  readonly queues: Queues;
  private readonly deathsAt: number;
  private readonly leftAt: number;
  private readonly ordered: boolean;
  private readonly reserved: number;
  private readonly row: Uint32Array;
  private readonly smallest: Uint32Array;
  private readonly renamings: readonly Renaming[];
  /** For each renaming, where each place of the new row comes from. */
  private readonly sources: readonly Uint8Array[];
  private readonly emit: { to: EmitRow | undefined } = { to: undefined };

  constructor(bounds: Bounds) {
    this.bounds = bounds;
    this.rules = { ...ALL_RULES, ...bounds.rules };
    this.count = bounds.users + 1;
    this.deathsAt = this.count + this.count * (this.count - 1);
    this.leftAt = this.deathsAt + 1;
    this.width = this.leftAt + 1;
    this.ordered = bounds.network !== 'any order';
    this.renamings = allRenamings(this.count, bounds.creator === 'user' ? 2 : 1);
    this.sources = this.renamings.map((to) => this.sourcesOf(to));
    this.queues = new Queues(this.ordered, this.renamings);
    this.locals = new Locals(this.rules, this.queues, this.renamings);
    this.reserved = this.byUser ? bitOf(OBJECT_OF_USER) | bitOf(FORK_OF_CREATOR) : bitOf(OBJECT_OF_OWNER);
    this.row = new Uint32Array(this.width);
    this.smallest = new Uint32Array(this.width);
  }

  get byUser(): boolean {
    return this.bounds.creator === 'user';
  }

  initial(): Uint32Array {
    const { row, count, bounds } = this;
    row.fill(0);
    for (let member = 0; member < count; member++) {
      row[member] = this.locals.start(member, (worker) => {
        worker.viewChanged(1, this.membersAfter(0), []);
        if (member === OWNER && !this.byUser) worker.drawId();
        if (member === OBJECT_OF_USER.member && this.byUser) worker.create(OWNER);
        return false;
      });
    }
    if (this.byUser) {
      const create = this.queues.packet({ kind: 'create', rref: OBJECT_OF_USER, fork: FORK_OF_CREATOR });
      row[this.channel(1, OWNER)] = this.queues.append(0, create);
    }
    row[this.leftAt] =
      LEFT.forks(bounds.forks) +
      LEFT.crashes(bounds.crashes ?? 0) +
      LEFT.duplicates(bounds.duplicates ?? 0) +
      LEFT.losses(bounds.losses ?? 0) +
      (this.byUser ? 0 : LEFT.created + LEFT.ownerHandle);
    return this.canonical().slice();
  }

  /** Tells every step out of the world of a row. */
  steps(from: Uint32Array, emit: EmitRow): void {
    this.emit.to = emit;
    const deaths = from[this.deathsAt] as number;
    const left = from[this.leftAt] as number;
    for (let at = 0; at < this.count; at++) {
      const local = from[at] as number;
      if (local === 0) continue;
      const facts = this.locals.facts[local] as Facts;
      if (at === OWNER) this.ownerSteps(from, facts, left);
      else this.userSteps(from, at, facts, left);
      this.deliveries(from, at, left);
      if (facts.epoch <= deathCount(deaths)) this.seeView(from, at, facts.epoch + 1);
    }
    if (LEFT.crashesOf(left) > 0) {
      for (let at = 1; at < this.count; at++) if (from[at] !== 0) this.crash(from, at);
    }
  }

  /** Where the queue of an ordered pair is in a row. */
  channel(from: MemberKey, to: MemberKey): number {
    return this.count + from * (this.count - 1) + (to < from ? to : to - 1);
  }

  left(row: Uint32Array): number {
    return row[this.leftAt] as number;
  }

  /** The epoch of the latest view. */
  latestEpoch(row: Uint32Array): number {
    return deathCount(row[this.deathsAt] as number) + 1;
  }

  private ownerSteps(from: Uint32Array, facts: Facts, left: number): void {
    if ((left & LEFT.ownerHandle) !== 0 && LEFT.forksOf(left) > 0) {
      for (let to = 1; to < this.count; to++) if (this.mayShare(from, facts, to)) this.ownerShares(from, to, left);
    }
    const { toRun } = facts;
    if (toRun === undefined) return;
    const outcome = this.locals.step(from[OWNER] as number, EVENT.runCreation, ({ owners }, send) => {
      const entry = owners.start(toRun);
      if (entry === undefined) return false;
      owners.settle(entry);
      send(toRun.member, { kind: 'created', fork: FORK_OF_CREATOR });
      return true;
    });
    this.reach(from, OWNER, outcome, left, () => 'owner runs the creating call');
  }

  private ownerShares(from: Uint32Array, to: MemberKey, left: number): void {
    const rref = this.byUser ? OBJECT_OF_USER : OBJECT_OF_OWNER;
    const drawn = freeLocal(this.mentioned(from), OWNER);
    const act: Act = (worker, send) => void send(to, worker.shareOwned(rref, true, to));
    const outcome = this.locals.step(from[OWNER] as number, event(EVENT.ownerShare, to, drawn), act, drawn);
    this.reach(from, OWNER, outcome, (left - LEFT.forks(1)) & ~LEFT.freed, () => `owner shares with ${nameOf(to)}`);
  }

  /** What the program of a user may do with its handles. */
  private userSteps(from: Uint32Array, at: MemberKey, facts: Facts, left: number): void {
    const local = from[at] as number;
    if (LEFT.forksOf(left) > 0 && facts.usable.length > 0) {
      const drawn = freeLocal(this.mentioned(from), at);
      for (const fork of facts.usable) {
        for (let to = 0; to < this.count; to++) {
          if (to === at || !this.mayShare(from, facts, to)) continue;
          const act: Act = (worker, send) => void send(to, worker.shareHeld(heldBy(worker, fork), to));
          const outcome = this.locals.step(local, event(EVENT.share, to, drawn, fork), act, drawn);
          const label = (): string => `${nameOf(at)} shares ${formatId(fork)} with ${nameOf(to)}`;
          this.reach(from, at, outcome, left - LEFT.forks(1), label);
        }
      }
    }
    for (const fork of facts.held) {
      const act: Act = (worker) => void worker.users.release(heldBy(worker, fork));
      const outcome = this.locals.step(local, event(EVENT.drop, 0, 0, fork), act);
      this.reach(from, at, outcome, left, () => `${nameOf(at)} drops ${formatId(fork)}`);
    }
    for (const fork of facts.creating) {
      const act: Act = (worker) => void worker.users.createFailed(heldBy(worker, fork), TIMED_OUT);
      const outcome = this.locals.step(local, event(EVENT.giveUp, 0, 0, fork), act);
      this.reach(from, at, outcome, left, () => `${nameOf(at)} gives up creating`);
    }
  }

  private deliveries(row: Uint32Array, to: MemberKey, left: number): void {
    for (let from = 0; from < this.count; from++) {
      if (from === to) continue;
      const channel = this.channel(from, to);
      const queue = row[channel] as number;
      if (queue === 0) continue;
      const packets = this.queues.contents[queue] as number[];
      const reach = this.ordered ? 1 : packets.length;
      for (let i = 0; i < reach; i++) {
        const number = packets[i] as number;
        const packet = this.queues.packets[number] as Packet;
        const outcome = this.locals.step(row[to] as number, event(EVENT.deliver, from, number), deliver(from, packet));
        const after = left | noted(packet, outcome);
        const what = (): string => `${describePacket(packet)} ${nameOf(from)} -> ${nameOf(to)}`;
        this.reach(row, to, outcome, after, what, channel, this.queues.without(queue, i));
        if (LEFT.duplicatesOf(left) > 0 && isControl(packet))
          this.reach(row, to, outcome, after - LEFT.duplicates(1), () => `${what()}, and it will come again`);
      }
      if (LEFT.lossesOf(left) > 0 && row[from] !== 0) this.losses(row, from, to, left);
    }
  }

  /** A message that carries a handle or a creation cannot be sent after all: its sender is told. */
  private losses(row: Uint32Array, from: MemberKey, to: MemberKey, left: number): void {
    const channel = this.channel(from, to);
    const queue = row[channel] as number;
    for (const [i, number] of (this.queues.contents[queue] as number[]).entries()) {
      const packet = this.queues.packets[number] as Packet;
      if (packet.kind !== 'fork' && packet.kind !== 'create') continue;
      const act: Act = (worker) => {
        worker.unshare(packet);
        const fork = packet.kind === 'create' ? worker.users.get(packet.fork) : undefined;
        if (fork !== undefined) worker.users.createFailed(fork, TIMED_OUT);
        return false;
      };
      const outcome = this.locals.step(row[from] as number, event(EVENT.unsent, to, number), act);
      const label = (): string => `${describePacket(packet)} ${nameOf(from)} -> ${nameOf(to)} is never sent`;
      this.reach(row, from, outcome, left - LEFT.losses(1), label, channel, this.queues.without(queue, i));
    }
  }

  private seeView(from: Uint32Array, at: MemberKey, epoch: number): void {
    const deaths = from[this.deathsAt] as number;
    const died = deadAt(deaths, epoch - 2);
    const known = deaths % 8 ** (epoch - 1);
    const act: Act = (worker) => void worker.viewChanged(epoch, this.membersAfter(known), [died]);
    const outcome = this.locals.step(from[at] as number, event(EVENT.view, 0, known), act);
    this.reach(from, at, outcome, this.left(from), () => `${nameOf(at)} sees view ${epoch}`, this.channel(died, at), 0);
  }

  private crash(from: Uint32Array, at: MemberKey): void {
    const { row } = this;
    row.set(from);
    row[at] = 0;
    for (let other = 0; other < this.count; other++) if (other !== at) row[this.channel(other, at)] = 0;
    const deaths = from[this.deathsAt] as number;
    row[this.deathsAt] = deaths + (at + 1) * 8 ** deathCount(deaths);
    row[this.leftAt] = this.left(from) - LEFT.crashes(1);
    this.emit.to?.(this.canonical(), () => `${nameOf(at)} dies`, row);
  }

  /** Tells of the world in which one worker did something, and one queue changed besides. */
  private reach(
    from: Uint32Array,
    at: MemberKey,
    { next, sent, freed }: Outcome,
    left: number,
    label: () => string,
    channel = -1,
    queue = 0,
  ): void {
    const { row } = this;
    row.set(from);
    row[at] = next;
    if (channel >= 0) row[channel] = queue;
    for (let i = 0; i < sent.length; i += 2) {
      const to = sent[i] as number;
      if (row[to] === 0) continue;
      const out = this.channel(at, to);
      row[out] = this.queues.append(row[out] as number, sent[i + 1] as number);
    }
    row[this.leftAt] = freed && (left & LEFT.created) !== 0 ? left | LEFT.freed : left;
    this.emit.to?.(this.canonical(), label, row);
  }

  private mayShare(from: Uint32Array, facts: Facts, to: MemberKey): boolean {
    const deaths = from[this.deathsAt] as number;
    for (let i = 0; i < facts.epoch - 1; i++) if (deadAt(deaths, i) === to) return false;
    return true;
  }

  /** The ids that somebody can still mention, tombstones apart. */
  private mentioned(row: Uint32Array): number {
    let mask = this.reserved;
    for (let i = 0; i < this.count; i++) {
      const local = row[i] as number;
      if (local !== 0) mask |= (this.locals.facts[local] as Facts).mentions;
    }
    for (let i = this.count; i < this.deathsAt; i++) {
      const queue = row[i] as number;
      if (queue !== 0) mask |= this.queues.mentions[queue] as number;
    }
    return mask;
  }

  /** Brings `row` into its one form. */
  private canonical(): Uint32Array {
    this.skipVoid();
    this.forget();
    const { row, smallest, sources, width } = this;
    smallest.set(row);
    for (let index = 1; index < sources.length; index++) {
      const source = sources[index] as Uint8Array;
      let decided = false;
      for (let i = 0; i < width; i++) {
        const value = this.renamedPlace(source[i] as number, index);
        if (!decided) {
          const best = smallest[i] as number;
          if (value > best) break;
          decided = value < best;
        }
        smallest[i] = value;
      }
    }
    return smallest;
  }

  private renamedPlace(place: number, index: number): number {
    const value = this.row[place] as number;
    if (value === 0 || place === this.leftAt) return value;
    if (place < this.count) return this.locals.rename(value, index);
    if (place < this.deathsAt) return this.queues.rename(value, index);
    const to = this.renamings[index] as Renaming;
    let renamed = 0;
    for (let i = 0; i < deathCount(value); i++) renamed += ((to[deadAt(value, i)] as number) + 1) * 8 ** i;
    return renamed;
  }

  /** The owner's tombstones of ids that nobody can mention. */
  private forget(): void {
    const { row } = this;
    const local = row[OWNER] as number;
    const { tombstones } = this.locals.facts[local] as Facts;
    if (tombstones === 0) return;
    const mentioned = this.mentioned(row);
    if ((tombstones & ~mentioned) !== 0) row[OWNER] = this.locals.forget(local, mentioned);
  }

  /** Messages of the fence that can do nothing, at the heads of queues from and to the owner. */
  private skipVoid(): void {
    if (!this.ordered || this.row[this.deathsAt] === 0) return;
    for (let user = 1; user < this.count; user++) {
      const local = this.row[user] as number;
      if (local !== 0) this.skip(this.channel(OWNER, user), (packet) => isVoidAtMember(packet, this.factsAt(user)));
      this.skip(this.channel(user, OWNER), (packet) => this.isVoidAtOwner(packet, this.factsAt(OWNER)));
    }
  }

  private skip(channel: number, isVoid: (packet: Packet) => boolean): void {
    for (;;) {
      const queue = this.row[channel] as number;
      if (queue === 0) return;
      const [head] = this.queues.contents[queue] as number[];
      if (!isVoid(this.queues.packets[head as number] as Packet)) return;
      this.row[channel] = this.queues.without(queue, 0);
    }
  }

  /** An acknowledgement of a fence that is over: later ones have later epochs. */
  private isVoidAtOwner(packet: Packet, { state }: Facts): boolean {
    if (packet.kind !== 'fence-ack' || !this.rules.deathExtendsFence) return false;
    return state.fence.dead.length === 0 || state.fence.fenceEpoch !== packet.epoch;
  }

  private factsAt(member: MemberKey): Facts {
    return this.locals.facts[this.row[member] as number] as Facts;
  }

  /** The members once these died. */
  private membersAfter(deaths: number): MemberKey[] {
    const dead = Array.from({ length: deathCount(deaths) }, (_, i) => deadAt(deaths, i));
    return Array.from({ length: this.count }, (_, member) => member).filter((member) => !dead.includes(member));
  }

  private sourcesOf(to: Renaming): Uint8Array {
    const sources = Uint8Array.from({ length: this.width }, (_, place) => place);
    for (let i = 0; i < this.count; i++) {
      sources[to[i] as MemberKey] = i;
      for (let j = 0; j < this.count; j++)
        if (i !== j) sources[this.channel(to[i] as MemberKey, to[j] as MemberKey)] = this.channel(i, j);
    }
    return sources;
  }
}

/** What is left of the bounds, and three facts, in one number. */
export const LEFT = {
  freed: 1,
  created: 2,
  ownerHandle: 4,
  forks: (n: number): number => n << 4,
  crashes: (n: number): number => n << 8,
  duplicates: (n: number): number => n << 12,
  losses: (n: number): number => n << 16,
  forksOf: (left: number): number => (left >>> 4) & 15,
  crashesOf: (left: number): number => (left >>> 8) & 15,
  duplicatesOf: (left: number): number => (left >>> 12) & 15,
  lossesOf: (left: number): number => (left >>> 16) & 15,
} as const;

/** The release of what the dead held, at somebody who knows of these deaths and has no child there, nor can get one. */
function isVoidAtMember(packet: Packet, { state }: Facts): boolean {
  if (packet.kind !== 'fence-done') return false;
  return packet.dead.every(
    (member) =>
      state.dead.some(([dead]) => dead === member) && state.user.children.every((child) => child.at !== member),
  );
}

function deliver(from: MemberKey, packet: Packet): Act {
  return (worker) => {
    switch (packet.kind) {
      case 'create':
        return worker.createArrived(from, packet) === undefined;
      case 'created': {
        const fork = worker.users.get(packet.fork);
        if (fork !== undefined) worker.users.created(fork);
        return false;
      }
      case 'fork':
        return worker.forkArrived(from, packet).kind === 'owned';
      default:
        worker.control(from, packet);
        return false;
    }
  };
}

/** What a delivery says about the object: it exists now, or its owner has a handle again. */
function noted(packet: Packet, { yes }: Outcome): number {
  if (!yes) return 0;
  return packet.kind === 'create' ? LEFT.created : LEFT.ownerHandle;
}

function event(kind: number, member: MemberKey, number: number, fork: GlobalId = { member: 0, local: 0 }): number {
  return kind + 8 * (member + 4 * (fork.member + 4 * (fork.local + 8 * number)));
}

function heldBy(worker: ProtocolWorker<true>, fork: GlobalId): UserFork {
  const known = worker.users.get(fork);
  if (known === undefined) throw new Error(`no fork ${idText(fork)} here`);
  return known;
}

function isControl(packet: Packet): boolean {
  return packet.kind !== 'create' && packet.kind !== 'created' && packet.kind !== 'fork';
}

function deathCount(deaths: number): number {
  let count = 0;
  for (let rest = deaths; rest > 0; rest >>>= 3) count++;
  return count;
}

/** The member that the view of epoch `index + 2` lost. */
function deadAt(deaths: number, index: number): MemberKey {
  return ((deaths >>> (3 * index)) & 7) - 1;
}

/** All ways to rename the members from `firstFree` on among themselves; the first changes nothing. */
function allRenamings(count: number, firstFree: MemberKey): readonly Renaming[] {
  const fixed = Array.from({ length: firstFree }, (_, member) => member);
  const free = Array.from({ length: count - firstFree }, (_, i) => firstFree + i);
  return permutations(free).map((order) => [...fixed, ...order]);
}

function permutations(items: readonly number[]): number[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) => permutations(items.filter((_, j) => j !== i)).map((rest) => [item, ...rest]));
}

function describePacket(packet: Packet): string {
  if ('fork' in packet) return `${packet.kind} ${formatId(packet.fork)}`;
  if (packet.kind === 'user-delete') return `${packet.kind} ${packet.forks.map(formatId).join()}`;
  return 'epoch' in packet ? `${packet.kind} ${packet.epoch}` : packet.kind;
}

export function nameOf(member: MemberKey): string {
  return member === OWNER ? 'owner' : `user ${member}`;
}

function formatId({ member, local }: GlobalId): string {
  return `${member === OWNER ? 'o' : member}.${local}`;
}
