/** @file RRefs at work in one agent of a torch group: the protocol's tables joined to messages, promises and the collector. */
import { RpcError, type CallOptions, type To, type WorkerInfo } from '@backwire/rpc';
import { MAX_TIMER_MS, nameOf } from '@backwire/rpc/internal';
import type { RRef } from '@backwire/rref';
import {
  OwnedValue,
  ProtocolWorker,
  asElsewhere,
  errorOf,
  type Carried,
  type Control,
  type Failure,
  type GlobalId,
  type OwnerEntry,
  type RRefSpace,
  type UserFork,
  type HandleTarget,
} from '@backwire/rref/internal';
import { Tensor, type Named } from '@backwire/tensor';
import { targetOf } from '../calls/targets.ts';
import type { Reading, References, Values, Writing } from '../calls/values.ts';
import type { Body } from '../messages/commands.ts';
import { refuse } from '../pickle/refusal.ts';
import { RRefFork } from '../values/objects.ts';
import { acknowledged } from './acknowledgement.ts';
import { ControlSender } from './controls.ts';
import { Creations } from './creation.ts';
import { PYTHON_OBJECT, TENSOR, TorchRRef } from './handle.ts';
import { HandedOn } from './handed-on.ts';
import { globalId, torchId } from './ids.ts';
import { countsOf, leaksOf, listOf, waitsOf } from './inventory.ts';
import { HandleUses, type Lifetimes, type UsesHost } from './uses.ts';

export interface SessionHost extends UsesHost {
  readonly values: Values;
  lost(error: unknown, what: string): void;
}

/** One per agent. */
export class RRefs implements References, RRefSpace, Lifetimes {
  readonly worker: ProtocolWorker<OwnedValue>;
  closed = false;
  private readonly host: SessionHost;
  private readonly sender: ControlSender;
  private readonly creations: Creations;
  private readonly uses: HandleUses;
  private readonly handed = new HandedOn((fork) => {
    this.worker.unshare(fork);
    this.notify();
  });
  /** torch's types of values that are owned here, where they are not told by the value. */
  private readonly types = new WeakMap<OwnedValue, string>();
  private readonly settling = new Map<UserFork, (() => void)[]>();
  private readonly registry = new FinalizationRegistry<UserFork>((fork) => this.collected(fork));
  private refusal: Failure | undefined;
  private changed: (() => void)[] = [];

  constructor(host: SessionHost) {
    this.host = host;
    this.sender = new ControlSender({
      tell: (to, body) => this.tell(to, body),
      heard: (from, message) => {
        this.worker.control(from, message);
        this.notify();
      },
      lost: (error, what) => host.lost(error, what),
      idle: () => this.notify(),
    });
    this.worker = new ProtocolWorker<OwnedValue>(host.self.id, {
      send: (to, message) => this.send(to, message),
      settled: (fork) => this.settled(fork),
      dropped: (fork) => {
        this.sender.left(fork);
        this.notify();
      },
      freed: () => this.notify(),
      failed: (entry, failure) => this.valueOf(entry).reject(errorOf(failure, host.self)),
    });
    this.creations = new Creations(host, {
      worker: this.worker,
      adopt: (target, type) => this.adopt(target, type),
      refusedBy: (fork) => this.sender.refusedBy(fork),
    });
    this.uses = new HandleUses(host, this.creations, this);
  }

  get self(): WorkerInfo {
    return this.host.self;
  }

  // What programs ask for.

  remote(to: To, fn: Named, args: readonly unknown[], options: CallOptions): RRef<unknown> {
    this.throwIfClosed();
    return this.creations.createAt(() => this.host.find(to), targetOf(nameOf(fn)), args, options);
  }

  /** An RRef of a value that is here. Nothing is registered before it is shared. */
  own(value: unknown): RRef<unknown> {
    this.throwIfClosed();
    return this.adopt({ rref: this.worker.drawId(), owned: OwnedValue.of(value) }, typeOf(value));
  }

  /** As `own`, of a type of torch's that the value does not tell. */
  ownTyped(value: unknown, type: string): RRef<unknown> {
    const owned = OwnedValue.of(value);
    this.typed(owned, type);
    return this.adopt({ rref: this.worker.drawId(), owned }, type);
  }

  debugInfo(): Record<string, number> {
    return { ...countsOf(this.worker), num_pending_futures: this.settling.size };
  }

  list(): { id: string; owner: string; holders: string[]; type: string }[] {
    return listOf(this.worker, this.host.self.name, (id) => this.nameOf(id));
  }

  // Handles in messages.

  receive(fork: RRefFork, reading: Reading): object {
    const carried = { kind: 'fork', rref: globalId(fork.rref), owner: fork.owner, fork: globalId(fork.fork) } as const;
    const arrival = this.worker.forkArrived(reading.from.id, carried);
    if (arrival.kind === 'ignored') throw refuse('a handle on an RRef that has come before');
    if (arrival.kind === 'owned') {
      const { entry } = arrival;
      return this.adopt({ rref: { member: entry.member, local: entry.local }, owned: this.valueOf(entry) }, fork.type);
    }
    const handle = this.adopt({ rref: arrival.fork.rref, fork: arrival.fork }, fork.type);
    reading.handles.add(handle);
    // Functions wait until the owner knows of what they were given.
    if (arrival.fork.phase === 'pending') reading.pending.push(this.whenSettled(arrival.fork));
    return handle;
  }

