/** @file The RRef protocol as a model for the explorer: the production tables of an owner and its users, and a network that may do anything. */
import type { Model, Step } from '@backwire/testing';
import type { GlobalId, Site } from '../src/protocol/ids.ts';
import type { Carried, Control } from '../src/protocol/messages.ts';
import { ALL_RULES, type Rules } from '../src/protocol/rules.ts';
import type { UserFork } from '../src/protocol/user-table.ts';
import { ProtocolWorker, type WorkerState } from '../src/protocol/worker.ts';
import { encodeWorld } from './encoding.ts';
import { findFault } from './oracle.ts';

/** What the world of one exploration contains. */
export interface Bounds {
  /** Workers besides the owner. */
  readonly users: number;
  /** How often a handle may be shared in one run. */
  readonly forks: number;
  /** How many users may die, at any time. @default 0 */
  readonly crashes?: number;
  /** Who makes the object: its owner, or user 1 by a remote call whose creation may time out or never be sent. @default 'owner' */
  readonly creator?: 'owner' | 'user';
  /** Whether messages of a pair arrive in order (as sessions promise) or in any order. @default 'fifo' */
  readonly network?: 'fifo' | 'any order';
  /** How many control messages may arrive twice. @default 0 */
  readonly duplicates?: number;
  /** How many messages that carry handles may fail to be sent. @default 0 */
  readonly losses?: number;
  /** @default all of them */
  readonly rules?: Partial<Rules>;
}

/** A message under way. */
export type Packet = Carried | Control | { readonly kind: 'created'; readonly fork: GlobalId };

/** A state: plain data, never changed; a step shares what it leaves alone. */
export interface World {
  /** By site number; `undefined` = crashed. Site 0 is the owner. */
  readonly workers: readonly (WorkerState<true> | undefined)[];
  /** From `i` to `j` at `i * workers.length + j`. */
  readonly channels: readonly (readonly Packet[])[];
  /** Who died, in the order in which views say so. */
  readonly deaths: readonly Site[];
  /** The epoch that each worker has seen. */
  readonly epochs: readonly number[];
  /** Whether the owner's program still has a handle of its own. */
  readonly ownerHandle: boolean;
  /** Whether the creating call reached the owner. */
  readonly created: boolean;
  /** Whether the owner let go of the value (and did not share its own handle again since). */
  readonly freed: boolean;
  readonly forksLeft: number;
  readonly crashesLeft: number;
  readonly duplicatesLeft: number;
  readonly lossesLeft: number;
}

export const OWNER = 0;
const OBJECT_OF_OWNER: GlobalId = { site: OWNER, local: 0 };
const OBJECT_OF_USER: GlobalId = { site: 1, local: 0 };
const TIMED_OUT = { code: 'deadline-exceeded', text: 'timed out' };

/** One run of the production code of one worker, recording its effects. */
class Turn {
  readonly worker: ProtocolWorker<true>;
  readonly sent: { to: Site; packet: Packet }[] = [];
  freed = false;

  constructor(self: Site, state: WorkerState<true> | undefined, rules: Rules) {
    const port = {
      send: (to: Site, packet: Control) => void this.sent.push({ to, packet }),
      settled: () => undefined,
      dropped: () => undefined,
      freed: () => void (this.freed = true),
      failed: () => undefined,
    };
    this.worker = new ProtocolWorker<true>(self, port, state === undefined ? { rules } : { rules, state });
  }
}

/** The model of a world within `bounds`. */
export function rrefModel(bounds: Bounds): Model<World> {
  const maker = new WorldMaker(bounds);
  return {
    name: describe(bounds),
    initial: [maker.initial()],
    steps: (world) => maker.steps(world),
    encode: (world) => encodeWorld(world, bounds.creator === 'user' ? 2 : 1),
    invariant: findFault,
  };
}

/** One line that names a world. */
export function describe(bounds: Bounds): string {
  const {
    users,
    forks,
    crashes = 0,
    creator = 'owner',
    network = 'fifo',
    duplicates = 0,
    losses = 0,
    rules = {},
  } = bounds;
  const off = Object.entries(rules).flatMap(([rule, on]) => (on ? [] : [rule]));
  const extra = [
    crashes > 0 ? `${crashes} crash${crashes > 1 ? 'es' : ''}` : '',
    creator === 'user' ? 'made by a user' : '',
    network === 'fifo' ? '' : network,
    duplicates > 0 ? `${duplicates} duplicate` : '',
    losses > 0 ? `${losses} unsent` : '',
    ...off.map((rule) => `without ${rule}`),
  ].filter((part) => part !== '');
  return [`owner + ${users} users, ${forks} forks`, ...extra].join(', ');
}

class WorldMaker {
  private readonly bounds: Bounds;
  private readonly rules: Rules;
  private readonly count: number;

  constructor(bounds: Bounds) {
    this.bounds = bounds;
    this.rules = { ...ALL_RULES, ...bounds.rules };
    this.count = bounds.users + 1;
  }

