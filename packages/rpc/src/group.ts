/** @file A worker's place in its group: joining through the store, the view as it changes, evicting the dead, leaving. */
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from './errors.ts';
import { readAge, type KeepAlive } from './liveness/keep-alive.ts';
import type { Logger } from './options.ts';
import { processId } from './platform.ts';
import {
  decodeView,
  EMPTY_VIEW,
  encodeView,
  isRefusal,
  join,
  remove,
  type Refusal,
  type View,
  type ViewMember,
} from './protocol/membership.ts';
import type { Lease, Store } from './stores/store.ts';

/** What a worker brings when it joins. */
export interface Joiner {
  readonly name: string;
  /** undefined = the next free one. */
  readonly id: number | undefined;
  /** The size of a closed group; undefined for one that is open. */
  readonly size: number | undefined;
  readonly endpoints: ViewMember['endpoints'];
  readonly host: string;
  readonly extensions: readonly string[];
  readonly deviceMaps?: unknown;
}

export interface GroupOptions {
  /** Keys of this group alone. */
  readonly store: Store;
  /** Keys of the whole store: the launcher reports exits there. */
  readonly root: Store;
  readonly leaseMs: number;
  readonly logger: Logger;
  /** Told of every view, in any order, some more than once. */
  readonly onView: (view: View) => void;
  /** The lease was lost: others may think that this worker is dead. */
  readonly onLeaseLost: (error: Error) => void;
  /** Keeps the lease alive and its age known. */
  readonly keepAlive: (store: Store, lease: Lease, options: { readonly ageKey: string }) => KeepAlive;
  now(): number;
}

const VIEW_KEY = 'view';
/** The latest incarnation that was drawn. */
const COUNT_KEY = 'incarnation';
const CONFLICT_KEY = 'conflict/';
const EXITS_PREFIX = 'launcher/exits/';
/** A compare-and-set that loses so often in a row meets a store that does not work. */
const MAX_ATTEMPTS = 1_000;
/** How long a worker that gives up tries to say so. */
const FAREWELL_MS = 1_000;
/** Between two looks at a name or id that is still taken. */
const RETRY_MS = 200;
/** More changes than a view sees between two looks of a member. */
const RESTORED_EPOCHS = 1_000;
/** 2024-01-01, in seconds: incarnations count from there. */
const EPOCH_S = 1_704_067_200;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** States: *joining*, *member*, *gone* (left, or closed). */
export class Group {
  incarnation = 0;
  incarnationIndex = 0;
  private readonly options: GroupOptions;
  private readonly ended = new AbortController();
  private lease: Lease | undefined;
  private alive: KeepAlive | undefined;
  private self: ViewMember | undefined;
  /** The newest view that was told. */
  private known: View = EMPTY_VIEW;
  /** The first question about a lease that the store has not answered. */
  private askedAt: number | undefined;

  constructor(options: GroupOptions) {
    this.options = options;
  }

  /**
   * Joins, and waits until a closed group is complete.
   * @throws RpcError 'failed-precondition' when the name or id is taken or the kinds of group differ, 'deadline-exceeded' naming who is
   *   missing, 'unavailable' when the store is lost.
   */
  async join(joiner: Joiner, deadline: number): Promise<{ member: ViewMember; view: View }> {
    await this.drawIncarnation(joiner.name);
    await this.takeLease(joiner.name);
    const watching = this.watchFor(joiner.name, deadline);
    try {
      const member = await this.enter(joiner, deadline);
      this.self = member;
      const view = await this.complete(joiner, member, watching, deadline);
      this.follow();
      return { member, view };
    } finally {
      watching.stop();
    }
  }

  /**
   * Takes a dead member out of the view. `stillDead` is asked again before every attempt to set the view: others may win many of
   * them, and meanwhile the member may have been acquitted. Resolves with the latest view; it still has the member if that was so.
   */
  async evict(member: ViewMember, stillDead?: () => Promise<boolean>): Promise<View> {
    this.options.logger.info({ worker: member.name, incarnation: member.incarnation }, 'evicting a dead worker');
    return this.change(async (view) =>
      stillDead === undefined || (await stillDead()) ? remove(view, member.name, member.incarnation, 'dead') : view,
    );
  }

  /** Whether a member may be put out on what the store says: nothing holds its lease, or two members accuse it. */
  async doomed(member: ViewMember): Promise<boolean> {
    return !(await this.leaseOf(member)).alive || this.accused(member);
  }

