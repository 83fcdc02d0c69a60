/** @file A worker's place in its group: joining through the store, the view as it changes, evicting the dead, leaving. */
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import { Entrance, type Attended } from './entrance.ts';
import { ageKey, GroupStore, MAX_ATTEMPTS, VIEW_KEY, type LeaseState, type StoreState } from './group-store.ts';
import type { KeepAlive } from '../liveness/keep-alive.ts';
import { followPrefix } from './follow-prefix.ts';
import { entryOf, type Entered, type Entry, type Joiner } from './joiner.ts';
import { differs, missing, mixed, notUnique } from './join-errors.ts';
import { Outages } from './outages.ts';
import type { Logger } from '../base/options.ts';
import { sleep } from '../base/within.ts';
import { freeId, type Wish } from '../protocol/admission.ts';
import {
  EMPTY_VIEW,
  isRefusal,
  join,
  lifeOf,
  removeAll,
  type Life,
  type Refusal,
  type View,
  type ViewMember,
} from '../protocol/membership.ts';
import { isBehind, isOther, isRestored, rejoined, restored } from '../protocol/histories.ts';
import { waitForWatchers } from '../protocol/watchers.ts';
import { watchWhileJoining, type Watching } from './waiting.ts';
import type { Claim } from '../protocol/parts.ts';
import type { Lease, Store } from '../stores/store.ts';
import { viewOf } from './view-bytes.ts';

export interface GroupOptions {
  /** Keys of this group alone. */
  readonly store: Store;
  /** Keys of the whole store: the launcher reports exits there. */
  readonly root: Store;
  readonly leaseMs: number;
  /** How long a member may be busy. */
  readonly busyDeadMs: number;
  readonly logger: Logger;
  /** Told of every view, in any order, some more than once. */
  readonly onView: (view: View) => void;
  /** Told of each answer of the store, and of each that does not come. */
  readonly onStore: (state: StoreState) => void;
  /** The number of a process on this machine is no process any more; false where that cannot be said. */
  readonly isGone: (member: ViewMember) => boolean;
  /** The lease was lost: others may think that this worker is dead. */
  readonly onLeaseLost: (error: Error) => void;
  /** What shows that this worker wrote its entry of the view; undefined where nothing does. */
  readonly prove: ((member: ViewMember) => string) | undefined;
  /** Whether another's entry was written by a member of the group, as far as that can be shown. */
  readonly isProved: (member: ViewMember) => boolean;
  /** Keeps the lease alive and its age known. */
  readonly keepAlive: (store: Store, lease: Lease, options: { readonly ageKey: string }) => KeepAlive;
  now(): number;
}

const EXITS_PREFIX = 'launcher/exits/';
/** How long a worker that gives up tries to say so. */
const FAREWELL_MS = 1_000;
/** Workers that are told at once that another expects another size. */
const MAX_TOLD = 16;
/** Between two looks at a name or id that is still taken. */
const RETRY_MS = 200;
/** An answer of the store that takes longer counts as none; half a lease, if that is less. */
const PATIENCE_MS = 2_000;
/** A lease of a former life that is not seen for so long is gone, although others do not say so. */
const LEASELESS_MS = 2_000;

const decoder = new TextDecoder();

/** States: *joining*, *member*, *gone* (left, or closed). */
export class Group {
  incarnation = 0;
  incarnationIndex = 0;
  private readonly options: GroupOptions;
  private readonly ended = new AbortController();
  private lease: Lease | undefined;
  private alive: KeepAlive | undefined;
  /** Who has the name or the id that this worker waits for. */
  inTheWay: ViewMember | undefined;
  private self: ViewMember | undefined;
  /** This worker leaves, or has left, by itself: what others say of it from then on is no news. */
  hasLeft = false;
  /** The newest view that was told. */
  private known: View = EMPTY_VIEW;
  private readonly keys: GroupStore;
  /** Since when the lease of one whose name this worker wants has not been seen. */
  private leaselessAt: number | undefined;
  private outages: Outages | undefined;

