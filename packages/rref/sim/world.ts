/** @file A simulated group running the RRef protocol: members come and go, messages take their time, programs do as they are told. */
import type { Simulation } from '@backwire/testing';
import { siteOf, workerOf, type GlobalId, type Site } from '../src/protocol/ids.ts';
import type { Carried, Control, Failure } from '../src/protocol/messages.ts';
import type { OwnerEntry } from '../src/protocol/owner-table.ts';
import type { Rules } from '../src/protocol/rules.ts';
import type { UserFork } from '../src/protocol/user-table.ts';
import { ProtocolWorker } from '../src/protocol/worker.ts';

/** What a program does; numbers choose among what there is at that moment. */
export interface Operation {
  readonly at: number;
  readonly node: number;
  readonly kind: 'make' | 'remote' | 'share' | 'drop' | 'give-up';
  readonly which: number;
  readonly to: number;
}

type Packet = Carried | Control | { readonly kind: 'created'; readonly fork: GlobalId };
type Handle = { readonly rref: GlobalId; readonly owned: true } | { readonly rref: GlobalId; readonly fork: UserFork };

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

interface View {
  readonly epoch: number;
  readonly members: readonly Site[];
  readonly died: readonly Site[];
}

/** Messages of one ordered pair: exactly once and in order, as sessions deliver them, for as long as both live. */
interface Channel {
  readonly queue: Packet[];
  pumping: boolean;
}

const RETRY_MS = 5;
const GIVEN_UP: Failure = { code: 'deadline-exceeded', text: 'given up' };

/** Everything that outlives a worker: who is a member, and what is under way. */
export class SimGroup {
  readonly simulation: Simulation;
  readonly pace: Pace;
  readonly rules: Rules;
  readonly workers = new Map<Site, SimWorker>();
  readonly views: View[] = [{ epoch: 1, members: [], died: [] }];
  readonly channels = new Map<Site, Map<Site, Channel>>();
  /** RRefs whose value existed at some time. */
  readonly existed = new Set<string>();
  private readonly names: readonly string[];
  private members: readonly Site[] = [];
  private readonly running = new Map<string, Site>();
  private readonly draws: Simulation['random'];

  constructor(simulation: Simulation, names: readonly string[], pace: Pace, rules: Rules) {
    this.simulation = simulation;
    this.names = names;
    this.pace = pace;
    this.rules = rules;
    this.draws = simulation.random.split('group');
  }

  get view(): View {
    return this.views.at(-1) as View;
  }

  nameOf(site: Site): string {
    return this.names[workerOf(site)] ?? '';
  }

  isUp(site: Site): boolean {
    return this.workers.has(site);
  }

  /** Called after every event: a node that went down is noticed some time later. */
  watch(): void {
    for (const [name, site] of [...this.running]) {
      if (this.simulation.node(name).state !== 'down') continue;
      this.running.delete(name);
      this.workers.delete(site);
      for (const row of this.channels.values()) row.delete(site);
      this.later(this.pace.detectMs, `${name} is missed`, () =>
        this.change((members) => members.filter((member) => member !== site)),
      );
    }
  }

  /** A node starts: it becomes a member once its former life is none any more. */
  join(worker: SimWorker, name: string): void {
    this.workers.set(worker.site, worker);
    this.running.set(name, worker.site);
    const enter = (): void => {
      if (!this.isUp(worker.site)) return;
      const before = this.members.some((member) => workerOf(member) === workerOf(worker.site));
      if (before) this.simulation.clock.after(RETRY_MS, `${name} waits to join`, enter);
      else this.change((members) => [...members, worker.site]);
    };
    enter();
  }

  send(from: Site, to: Site, packet: Packet): void {
    if (!this.isUp(to)) return;
    let row = this.channels.get(from);
    if (row === undefined) this.channels.set(from, (row = new Map<Site, Channel>()));
    let channel = row.get(to);
    if (channel === undefined) row.set(to, (channel = { queue: [], pumping: false }));
    channel.queue.push(packet);
    this.pump(from, to, channel);
  }

  /** The session with somebody dead is cut: nothing of it is delivered any more. */
  cut(from: Site, to: Site): void {
    this.channels.get(from)?.delete(to);
  }

  /** Messages under way that will be delivered. */
  *underWay(): IterableIterator<{ from: Site; to: Site; packet: Packet }> {
    for (const [from, row] of this.channels) {
      for (const [to, { queue }] of row) for (const packet of queue) yield { from, to, packet };
    }
  }

  later(most: number, what: string, action: () => void): void {
    this.simulation.clock.after(this.random(most), what, action);
  }

  random(most: number): number {
    return this.draws.float() * most;
  }