  /** Whether a member's lease is still there, and how long its main loop has been busy. */
  async leaseOf(member: ViewMember): Promise<{ alive: boolean; ageMs?: number }> {
    this.askedAt ??= this.options.now();
    const ageMs = await readAge(this.options.store, ageKey(member.name, member.incarnation));
    this.askedAt = undefined;
    return ageMs === undefined ? { alive: false } : { alive: true, ageMs };
  }

  /** How long the store has owed an answer about a member, in milliseconds. */
  get silentMs(): number {
    return this.askedAt === undefined ? 0 : this.options.now() - this.askedAt;
  }

  /** One member's word that another is dead. Resolves with whether another member says so too. */
  async accuse(member: ViewMember): Promise<boolean> {
    const { self, lease } = this;
    if (self === undefined || lease === undefined) return false;
    await this.options.store.set(`${accusations(member)}${self.name}`, encoder.encode('1'), { lease });
    return this.accused(member);
  }

  private async accused(member: ViewMember): Promise<boolean> {
    return (await this.options.store.list(accusations(member))).size >= 2;
  }

  /** Takes an accusation back. */
  async acquit(member: ViewMember): Promise<void> {
    if (this.self !== undefined) await this.options.store.delete(`${accusations(member)}${this.self.name}`);
  }

  private tell(view: View): void {
    if (view.epoch > this.known.epoch) this.known = view;
    this.options.onView(view);
  }

  private async takeLease(name: string): Promise<void> {
    const { store, leaseMs, keepAlive } = this.options;
    const lease = await store.lease(leaseMs);
    this.lease = lease;
    void lease.lost.then((error) => this.leaseLost(error));
    this.alive = keepAlive(store, lease, { ageKey: ageKey(name, this.incarnation) });
    await this.alive.started;
  }

  /** The store has let go of this worker, or has started anew: looks which, and takes another lease if it still belongs. */
  private async leaseLost(error: Error): Promise<void> {
    const { signal } = this.ended;
    if (signal.aborted) return;
    this.options.onLeaseLost(error);
    await this.alive?.stop();
    while (!signal.aborted && this.self !== undefined) {
      try {
        return await this.regain(this.self);
      } catch (failure) {
        this.options.logger.debug({ error: failure }, 'the lease could not be regained yet');
        await sleep(RETRY_MS);
      }
    }
  }

  private async regain(self: ViewMember): Promise<void> {
    const { store } = this.options;
    const { known } = this;
    // A store that forgot everything is told what it had, under an epoch that nobody has seen.
    if ((await store.get(VIEW_KEY)) === undefined)
      await store.compareAndSet(VIEW_KEY, null, encodeView({ ...known, epoch: known.epoch + RESTORED_EPOCHS }));
    const view = await this.read();
    this.tell(view);
    if (view.members.some(({ name, incarnation }) => name === self.name && incarnation === self.incarnation))
      await this.takeLease(self.name);
  }

  /** Reads the view now. */
  async refresh(): Promise<View> {
    const view = await this.read();
    this.tell(view);
    return view;
  }

  /** Leaves in good order. */
  async leave(): Promise<void> {
    const { self } = this;
    if (self === undefined) return;
    this.self = undefined;
    await this.change((view) => remove(view, self.name, self.incarnation, 'left'));
  }

  /** Ends the watch and the lease. */
  async close(): Promise<void> {
    this.ended.abort();
    await this.alive?.stop();
    await this.lease?.revoke().catch(() => undefined);
  }