  initial(): World {
    const byUser = this.bounds.creator === 'user';
    const workers = Array.from({ length: this.count }, (_, site) => {
      const { worker } = new Turn(site, undefined, this.rules);
      worker.viewChanged(1, this.membersAt([]), []);
      if (site === OWNER && !byUser) worker.drawId();
      if (site === OBJECT_OF_USER.site && byUser) worker.create(OWNER);
      return worker.snapshot();
    });
    const channels: Packet[][] = Array.from({ length: this.count ** 2 }, () => []);
    if (byUser)
      channels[this.channel(1, OWNER)]?.push({ kind: 'create', rref: OBJECT_OF_USER, fork: { site: 1, local: 1 } });
    return {
      workers,
      channels,
      deaths: [],
      epochs: workers.map(() => 1),
      ownerHandle: !byUser,
      created: !byUser,
      freed: false,
      forksLeft: this.bounds.forks,
      crashesLeft: this.bounds.crashes ?? 0,
      duplicatesLeft: this.bounds.duplicates ?? 0,
      lossesLeft: this.bounds.losses ?? 0,
    };
  }

  *steps(world: World): Iterable<Step<World>> {
    for (let at = 0; at < this.count; at++) {
      const state = world.workers[at];
      if (state === undefined) continue;
      yield* this.programSteps(world, at, state);
      yield* this.deliveries(world, at);
      const next = (world.epochs[at] ?? 0) + 1;
      if (next <= world.deaths.length + 1)
        yield { label: `${name(at)} sees view ${next}`, next: () => this.seeView(world, at, next) };
    }
    if (world.crashesLeft > 0) {
      for (let at = 1; at < this.count; at++) {
        if (world.workers[at] !== undefined) yield { label: `${name(at)} dies`, next: () => this.crash(world, at) };
      }
    }
  }

  /** What the program of a worker may do with its handles, and the owner with a creating call. */
  private *programSteps(world: World, at: Site, state: WorkerState<true>): Iterable<Step<World>> {
    const targets = Array.from({ length: this.count }, (_, to) => to).filter(
      (to) => to !== at && !this.knowsDead(world, at, to),
    );
    if (at === OWNER) {
      if (world.ownerHandle) {
        if (world.forksLeft > 0) {
          for (const to of targets)
            yield { label: `owner shares with ${name(to)}`, next: () => this.ownerShares(world, to) };
        }
        yield { label: 'owner drops its own handle', next: () => ({ ...world, ownerHandle: false }) };
      }
      const entry = state.owner.entries.find((known) => known.phase === 'created');
      if (entry !== undefined)
        yield { label: 'owner runs the creating call', next: () => this.runCreation(world, entry.id) };
      return;
    }
    for (const fork of state.user.forks) {
      const usable = !fork.released && fork.failure === undefined;
      if (usable && world.forksLeft > 0) {
        for (const to of targets)
          yield {
            label: `${name(at)} shares ${id(fork.id)} with ${name(to)}`,
            next: () => this.userShares(world, at, fork.id, to),
          };
      }
      if (!fork.released)
        yield {
          label: `${name(at)} drops ${id(fork.id)}`,
          next: () => this.turn(world, at, ({ worker }) => worker.users.release(held(worker, fork.id))),
        };
      if (fork.phase === 'creating') {
        yield {
          label: `${name(at)} gives up creating`,
          next: () => this.turn(world, at, ({ worker }) => worker.users.createFailed(held(worker, fork.id), TIMED_OUT)),
        };
      }
    }
  }

  private *deliveries(world: World, to: Site): Iterable<Step<World>> {
    for (let from = 0; from < this.count; from++) {
      const queue = world.channels[this.channel(from, to)] ?? [];
      const reach = this.bounds.network === 'any order' ? queue.length : Math.min(1, queue.length);
      for (let i = 0; i < reach; i++) {
        const packet = queue[i] as Packet;
        const what = `${describePacket(packet)} ${name(from)} -> ${name(to)}`;
        yield { label: what, next: () => this.deliver(this.without(world, from, to, i), from, to, packet) };
        if (world.duplicatesLeft > 0 && isControl(packet)) {
          yield {
            label: `${what}, and it will come again`,
            next: () => this.deliver({ ...world, duplicatesLeft: world.duplicatesLeft - 1 }, from, to, packet),
          };
        }
      }
      if (world.lossesLeft > 0 && world.workers[from] !== undefined) yield* this.losses(world, from, to, queue);
    }
  }

  /** A message that carries a handle or a creation cannot be sent after all: its sender is told. */
  private *losses(world: World, from: Site, to: Site, queue: readonly Packet[]): Iterable<Step<World>> {
    for (const [i, packet] of queue.entries()) {
      if (packet.kind !== 'fork' && packet.kind !== 'create') continue;
      yield {
        label: `${describePacket(packet)} ${name(from)} -> ${name(to)} is never sent`,
        next: () =>
          this.turn({ ...this.without(world, from, to, i), lossesLeft: world.lossesLeft - 1 }, from, ({ worker }) => {
            worker.unshare(packet);
            const fork = packet.kind === 'create' ? worker.users.get(packet.fork) : undefined;
            if (fork !== undefined) worker.users.createFailed(fork, TIMED_OUT);
          }),
      };
    }
  }