  private change(to: (members: readonly Site[]) => readonly Site[]): void {
    const before = this.members;
    this.members = to(before);
    const died = before.filter((member) => !this.members.includes(member));
    this.views.push({ epoch: this.view.epoch + 1, members: this.members, died });
    for (const worker of this.workers.values()) worker.hearOfView();
  }

  private pump(from: Site, to: Site, channel: Channel): void {
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
        if (packet !== undefined) this.workers.get(to)?.receive(from, packet);
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

/** One life of a worker: the production protocol, and a program with handles. */
export class SimWorker {
  readonly site: Site;
  readonly protocol: ProtocolWorker<string>;
  handles: Handle[] = [];
  /** Once set, the program gives back whatever it has and gets. */
  leaving = false;
  private readonly group: SimGroup;
  private epoch: number;
  private hearing = false;
  private readonly kept = new Map<Site, Control[]>();

  constructor(group: SimGroup, worker: number, incarnation: number) {
    this.group = group;
    this.site = siteOf(worker, incarnation);
    this.epoch = 0;
    this.protocol = new ProtocolWorker<string>(
      this.site,
      {
        send: (to, message) => this.send(to, message),
        settled: () => undefined,
        dropped: () => undefined,
        freed: (entry) => this.freed(entry),
        failed: () => undefined,
      },
      { rules: group.rules },
    );
  }

  /** Whether it has seen the latest view. */
  get upToDate(): boolean {
    return this.epoch === this.group.view.epoch;
  }

  /** Whether nothing is left in its tables. */
  get clean(): boolean {
    const { owners, users, fence } = this.protocol;
    return (
      owners.size === 0 &&
      owners.forkCount === 0 &&
      users.size === 0 &&
      users.pendingChildren === 0 &&
      !fence.open &&
      this.handles.length === 0
    );
  }

  describe(): string {
    const { owners, users, fence } = this.protocol;
    return `${this.group.nameOf(this.site)}: ${owners.size} owned, ${owners.forkCount} forks, ${users.size} held, ${users.pendingChildren} children, fence ${fence.open ? 'open' : 'closed'}, ${this.upToDate ? '' : 'behind'}`;
  }

  play({ kind, which, to }: Operation): void {
    if (this.epoch === 0) return;
    switch (kind) {
      case 'make':
        return this.add({ rref: this.protocol.drawId(), owned: true });
      case 'remote':
        return this.remote(this.member(to));
      case 'share':
        return this.share(this.handles[which % this.handles.length], this.member(to));
      case 'drop':
        return this.drop(which % Math.max(1, this.handles.length));
      case 'give-up': {
        const creating = this.handles.flatMap((handle) =>
          'fork' in handle && handle.fork.phase === 'creating' ? [handle.fork] : [],
        );
        const fork = creating[which % Math.max(1, creating.length)];
        if (fork !== undefined) this.protocol.users.createFailed(fork, GIVEN_UP);
      }
    }
  }

  leave(): void {
    this.leaving = true;
    while (this.handles.length > 0) this.drop(0);
  }

  receive(from: Site, packet: Packet): void {
    switch (packet.kind) {
      case 'create':
        if (this.protocol.createArrived(from, packet) === undefined) this.runLater(packet.rref, packet.fork);
        return;
      case 'created': {
        const fork = this.protocol.users.get(packet.fork);
        if (fork !== undefined) this.protocol.users.created(fork);
        return;
      }
      case 'fork': {
        const arrival = this.protocol.forkArrived(from, packet);
        if (arrival.kind === 'held') this.add({ rref: packet.rref, fork: arrival.fork });
        else if (arrival.kind === 'owned') this.add({ rref: packet.rref, owned: true });
        return;
      }
      default:
        this.protocol.control(from, packet);
    }
  }

  /** Views are seen one after the other, each some time after it was made. */
  hearOfView(): void {
    if (this.hearing || this.upToDate) return;
    this.hearing = true;
    this.group.later(this.group.pace.viewMs, `${this.group.nameOf(this.site)} sees a view`, () => {
      this.hearing = false;
      if (!this.group.isUp(this.site)) return;
      this.see();
      this.hearOfView();
    });
  }

  private see(): void {
    // A new member begins with the first view that has it; what was before is none of its business.
    const next = this.group.views.find(
      ({ epoch, members }) => epoch > this.epoch && (this.epoch > 0 || members.includes(this.site)),
    );
    if (next === undefined) return;
    this.epoch = next.epoch;
    for (const site of next.died) {
      this.group.cut(site, this.site);
      this.kept.delete(site);
    }
    this.protocol.viewChanged(next.epoch, next.members, next.died);
    for (const site of next.members) {
      const messages = this.kept.get(site);
      this.kept.delete(site);
      for (const message of messages ?? []) this.send(site, message);
    }
  }

  private members(): readonly Site[] {
    return this.group.views.find(({ epoch }) => epoch === this.epoch)?.members ?? [];
  }

  private member(which: number): Site {
    const members = this.members();
    return members[which % members.length] ?? this.site;
  }

  private send(to: Site, message: Control): void {
    if (this.members().includes(to)) {
      this.group.send(this.site, to, message);
      return;
    }
    this.kept.set(to, [...(this.kept.get(to) ?? []), message]);
  }

  private remote(owner: Site): void {
    if (owner === this.site) return this.remoteToSelf();
    const { fork, carried } = this.protocol.create(owner);
    this.add({ rref: fork.rref, fork });
    if (this.group.random(1) < this.group.pace.loss) this.protocol.users.createFailed(fork, GIVEN_UP);
    else this.group.send(this.site, owner, carried);
  }

  private remoteToSelf(): void {
    const entry = this.protocol.createOwn('value');
    const rref = { site: entry.site, local: entry.local };
    this.add({ rref, owned: true });
    this.group.later(this.group.pace.runMs, `${this.group.nameOf(this.site)} runs its own creation`, () => {
      if (!this.group.isUp(this.site)) return;
      const started = this.protocol.owners.start(rref);
      if (started !== undefined) this.protocol.owners.settle(started);
      this.protocol.createOwnDone(entry);
    });
  }

  private runLater(rref: GlobalId, fork: GlobalId): void {
    this.group.existed.add(`${rref.site}.${rref.local}`);
    this.group.later(this.group.pace.runMs, `${this.group.nameOf(this.site)} runs a creation`, () => {
      const entry = this.group.isUp(this.site) ? this.protocol.owners.start(rref) : undefined;
      if (entry === undefined) return;
      this.group.later(this.group.pace.runMs, `${this.group.nameOf(this.site)} ends a creation`, () => {
        if (!this.group.isUp(this.site)) return;
        this.protocol.owners.settle(entry);
        if (!this.protocol.isDead(rref.site)) this.group.send(this.site, rref.site, { kind: 'created', fork });
      });
    });
  }

  private share(handle: Handle | undefined, to: Site): void {
    if (handle === undefined || this.protocol.isDead(to)) return;
    if ('fork' in handle && (handle.fork.failure !== undefined || handle.fork.phase === 'gone')) return;
    if ('owned' in handle) this.group.existed.add(`${handle.rref.site}.${handle.rref.local}`);
    const carried =
      'owned' in handle ? this.protocol.shareOwned(handle.rref, 'value', to) : this.protocol.shareHeld(handle.fork, to);
    if (this.group.random(1) < this.group.pace.loss) this.protocol.unshare(carried);
    else this.group.send(this.site, to, carried);
  }

  private add(handle: Handle): void {
    this.handles.push(handle);
    if (this.leaving) this.drop(this.handles.length - 1);
  }

  private drop(index: number): void {
    const [handle] = this.handles.splice(index, 1);
    if (handle !== undefined && 'fork' in handle && handle.fork.phase !== 'gone')
      this.protocol.users.release(handle.fork);
  }

  private freed(entry: OwnerEntry<string>): void {
    this.group.simulation.record(`${this.group.nameOf(this.site)} frees ${entry.site}.${entry.local}`);
    const holder = whoReaches(this.group, this, entry);
    if (holder !== undefined)
      this.group.simulation.fail('freed too early', `${entry.site}.${entry.local} while ${holder}`);
  }
}

/** Who can still reach an RRef that its owner lets go of; undefined when nobody can. */
function whoReaches(group: SimGroup, owner: SimWorker, rref: GlobalId): string | undefined {
  if (!group.existed.has(`${rref.site}.${rref.local}`)) return undefined;
  for (const worker of group.workers.values()) {
    if (worker === owner) continue;
    for (const fork of worker.protocol.users.all()) {
      const usable = !fork.released && fork.failure === undefined;
      if (usable && fork.owner === owner.site && same(fork.rref, rref)) return `${group.nameOf(worker.site)} holds it`;
    }
  }
  for (const { from, to, packet } of group.underWay()) {
    if (packet.kind === 'fork' && packet.owner === owner.site && same(packet.rref, rref)) {
      return `a handle is on its way from ${group.nameOf(from)} to ${group.nameOf(to)}`;
    }
  }
  return undefined;
}

function same(a: GlobalId, b: GlobalId): boolean {
  return a.site === b.site && a.local === b.local;
}