  constructor(options: GroupOptions) {
    this.options = options;
    this.keys = new GroupStore({
      store: options.store,
      patienceMs: Math.min(PATIENCE_MS, options.leaseMs / 2),
      forgivenMs: options.busyDeadMs,
      onState: (state) => options.onStore(state),
      now: () => options.now(),
    });
  }

  /**
   * Joins, and waits until a closed group is complete.
   * @throws RpcError 'failed-precondition' when the name or id is taken or the kinds of group differ, 'deadline-exceeded' naming who is
   *   missing, 'unavailable' when the store is away until then.
   */
  async join(joiner: Joiner, deadline: number): Promise<{ member: ViewMember; view: View }> {
    const outages = new Outages({ deadline, signal: this.ended.signal, now: () => this.options.now() });
    this.outages = outages;
    const first = await outages.past(async () => {
      const view = await this.keys.view();
      const { incarnation, index } = await this.keys.drawIncarnation(joiner.name, view);
      this.incarnation = incarnation;
      this.incarnationIndex = index;
      return view;
    });
    await outages.past(() => this.takeLease(joiner.name));
    const watching = watchWhileJoining(this.keys, joiner.name);
    try {
      for (let known: View | undefined = first; ; known = undefined) {
        const seen = known;
        const entered = await outages.past(() => this.enter(joiner, deadline, seen));
        this.self = entered.member;
        this.inTheWay = undefined;
        const view = await outages.past(() => this.complete(joiner, entered, watching, deadline));
        // The store has forgotten this worker with everything else: once more.
        if (view === undefined) continue;
        this.follow();
        return { member: entered.member, view };
      }
    } finally {
      watching.stop();
    }
  }

  /** Why the store keeps this worker waiting while it joins, as far as it said. */
  get trouble(): string | undefined {
    return this.outages?.trouble;
  }

  /**
   * Takes members out of the view, in one change. `still` is asked again before every attempt to set the view: others may win many of
   * them, and meanwhile a member may have been heard. `how` each ended: dead, unless it says otherwise. Resolves with the latest view.
   */
  async evict(
    lives: Iterable<Life>,
    still?: (life: Life) => boolean | Promise<boolean>,
    how: (life: Life) => 'left' | 'dead' = () => 'dead',
  ): Promise<View> {
    const all = new Set(lives);
    const self = this.self === undefined ? undefined : lifeOf(this.self);
    const waitMs = this.self === undefined ? 0 : waitForWatchers(this.self, all, this.known.members, Math.random());
    if (waitMs > 0) {
      await sleep(waitMs);
      if (!this.known.members.some((member) => all.has(lifeOf(member)))) return this.known;
    }
    this.options.logger.info({ workers: [...all] }, 'evicting workers that are gone');
    return this.change(async (view) => {
      // Who has been put out itself puts nobody out.
      if (self !== undefined && !view.members.some((member) => lifeOf(member) === self)) return view;
      const gone = new Set<Life>();
      for (const life of all) if (still === undefined || (await still(life))) gone.add(life);
      const left = new Set([...gone].filter((life) => how(life) === 'left'));
      return removeAll(removeAll(view, left, 'left'), gone, 'dead', self);
    });
  }

  /** Whether a member's lease is still there, and how long its main loop has been busy. @throws RpcError when the store does not answer. */
  async leaseOf(member: ViewMember): Promise<LeaseState> {
    const lease = await this.keys.leaseOf(member);
    if (lease.state !== 'gone' || this.known === EMPTY_VIEW) return lease;
    // A store that has lost the view, or just got it again, has lost the leases of those that live as well.
    const { known } = this;
    const view = await this.keys.view();
    if (view !== EMPTY_VIEW) this.tell(view);
    const isLost = view === EMPTY_VIEW || isRestored(known, view) || this.isOther(view);
    return isLost ? { state: 'unknown' } : lease;
  }

  /** Calls `gone` when a member's lease is not there, or ends. */
  watchLease(member: ViewMember, signal: AbortSignal, gone: () => void): Promise<void> {
    return this.keys.watchLease(member, signal, gone);
  }

  /** Tells the store what this worker's part claims, and resolves with all claims. */
  async claim(claim: Claim | undefined): Promise<Claim[]> {
    const { self, lease } = this;
    if (self === undefined || lease === undefined) return [];
    await this.keys.claim(self, claim, lease);
    return claim === undefined ? [] : this.keys.claims();
  }

