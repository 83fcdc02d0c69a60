/** @file A worker's place in its group: joining through the store, the view as it changes, evicting the dead, leaving. */
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import type { Logger } from '../base/options.ts';
import { sleep, within } from '../base/within.ts';
import type { KeepAlive } from '../liveness/keep-alive.ts';
import { lifeOf, removeAll, type Life, type View, type ViewMember } from '../protocol/membership.ts';
import type { Claim } from '../protocol/parts.ts';
import { waitForWatchers } from '../protocol/watchers.ts';
import type { Lease, Store } from '../stores/store.ts';
import { followPrefix } from './follow-prefix.ts';
import { GroupStore, VIEW_KEY, type LeaseState, type StoreState } from './group-store.ts';
import { HeldLease } from './held-lease.ts';
import { missing } from './join-errors.ts';
import type { Entered, Joiner } from './joiner.ts';
import { KnownView } from './known-view.ts';
import { Outages } from './outages.ts';
import { Passage } from './passage.ts';
import { viewOf } from './view-bytes.ts';
import { watchWhileJoining, type Watching } from './waiting.ts';

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
/** An answer of the store that takes longer counts as none; half a lease, if that is less. */
const PATIENCE_MS = 2_000;

const decoder = new TextDecoder();

/** States: *joining*, *member*, *gone* (left, or closed). */
export class Group {
  incarnation = 0;
  incarnationIndex = 0;
  private readonly options: GroupOptions;
  private readonly ended = new AbortController();
  private readonly keys: GroupStore;
  private readonly view: KnownView;
  private readonly lease: HeldLease;
  private readonly passage: Passage;
  private outages: Outages | undefined;

  constructor(options: GroupOptions) {
    const { store, leaseMs, logger, isGone, prove, isProved, keepAlive } = options;
    const now = (): number => options.now();
    this.options = options;
    const keys = new GroupStore({
      store,
      patienceMs: Math.min(PATIENCE_MS, leaseMs / 2),
      forgivenMs: options.busyDeadMs,
      onState: (state) => options.onStore(state),
      now,
    });
    const view = new KnownView({ keys, logger, onView: (next) => options.onView(next) });
    const onLost = (error: Error): void => options.onLeaseLost(error);
    const lease = new HeldLease({ store, keys, leaseMs, logger, keepAlive, onLost, isWanted: () => view.stillHasMe() });
    this.keys = keys;
    this.view = view;
    this.lease = lease;
    this.passage = new Passage({
      keys,
      view,
      lease,
      leaseMs,
      signal: this.ended.signal,
      isGone,
      prove,
      isProved,
      leaseOf: (member) => this.leaseOf(member),
      evict: (life, still) => this.evict([life], still),
      now,
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
    await outages.past(() => this.lease.take({ name: joiner.name, incarnation: this.incarnation }));
    const watching = watchWhileJoining(this.keys, joiner.name);
    try {
      for (let known: View | undefined = first; ; known = undefined) {
        const seen = known;
        const entered = await outages.past(() => this.passage.enter(joiner, this.incarnation, seen, deadline));
        this.view.self = entered.member;
        this.passage.inTheWay = undefined;
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

  /** Who has the name or the id that this worker waits for. */
  get inTheWay(): ViewMember | undefined {
    return this.passage.inTheWay;
  }

  /** This worker leaves, or has left, by itself. */
  get hasLeft(): boolean {
    return this.view.hasLeft;
  }

  /** Reads the view now. */
  refresh(): Promise<View> {
    return this.view.refresh();
  }

  /** The view as another member has it, which may be newer. */
  learn(view: View): void {
    this.view.learn(view);
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
    const me = this.view.self;
    const self = me === undefined ? undefined : lifeOf(me);
    const waitMs = me === undefined ? 0 : waitForWatchers(me, all, this.view.latest.members, Math.random());
    if (waitMs > 0) {
      await sleep(waitMs);
      const { latest } = this.view;
      if (!latest.members.some((member) => all.has(lifeOf(member)))) return latest;
    }
    this.options.logger.info({ workers: [...all] }, 'evicting workers that are gone');
    return this.view.change(async (view) => {
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
    // A store that has lost the view has lost the leases of those that live as well.
    return lease.state === 'gone' && (await this.view.isLost()) ? { state: 'unknown' } : lease;
  }

  /** Calls `gone` when a member's lease is not there, or ends. */
  watchLease(member: ViewMember, signal: AbortSignal, gone: () => void): Promise<void> {
    return this.keys.watchLease(member, signal, gone);
  }

  /** Tells the store what this worker's part claims, and resolves with all claims. */
  async claim(claim: Claim | undefined): Promise<Claim[]> {
    const { self } = this.view;
    const lease = this.lease.current;
    if (self === undefined || lease === undefined) return [];
    await this.keys.claim(self, claim, lease);
    return claim === undefined ? [] : this.keys.claims();
  }

  claims(): Promise<Claim[]> {
    return this.keys.claims();
  }

  /** Leaves in good order. */
  async leave(): Promise<void> {
    const { self } = this.view;
    if (self === undefined) return;
    this.view.self = undefined;
    this.view.hasLeft = true;
    await this.passage.leave(lifeOf(self));
  }

  /** Ends the watch and the lease. */
  async close(): Promise<void> {
    this.ended.abort();
    await this.lease.close();
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
      this.view.tell(view);
      if (joiner.size === undefined || view.members.length >= joiner.size) return view;
      if (watching.conflict !== undefined) throw new RpcError('failed-precondition', watching.conflict);
      const left = deadline - this.options.now();
      if (left <= 0) {
        // A store that is gone by now is not waited for: the time is up.
        const farewell = this.leave().then(() => this.keys.conflicts());
        const conflicts = await within(
          farewell.catch(() => []),
          FAREWELL_MS,
          () => [],
        );
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
      if (isListed) this.view.found(view);
      else this.view.tell(view);
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
    if (value === undefined || this.view.self === undefined) return;
    try {
      const exit = JSON.parse(decoder.decode(value)) as { rank?: unknown; pid?: unknown };
      const isIt = ({ id, pid }: ViewMember): boolean => id === exit.rank && pid === exit.pid;
      // One that has just come may be in the store's view only.
      const member = this.view.latest.members.find(isIt) ?? (await this.keys.view()).members.find(isIt);
      if (member !== undefined && member.name !== this.view.self?.name)
        this.view.tell(await this.evict([lifeOf(member)]));
    } catch (error) {
      this.options.logger.debug({ error }, 'a notice of the launcher was not understood');
    }
  }
}