  /**
   * Higher than any before it, by the store's memory and by the clock, so that neither alone can make one twice. All names count
   * together: what a worker made is known by its id and incarnation, and the id may be another worker's next.
   */
  private async drawIncarnation(name: string): Promise<void> {
    const { store } = this.options;
    // A store that started anew knows the lives in its view, at least.
    const view = await this.read();
    let former = 0;
    for (const { incarnation } of [...view.members, ...view.departed]) former = Math.max(former, incarnation);
    const index = await store.add(`lives/${name}`, 1n);
    this.incarnationIndex = Number(index) - 1;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = await store.get(COUNT_KEY);
      const last = before === undefined ? 0 : Number(decoder.decode(before));
      const least = Math.max(former + 1, Math.floor(Date.now() / 1000) - EPOCH_S);
      if (last >= least) {
        // Adding never loses against the others who join now.
        this.incarnation = Number(await store.add(COUNT_KEY, 1n));
        if (this.incarnation > former) return;
      } else if ((await store.compareAndSet(COUNT_KEY, before ?? null, encoder.encode(String(least)))).ok) {
        this.incarnation = least;
        return;
      }
    }
    throw new RpcError('unavailable', 'the store refuses every incarnation');
  }

  /** Puts this worker into the view, once nobody else holds its name or id. */
  private async enter(joiner: Joiner, deadline: number): Promise<ViewMember> {
    for (;;) {
      const view = await this.read();
      const id = joiner.id ?? freeId(view);
      const { name, endpoints, host, extensions, deviceMaps } = joiner;
      const member: ViewMember = {
        name,
        id,
        incarnation: this.incarnation,
        endpoints,
        host,
        pid: processId,
        extensions,
        ...(deviceMaps === undefined ? {} : { deviceMaps }),
      };
      const next = join(view, member, joiner.size);
      if (!isRefusal(next)) {
        const before = view === EMPTY_VIEW ? null : encodeView(view);
        if ((await this.options.store.compareAndSet(VIEW_KEY, before, encodeView(next))).ok) return member;
        continue;
      }
      await this.refused(next, { view, member, anyId: joiner.id === undefined, size: joiner.size, deadline });
    }
  }

  /** Waits for what stands in the way to go, as long as it may. */
  private async refused(refusal: Refusal, { view, member, anyId, size, deadline }: Entry): Promise<void> {
    switch (refusal.kind) {
      case 'mixed':
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
        if (!(await this.leaseOf(by)).alive) {
          await this.evict(by, async () => !(await this.leaseOf(by)).alive);
          return;
        }
        const error = notUnique(refusal.kind, member, by);
        // The same name and id is a restart whose former life is not noticed as dead yet; anything else is a mistake. In an open group
        // a worker without a rank is given a free id, which its former life did not have: the name has to do.
        const restart = by.name === member.name && (by.id === member.id || (anyId && size === undefined));
        if (!restart) await this.clash(error, by);
        if (this.options.now() + RETRY_MS >= deadline) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  /** Tells the one who holds the name or id too, and fails. */
  private async clash(error: RpcError, by: ViewMember): Promise<never> {
    await this.options.store.set(`${CONFLICT_KEY}${by.name}`, encoder.encode(error.message));
    throw error;
  }

  private async complete(joiner: Joiner, member: ViewMember, watching: Watching, deadline: number): Promise<View> {
    for (;;) {
      const view = await this.read();
      const present = view.members.some(
        ({ name, incarnation }) => name === member.name && incarnation === member.incarnation,
      );
      if (!present) throw new RpcError('fenced', 'the group removed this worker while it was waiting for the others');
      this.tell(view);
      if (joiner.size === undefined || view.members.length >= joiner.size) return view;
      if (watching.conflict !== undefined) throw new RpcError('failed-precondition', watching.conflict);
      const left = deadline - this.options.now();
      if (left <= 0) {
        // A store that is gone by now is not waited for: the time is up.
        await Promise.race([this.leave().catch(() => undefined), sleep(FAREWELL_MS)]);
        throw missing(view, joiner.size);
      }
      await watching.change(left);
    }
  }

  /** Follows the view and the launcher's notices until the group is closed. */
  private follow(): void {
    const { store, root, logger } = this.options;
    const { signal } = this.ended;
    runAtRoot(() => {
      this.each(store, VIEW_KEY, (value) => {
        const view = value === undefined ? undefined : decodeView(value);
        if (view !== undefined) this.tell(view);
      }).catch((error: unknown) => signal.aborted || logger.warn({ error }, 'the view cannot be watched any more'));
      this.each(root, EXITS_PREFIX, (value) => void this.exited(value)).catch(() => undefined);
    });
  }

  /** The launcher saw a process end. */
  private async exited(value: Uint8Array | undefined): Promise<void> {
    if (value === undefined || this.self === undefined) return;
    try {
      const exit = JSON.parse(decoder.decode(value)) as { rank?: unknown; pid?: unknown };
      const view = await this.read();
      const member = view.members.find(({ id, pid }) => id === exit.rank && pid === exit.pid);
      if (member !== undefined && member.name !== this.self?.name) this.tell(await this.evict(member));
    } catch (error) {
      this.options.logger.debug({ error }, 'a notice of the launcher was not understood');
    }
  }

  private async each(store: Store, prefix: string, fn: (value: Uint8Array | undefined) => void): Promise<void> {
    const { signal } = this.ended;
    const events = store.watch(prefix, { signal });
    await this.listAll(store, prefix, fn);
    for await (const { type, value } of events) {
      if (type === 'put') fn(value);
      else if (type === 'resync') await this.listAll(store, prefix, fn);
    }
  }

  /** Lists as often as it takes: a store that comes back may go again before it answers, and a member must not be deaf from then on. */
  private async listAll(store: Store, prefix: string, fn: (value: Uint8Array | undefined) => void): Promise<void> {
    const { signal } = this.ended;
    while (!signal.aborted) {
      try {
        for (const value of (await store.list(prefix)).values()) fn(value);
        return;
      } catch (error) {
        if (RpcError.from(error).code !== 'unavailable') throw error;
        this.options.logger.debug({ error }, 'the store could not be listed yet');
        await sleep(RETRY_MS);
      }
    }
  }

  /** Tells of changes while this worker waits for its group. */
  private watchFor(name: string, deadline: number): Watching {
    const stop = new AbortController();
    const watching: Watching = { conflict: undefined, stop: () => stop.abort(), change: () => Promise.resolve() };
    let wake: (() => void) | undefined;
    const turn = async (key: string, fn: (value: Uint8Array | undefined) => void): Promise<void> => {
      for await (const event of this.options.store.watch(key, { signal: stop.signal })) {
        // A watch is for all keys that begin so: worker1 is not to hear of worker10.
        if (event.key === key) fn(event.value);
        wake?.();
      }
    };
    watching.change = (ms) =>
      new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(ms, deadline === Infinity ? RETRY_MS * 5 : ms, 1_000));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    turn(VIEW_KEY, () => undefined).catch(() => undefined);
    turn(`${CONFLICT_KEY}${name}`, (value) => {
      if (value !== undefined) watching.conflict = decoder.decode(value).replace(/^failed-precondition: /, '');
    }).catch(() => undefined);
    return watching;
  }

  private async change(step: (view: View) => View | Promise<View>): Promise<View> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const view = await this.read();
      const next = await step(view);
      if (next === view) return view;
      const { ok } = await this.options.store.compareAndSet(VIEW_KEY, encodeView(view), encodeView(next));
      if (!ok) continue;
      this.tell(next);
      return next;
    }
    throw new RpcError('unavailable', 'the view of the group changes faster than it can be set');
  }

  private async read(): Promise<View> {
    const bytes = await this.options.store.get(VIEW_KEY);
    if (bytes === undefined) return EMPTY_VIEW;
    const view = decodeView(bytes);
    if (view === undefined)
      throw new RpcError('failed-precondition', 'the store holds something that is not the view of a group');
    return view;
  }
}