  claims(): Promise<Claim[]> {
    return this.keys.claims();
  }

  private tell(view: View): void {
    if (this.isOther(view)) {
      // The store lost the view, or the latest of it, and others have gone on with what was left.
      this.restore();
      return;
    }
    const { known } = this;
    if (known !== EMPTY_VIEW && isRestored(known, view)) this.keys.forgot();
    if (view.epoch > known.epoch) this.known = view;
    // Whoever leaves is not put out: its calls end as those of a worker that has shut down.
    if (!this.hasLeft) this.options.onView(view);
  }

  /** What the store has now; a view that was told may be late. */
  private found(view: View): void {
    if (view !== EMPTY_VIEW && isBehind(this.known, view)) this.restore();
    this.tell(view);
  }

  private isOther(view: View): boolean {
    const { self, known } = this;
    return self !== undefined && isOther(lifeOf(self), known, view);
  }

  private async takeLease(name: string): Promise<void> {
    const { store, leaseMs, keepAlive } = this.options;
    const life = { name, incarnation: this.incarnation };
    const lease = await this.keys.ask(() => store.lease(leaseMs));
    this.lease = lease;
    try {
      await this.keys.hold(life, lease);
    } catch (error) {
      // Whoever asked takes another one.
      lease.revoke().catch(() => undefined);
      throw error;
    }
    void lease.lost.then((error) => this.leaseLost(error, name));
    this.alive = keepAlive(store, lease, { ageKey: ageKey(life) });
    await this.alive.started;
  }

  /** The store has let go of this worker, or has started anew: looks which, and takes another lease if it still belongs. */
  private async leaseLost(error: Error, name: string): Promise<void> {
    const { signal } = this.ended;
    if (signal.aborted) return;
    this.options.onLeaseLost(error);
    await this.alive?.stop();
    while (!signal.aborted) {
      try {
        if (this.self === undefined) await this.takeLease(name);
        else await this.regain(this.self);
        return;
      } catch (failure) {
        this.options.logger.debug({ error: failure }, 'the lease could not be regained yet');
        await sleep(RETRY_MS);
      }
    }
  }

  private async regain(self: ViewMember): Promise<void> {
    await this.rejoin();
    const view = await this.refresh();
    if (view.members.some((member) => lifeOf(member) === lifeOf(self))) await this.takeLease(self.name);
  }

