/** @file The world of a simulated group: who is a member, what is under way, and the rules that every event has to keep. */
import type { Simulation } from '@backwire/testing';
import { workerOf, type GlobalId, type MemberKey } from '../src/protocol/ids.ts';
import type { Carried, Control } from '../src/protocol/messages.ts';
import type { Rules } from '../src/protocol/rules.ts';
import { Ledger, type Seen, type SeenGroup } from './ledger.ts';

/** A worker, as the group deals with it; see `SimWorker`. */
export interface Participant extends Seen {
  hearOfView(): void;
  receive(from: MemberKey, packet: Packet): void;
}

/** A message under way; a call uses an RRef by a fork of its sender's. */
export type Packet =
  | Carried
  | Control
  | { readonly kind: 'created'; readonly fork: GlobalId }
  | { readonly kind: 'call' | 'answer'; readonly call: number; readonly rref: GlobalId; readonly fork: GlobalId };

/** How the simulated group behaves; times are virtual milliseconds. */
export interface Pace {
  /** Longest time from a crash to the view without the worker. */
  readonly detectMs: number;
  /** Longest time until a member sees a new view. */
  readonly viewMs: number;
  /** Longest time a creating function runs. */
  readonly runMs: number;
  /** Chance that a message with handles in it cannot be sent after all. */
  readonly loss: number;
}

/** What simulated workers keep to: the rules of the protocol, and that of calls which never start. */
export type SimRules = Rules & {
  /** Whether handles in the arguments of a function that never starts are let go; without, it shows that they have to be. */
  readonly givesBackUnstarted: boolean;
};

interface View {
  readonly epoch: number;
  readonly members: readonly MemberKey[];
  readonly set: ReadonlySet<MemberKey>;
  readonly died: readonly MemberKey[];
}

/** Messages of one ordered pair: exactly once and in order, as sessions deliver them, for as long as both live. */
interface Channel {
  readonly queue: Packet[];
  pumping: boolean;
}

const RETRY_MS = 5;

/** Everything that outlives a worker: who is a member, and what is under way. */
export class SimGroup<W extends Participant = Participant> implements SeenGroup {
  readonly simulation: Simulation;
  readonly pace: Pace;
  readonly rules: SimRules;
  readonly workers = new Map<MemberKey, W>();
  readonly views: View[] = [{ epoch: 1, members: [], set: new Set(), died: [] }];
  readonly channels = new Map<MemberKey, Map<MemberKey, Channel>>();
  readonly ledger: Ledger;
  private readonly names: readonly string[];
  private members: readonly MemberKey[] = [];
  private readonly running = new Map<string, MemberKey>();
  /** Virtual times at which nodes crash, the next one last. */
  private readonly crashes: number[];
  /** Messages under way that carry handles. */
  private readonly handles = new Map<Packet, { from: MemberKey; to: MemberKey; packet: Carried & { kind: 'fork' } }>();
  private messages = 0;
  private readonly draws: Simulation['random'];

  constructor(
    simulation: Simulation,
    names: readonly string[],
    pace: Pace,
    rules: SimRules,
    crashes: readonly number[],
  ) {
    this.simulation = simulation;
    this.names = names;
    this.pace = pace;
    this.rules = rules;
    this.draws = simulation.random.split('group');
    this.ledger = new Ledger(this);
    this.crashes = [...crashes].sort((a, b) => b - a);
  }

  get view(): View {
    return this.views.at(-1) as View;
  }

  nameOf(member: MemberKey): string {
    return this.names[workerOf(member)] ?? '';
  }

  isUp(member: MemberKey): boolean {
    return this.workers.has(member);
  }