  private ownerShares(world: World, to: Site): World {
    const rref = this.bounds.creator === 'user' ? OBJECT_OF_USER : OBJECT_OF_OWNER;
    const next = this.turn(world, OWNER, (turn) =>
      turn.sent.push({ to, packet: turn.worker.shareOwned(rref, true, to) }),
    );
    return { ...next, forksLeft: world.forksLeft - 1, freed: false };
  }

  private userShares(world: World, at: Site, fork: GlobalId, to: Site): World {
    const next = this.turn(world, at, (turn) =>
      turn.sent.push({ to, packet: turn.worker.shareHeld(held(turn.worker, fork), to) }),
    );
    return { ...next, forksLeft: world.forksLeft - 1 };
  }

  private runCreation(world: World, rref: GlobalId): World {
    return this.turn(world, OWNER, (turn) => {
      const entry = turn.worker.owners.start(rref);
      if (entry === undefined) return;
      turn.worker.owners.settle(entry);
      turn.sent.push({ to: rref.site, packet: { kind: 'created', fork: { site: rref.site, local: 1 } } });
    });
  }

  private deliver(world: World, from: Site, to: Site, packet: Packet): World {
    let { ownerHandle, created } = world;
    const next = this.turn(world, to, ({ worker }) => {
      switch (packet.kind) {
        case 'create':
          if (worker.createArrived(from, packet) === undefined) created = true;
          return;
        case 'created': {
          const fork = worker.users.get(packet.fork);
          if (fork !== undefined) worker.users.created(fork);
          return;
        }
        case 'fork':
          if (worker.forkArrived(from, packet).kind === 'owned') ownerHandle = true;
          return;
        default:
          worker.control(from, packet);
      }
    });
    return { ...next, ownerHandle, created };
  }

  private crash(world: World, at: Site): World {
    return {
      ...world,
      workers: world.workers.map((state, i) => (i === at ? undefined : state)),
      channels: world.channels.map((queue, i) => (i % this.count === at ? [] : queue)),
      deaths: [...world.deaths, at],
      crashesLeft: world.crashesLeft - 1,
    };
  }

  private seeView(world: World, at: Site, epoch: number): World {
    const died = world.deaths[epoch - 2] as Site;
    const members = this.membersAt(world.deaths.slice(0, epoch - 1));
    const cut = {
      ...world,
      channels: world.channels.map((queue, i) => (i === this.channel(died, at) ? [] : queue)),
      epochs: world.epochs.map((seen, i) => (i === at ? epoch : seen)),
    };
    return this.turn(cut, at, ({ worker }) => worker.viewChanged(epoch, members, [died]));
  }

  /** Runs the production code of one worker and takes up what it did. */
  private turn(world: World, at: Site, act: (turn: Turn) => void): World {
    const turn = new Turn(at, world.workers[at], this.rules);
    act(turn);
    const channels = turn.sent.length === 0 ? world.channels : [...world.channels];
    for (const { to, packet } of turn.sent) {
      if (world.workers[to] !== undefined)
        (channels as Packet[][])[this.channel(at, to)] = [...(channels[this.channel(at, to)] ?? []), packet];
    }
    const state = turn.worker.snapshot();
    return {
      ...world,
      workers: world.workers.map((old, i) => (i === at ? state : old)),
      channels,
      freed: world.freed || (turn.freed && world.created),
    };
  }

  private without(world: World, from: Site, to: Site, index: number): World {
    const channel = this.channel(from, to);
    return {
      ...world,
      channels: world.channels.map((queue, i) => (i === channel ? queue.filter((_, j) => j !== index) : queue)),
    };
  }

  private knowsDead(world: World, at: Site, other: Site): boolean {
    return world.deaths.slice(0, (world.epochs[at] ?? 1) - 1).includes(other);
  }

  private membersAt(deaths: readonly Site[]): Site[] {
    return Array.from({ length: this.count }, (_, site) => site).filter((site) => !deaths.includes(site));
  }

  private channel(from: Site, to: Site): number {
    return from * this.count + to;
  }
}

function held(worker: ProtocolWorker<true>, fork: GlobalId): UserFork {
  const known = worker.users.get(fork);
  if (known === undefined) throw new Error(`no fork ${id(fork)} here`);
  return known;
}

function isControl(packet: Packet): packet is Control {
  return packet.kind !== 'create' && packet.kind !== 'created' && packet.kind !== 'fork';
}

function describePacket(packet: Packet): string {
  if ('fork' in packet) return `${packet.kind} ${id(packet.fork)}`;
  if (packet.kind === 'user-delete') return `${packet.kind} ${packet.forks.map(id).join()}`;
  return 'epoch' in packet ? `${packet.kind} ${packet.epoch}` : packet.kind;
}

function name(site: Site): string {
  return site === OWNER ? 'owner' : `user ${site}`;
}

function id({ site, local }: GlobalId): string {
  return `${site === OWNER ? 'o' : site}.${local}`;
}