  /**
   * A store that forgot everything, or the latest of it, is told what it had, under an epoch that nobody has seen. Whoever has joined
   * there meanwhile stays, unless it came under the name or the id of one that lives.
   */
  private async rejoin(): Promise<void> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { known, self } = this;
      const found = await this.keys.view();
      if (self === undefined || known === EMPTY_VIEW) return;
      // What it knew before it asked: the view may have gone on meanwhile.
      if (found !== EMPTY_VIEW && !this.isOther(found) && (known !== this.known || !isBehind(known, found))) return;
      const next = found === EMPTY_VIEW ? restored(known) : rejoined(known, found);
      if (!(await this.keys.setView(found, next))) continue;
      this.tell(next);
      return;
    }
  }

  private restore(): void {
    const failed = (error: unknown): void => this.options.logger.debug({ error }, 'the view was not restored yet');
    void this.rejoin().catch(failed);
  }

  /** Reads the view now. */
  async refresh(): Promise<View> {
    const view = await this.keys.view();
    this.found(view);
    return view;
  }

  /** The view as another member has it, which may be newer. */
  learn(view: View): void {
    if (view.founder === this.known.founder && view.epoch > this.known.epoch) this.tell(view);
  }

  /** Leaves in good order. */
  async leave(): Promise<void> {
    const { self } = this;
    if (self === undefined) return;
    this.self = undefined;
    this.hasLeft = true;
    const life = lifeOf(self);
    const view = await this.keys.view();
    const next = removeAll(view, new Set([life]), 'left');
    if (next === view || (!(await this.keys.isDoorTaken()) && (await this.keys.setView(view, next)))) return;
    await this.wait({ kind: 'leave', life }, life);
    // Nobody may have looked.
    await this.change((latest) => removeAll(latest, new Set([life]), 'left'));
  }

  /** Ends the watch and the lease. */
  async close(): Promise<void> {
    this.ended.abort();
    await this.alive?.stop();
    await this.lease?.revoke().catch(() => undefined);
  }

  /** Puts this worker into the view, once nobody else holds its name or id. */
  private async enter(joiner: Joiner, deadline: number, known: View | undefined): Promise<Entered> {
    const { size } = joiner;
    const anyId = joiner.id === undefined;
    let alone = false;
    for (let view = known ?? (await this.keys.view()); ; view = await this.keys.view()) {
      const there = view.members.find((other) => other.name === joiner.name && other.incarnation === this.incarnation);
      if (there !== undefined) return { member: there, view };
      const member = this.written(entryOf(joiner, this.incarnation, joiner.id ?? freeId(view)));
      const next = join(view, member, size);
      if (isRefusal(next)) {
        await this.refused(next, { view, member, anyId, size, deadline });
        continue;
      }
      // Where many come at once, whoever loses to another waits at the door.
      if (alone || !(await this.keys.isDoorTaken())) {
        if (await this.keys.setView(view, next)) return { member, view: next };
      }
      alone = (await this.wait({ kind: 'join', member, size, anyId }, lifeOf(member))) === 'alone';
    }
  }

  private written(member: ViewMember): ViewMember {
    const proof = this.options.prove?.(member);
    return proof === undefined ? member : { ...member, proof };
  }

  /** Has somebody look at what this worker wants of the view. */
  private async wait(wish: Wish, life: Life): Promise<Attended> {
    const { keys, lease } = this;
    if (lease === undefined) return 'alone';
    const { isProved } = this.options;
    const rewrite = (member: ViewMember, id: number): ViewMember | undefined =>
      isProved(member) ? this.written({ ...member, id }) : undefined;
    const entrance = new Entrance({
      keys,
      lease,
      signal: this.ended.signal,
      rewrite,
      onView: (view) => this.tell(view),
    });
    try {
      return await entrance.wait(life, wish);
    } catch (error) {
      // The lease was lost meanwhile, and another one is under way: the view can be set without.
      if (RpcError.from(error).code !== 'failed-precondition') throw error;
      return 'alone';
    }
  }

  /** Waits for what stands in the way to go, as long as it may. */
  private async refused(refusal: Refusal, { view, member, anyId, size, deadline }: Entry): Promise<void> {
    switch (refusal.kind) {
      case 'mixed':
        if (size !== undefined && view.size !== undefined && view.members.length < view.size) {
          // They wait for one who does not come. Of many, the others read it when their time is up.
          const text = differs(member.name, size, view.size);
          await Promise.all(view.members.slice(0, MAX_TOLD).map((one) => this.keys.tellConflict(one, text)));
        }
        throw new RpcError('failed-precondition', mixed(refusal.size, size));
      case 'superseded': {
        const later = view.members.find(({ name }) => name === member.name);
        // Another id is no later life of this worker, but another that came first.
        if (later !== undefined && later.id !== member.id)
          await this.clash(notUnique('name-taken', member, later), later);
        throw new RpcError('fenced', `a later life of worker '${member.name}' has joined already`);
      }
      case 'departed':
        throw new RpcError('fenced', `the group has put out this life of worker '${member.name}' already`);
      case 'full':
        throw new RpcError('failed-precondition', `the group has its ${refusal.size} workers already`);
      case 'name-taken':
      case 'id-taken': {
        const { by } = refusal;
        if (await this.isOver(by)) {
          await this.evict([lifeOf(by)], () => this.isOver(by));
          return;
        }
        const error = notUnique(refusal.kind, member, by);
        // The same name and id is a restart whose former life is not noticed as dead yet; anything else is a mistake. In an open group
        // a worker without a rank is given a free id, which its former life did not have: the name has to do.
        const restart = by.name === member.name && (by.id === member.id || (anyId && size === undefined));
        if (!restart) await this.clash(error, by);
        if (this.options.now() + RETRY_MS >= deadline) throw error;
        this.inTheWay = by;
        await sleep(RETRY_MS);
      }
    }
  }

  /**
   * Whether a life that stands in the way has ended: its process is gone, or it has had no lease for a while. A store that was restored
   * has the leases of the others a moment later.
   */
  private async isOver(by: ViewMember): Promise<boolean> {
    if (this.options.isGone(by)) return true;
    const { state } = await this.leaseOf(by);
    const now = this.options.now();
    if (state === 'alive') this.leaselessAt = undefined;
    else this.leaselessAt ??= now;
    return this.leaselessAt !== undefined && now - this.leaselessAt >= Math.min(LEASELESS_MS, this.options.leaseMs);
  }

  /** Tells the one who holds the name or id too, and fails. */
  private async clash(error: RpcError, by: ViewMember): Promise<never> {
    await this.keys.tellConflict(by, error.message);
    throw error;
  }

  /** Waits until all are there; undefined when the store has lost this worker with everything else. */
  private async complete(
    joiner: Joiner,
    { member, view: entered }: Entered,
    watching: Watching,
    deadline: number,
  ): Promise<View | undefined> {
    for (let view = entered; ; view = await this.keys.view()) {
      const present = view.members.some((other) => lifeOf(other) === lifeOf(member));
      if (!present) {
        if (!view.departed.some((other) => lifeOf(other) === lifeOf(member))) return undefined;
        throw new RpcError('fenced', 'the group removed this worker while it was waiting for the others');
      }
      this.tell(view);
      if (joiner.size === undefined || view.members.length >= joiner.size) return view;
      if (watching.conflict !== undefined) throw new RpcError('failed-precondition', watching.conflict);
      const left = deadline - this.options.now();
      if (left <= 0) {
        // A store that is gone by now is not waited for: the time is up.
        const farewell = this.leave().then(() => this.keys.conflicts());
        const conflicts = await Promise.race([farewell.catch(() => []), sleep(FAREWELL_MS).then(() => [])]);
        throw missing(view, joiner.size, conflicts);
      }
      await watching.change(left, view);
    }
  }

  /** Follows the view and the launcher's notices until the group is closed. */
  private follow(): void {
    const { store, root, logger } = this.options;
    const { signal } = this.ended;
    const following = { signal, logger };
    const onView = (value: Uint8Array | undefined, isListed: boolean): void => {
      const view = value === undefined ? undefined : viewOf(value);
      if (view === undefined) return;
      if (isListed) this.found(view);
      else this.tell(view);
    };
    runAtRoot(() => {
      followPrefix(store, VIEW_KEY, onView, following).catch(
        (error: unknown) => signal.aborted || logger.warn({ error }, 'the view cannot be watched any more'),
      );
      followPrefix(root, EXITS_PREFIX, (value) => void this.exited(value), following).catch(() => undefined);
    });
  }

  /** The launcher saw a process end. */
  private async exited(value: Uint8Array | undefined): Promise<void> {
    if (value === undefined || this.self === undefined) return;
    try {
      const exit = JSON.parse(decoder.decode(value)) as { rank?: unknown; pid?: unknown };
      const isIt = ({ id, pid }: ViewMember): boolean => id === exit.rank && pid === exit.pid;
      // One that has just come may be in the store's view only.
      const member = this.known.members.find(isIt) ?? (await this.keys.view()).members.find(isIt);
      if (member !== undefined && member.name !== this.self?.name) this.tell(await this.evict([lifeOf(member)]));
    } catch (error) {
      this.options.logger.debug({ error }, 'a notice of the launcher was not understood');
    }
  }

  private async change(step: (view: View) => View | Promise<View>): Promise<View> {
    // What is known is the latest most of the time: only if it is not, or there is nothing to change in it, is the store's read.
    let isRead = this.known === EMPTY_VIEW;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++, isRead = true) {
      const view = isRead ? await this.keys.view() : this.known;
      const next = await step(view);
      if (next === view) {
        if (isRead) return view;
        continue;
      }
      if (!(await this.keys.setView(view, next))) continue;
      this.tell(next);
      return next;
    }
    throw new RpcError('unavailable', 'the view of the group changes faster than it can be set');
  }
}