  /** Called after every event: a node that went down is noticed some time later. */
  watch(): void {
    const next = this.crashes.at(-1);
    if (next === undefined || this.simulation.clock.now < next) return;
    // Others may crash in the same instant, which is not over yet.
    while ((this.crashes.at(-1) ?? Infinity) < this.simulation.clock.now) this.crashes.pop();
    for (const [name, member] of this.running) {
      if (this.simulation.node(name).state !== 'down') continue;
      this.running.delete(name);
      this.workers.delete(member);
      for (const from of this.channels.keys()) this.cut(from, member);
      this.later(this.pace.detectMs, `${name} is missed`, () =>
        this.change((members) => members.filter((other) => other !== member)),
      );
    }
  }

  /** A node starts: it becomes a member once its former life is none any more. */
  join(worker: W, name: string): void {
    this.workers.set(worker.member, worker);
    this.running.set(name, worker.member);
    const enter = (): void => {
      if (!this.isUp(worker.member)) return;
      const before = this.members.some((member) => workerOf(member) === workerOf(worker.member));
      if (before) this.simulation.clock.after(RETRY_MS, `${name} waits to join`, enter);
      else this.change((members) => [...members, worker.member]);
    };
    enter();
  }

  send(from: MemberKey, to: MemberKey, packet: Packet): void {
    if (!this.isUp(to)) return;
    let row = this.channels.get(from);
    if (row === undefined) this.channels.set(from, (row = new Map<MemberKey, Channel>()));
    let channel = row.get(to);
    if (channel === undefined) row.set(to, (channel = { queue: [], pumping: false }));
    channel.queue.push(packet);
    this.messages++;
    if (packet.kind === 'fork') this.handles.set(packet, { from, to, packet });
    this.pump(from, to, channel);
  }

  /** The session with somebody dead is cut: nothing of it is delivered any more. */
  cut(from: MemberKey, to: MemberKey): void {
    const row = this.channels.get(from);
    for (const packet of row?.get(to)?.queue ?? []) this.gone(packet);
    row?.delete(to);
  }

  /** Whether any message is under way. */
  get busy(): boolean {
    return this.messages > 0;
  }

  /** Handles under way that will be delivered. */
  handlesUnderWay(): Iterable<{ from: MemberKey; to: MemberKey; packet: Carried & { kind: 'fork' } }> {
    return this.handles.values();
  }

  fail(rule: string, detail: string): never {
    return this.simulation.fail(rule, detail);
  }

  later(most: number, what: string, action: () => void): void {
    this.simulation.clock.after(this.random(most), what, action);
  }

  random(most: number): number {
    return this.draws.float() * most;
  }

  private gone(packet: Packet): void {
    this.messages--;
    this.handles.delete(packet);
  }

  private change(to: (members: readonly MemberKey[]) => readonly MemberKey[]): void {
    const before = this.members;
    this.members = to(before);
    const died = before.filter((member) => !this.members.includes(member));
    this.views.push({ epoch: this.view.epoch + 1, members: this.members, set: new Set(this.members), died });
    for (const worker of this.workers.values()) worker.hearOfView();
  }

  private pump(from: MemberKey, to: MemberKey, channel: Channel): void {
    if (channel.pumping || channel.queue.length === 0) return;
    channel.pumping = true;
    const { network, clock } = this.simulation;
    const [sender, receiver] = [this.nameOf(from), this.nameOf(to)];
    const deliver = (): void => {
      if (this.channels.get(from)?.get(to) !== channel) return;
      if (network.blocked(sender, receiver)) {
        clock.after(RETRY_MS, `${sender} tries again to reach ${receiver}`, deliver);
        return;
      }
      network.arrive(receiver, () => {
        if (this.channels.get(from)?.get(to) !== channel) return;
        channel.pumping = false;
        const packet = channel.queue.shift();
        if (packet !== undefined) {
          this.gone(packet);
          this.workers.get(to)?.receive(from, packet);
        }
        this.pump(from, to, channel);
      });
    };
    clock.at(
      network.link(sender, receiver).arrival(),
      `${channel.queue[0]?.kind ?? ''} ${sender} to ${receiver}`,
      deliver,
    );
  }
}