/** One try to come in. */
interface Entry {
  readonly view: View;
  readonly member: ViewMember;
  /** It brought no id of its own. */
  readonly anyId: boolean;
  readonly size: number | undefined;
  readonly deadline: number;
}

interface Watching {
  /** What another worker said about this one's name. */
  conflict: string | undefined;
  stop: () => void;
  /** Resolves at a change, or after so long at most. */
  change: (ms: number) => Promise<void>;
}

function ageKey(name: string, incarnation: number): string {
  return `age/${name}#${incarnation}`;
}

/** Where the accusers of a member are listed. */
function accusations(member: ViewMember): string {
  return `accused/${member.name}#${member.incarnation}/`;
}

function freeId(view: View): number {
  const taken = new Set(view.members.map(({ id }) => id));
  let id = 0;
  while (taken.has(id)) id++;
  return id;
}

function notUnique(kind: 'name-taken' | 'id-taken', member: ViewMember, by: ViewMember): RpcError {
  const text =
    kind === 'name-taken'
      ? `RPC worker name ${member.name} is not unique. Workers ${member.id} and ${by.id} share the same name.`
      : `RPC worker id ${member.id} is not unique. Workers ${member.name} and ${by.name} share the same id.`;
  return new RpcError('failed-precondition', text);
}

/** Two kinds of group, or two sizes; undefined = one without a fixed size. */
function mixed(theirs: number | undefined, ours: number | undefined): string {
  if (theirs !== undefined && ours !== undefined)
    return `the group is one of ${theirs} workers, and this worker expects ${ours}: the world sizes differ`;
  const kind = theirs === undefined ? 'one without a fixed size' : `one of ${theirs} workers`;
  return `RPC group mixes statically and dynamically initialized members which is not supported. The group is ${kind}`;
}

function missing(view: View, size: number): RpcError {
  const here = new Set(view.members.map(({ id }) => id));
  const ranks = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !here.has(rank));
  const shown = ranks.slice(0, 20).join(', ') + (ranks.length > 20 ? ', …' : '');
  return new RpcError(
    'deadline-exceeded',
    `the group is not complete in time: ${view.members.length} of ${size} workers joined, missing ranks ${shown}`,
  );
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