  share(value: object, { to, undo, answered, failed }: Writing): RRefFork | undefined {
    if (!(value instanceof TorchRRef)) return undefined;
    const handle = value as TorchRRef<unknown>;
    if (handle.host !== this.uses) throw new TypeError('an RRef of another agent');
    const failure = handle.failure();
    if (failure !== undefined) throw asElsewhere(failure.error);
    handle.throwIfDeleted('send it');
    const { target } = handle;
    const carried: Carried & { kind: 'fork' } =
      'owned' in target
        ? this.worker.shareOwned(target.rref, target.owned, to.id)
        : this.worker.shareHeld(target.fork, to.id);
    undo.push(() => {
      this.handed.accepted(carried.fork);
      this.worker.unshare(carried);
    });
    // An owner that has answered holds its own value itself, or could not read the handle: then it never says that it has it.
    if (carried.owner === to.id) answered.push(() => this.worker.unshare(carried));
    else {
      this.handed.add(carried, to.id);
      failed.push(() => this.handed.doubt(carried));
    }
    const type = 'owned' in target ? this.typeOfOwned(target.owned, handle.torchType) : handle.torchType;
    return new RRefFork(carried.owner, torchId(carried.rref), torchId(carried.fork), this.self.id, type);
  }

  // What handles need.

  whenSettled(fork: UserFork): Promise<void> {
    if (fork.settled) return Promise.resolve();
    return new Promise((resolve) => {
      const known = this.settling.get(fork);
      if (known === undefined) this.settling.set(fork, [resolve]);
      else known.push(resolve);
    });
  }

  release(handle: object, fork: UserFork): void {
    this.registry.unregister(handle);
    if (this.closed) return;
    this.worker.users.release(fork);
    this.notify();
  }

  /** A worker is no member any more, and holds nothing. */
  forget(id: number): void {
    this.handed.gone(id);
    this.worker.owners.releaseHeldBy(new Set([id]));
  }

  // What serving needs.

  accepted(fork: GlobalId, from: number): void {
    this.handed.accepted(fork, from);
    this.worker.control(from, { kind: 'child-accept', fork });
  }

  valueOf(entry: OwnerEntry<OwnedValue>): OwnedValue {
    return (entry.payload ??= OwnedValue.empty());
  }

  takeRefusal(): Failure | undefined {
    const { refusal } = this;
    this.refusal = undefined;
    return refusal;
  }

  typed(owned: OwnedValue, type: string): void {
    this.types.set(owned, type);
  }

  // The end.

  /** Lets go of all that is held here, and waits until nobody holds anything of this worker's. @throws RpcError 'deadline-exceeded' */
  async drain(timeoutMs: number): Promise<void> {
    const { users, owners } = this.worker;
    for (const fork of [...users.all()]) users.release(fork);
    this.handed.settle();
    const end = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
    while (owners.size > 0 || users.size > 0 || this.sender.pending > 0) {
      const left = end - performance.now();
      if (left <= 0) throw this.undrained(timeoutMs);
      await this.nextChange(left);
    }
  }

  /** What others hold of this worker's, a line each. */
  leaks(): string[] {
    return leaksOf(this.worker, (id) => this.nameOf(id));
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.handed.clear();
    const gone = new RpcError('rref-released', 'the agent that owned this RRef has shut down');
    for (const entry of this.worker.owners.all()) entry.payload?.reject(gone);
    this.worker.owners.clear();
    this.worker.users.clear();
    this.notify();
  }

  private adopt(target: HandleTarget, type: string): TorchRRef<unknown> {
    const handle = new TorchRRef<unknown>(this.uses, target, type);
    if (handle.fork !== undefined && handle.fork.phase !== 'gone') this.registry.register(handle, handle.fork, handle);
    return handle;
  }

  private typeOfOwned(owned: OwnedValue, fallback: string): string {
    const known = this.types.get(owned);
    if (known !== undefined) return known;
    return owned.settled && fallback !== PYTHON_OBJECT ? typeOf(owned.now()) : fallback;
  }

  private send(to: number, message: Control): void {
    if (message.kind === 'fork-ack') this.refusal = message.refused;
    else this.sender.send(to, message);
  }

  private async tell(to: number, body: Body): Promise<unknown> {
    const { caller } = this.host;
    return caller.tell(this.host.find(to), body, (response, { from }) => acknowledged(response, 'rref-ack', from));
  }

  private settled(fork: UserFork): void {
    const waiting = this.settling.get(fork) ?? [];
    this.settling.delete(fork);
    for (const resolve of waiting) resolve();
    this.notify();
  }

  private collected(fork: UserFork): void {
    if (this.closed || fork.released || fork.phase === 'gone') return;
    this.worker.users.release(fork);
    this.notify();
  }

  private throwIfClosed(): void {
    if (this.closed) throw new RpcError('failed-precondition', `worker '${this.self.name}' has shut down`);
  }

  private nameOf(worker: number): string {
    try {
      return this.host.find(worker).worker.name;
    } catch {
      return `worker ${worker}`; // has left
    }
  }

  private undrained(timeoutMs: number): RpcError {
    const lines = [...this.leaks(), ...waitsOf(this.worker, (id) => this.nameOf(id))];
    return new RpcError(
      'deadline-exceeded',
      `RRefs were not let go of within ${timeoutMs} ms: ${lines.slice(0, 10).join('; ')}`,
    );
  }

  /** Resolves when the tables have changed, or the time is over. Never at once: what changes them comes from the network. */
  private nextChange(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = withinMs === Infinity ? undefined : setTimeout(resolve, Math.min(withinMs, MAX_TIMER_MS));
      this.changed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  private notify(): void {
    for (const resolve of this.changed.splice(0)) resolve();
  }
}

function typeOf(value: unknown): string {
  return value instanceof Tensor ? TENSOR : PYTHON_OBJECT;
}
