/** @file One worker's way into the view and out of it: past whoever holds its name or id, and through the door where many come at once. */
import { RpcError } from '../base/errors.ts';
import { sleep } from '../base/within.ts';
import { freeId, type Wish } from '../protocol/admission.ts';
import { isRefusal, join, lifeOf, removeAll } from '../protocol/membership.ts';
import type { Life, Refusal, View, ViewMember } from '../protocol/membership.ts';
import { Entrance, type Attended } from './entrance.ts';
import type { GroupStore, LeaseState } from './group-store.ts';
import type { HeldLease } from './held-lease.ts';
import { differs, mixed, notUnique } from './join-errors.ts';
import { entryOf, type Entered, type Entry, type Joiner } from './joiner.ts';
import type { KnownView } from './known-view.ts';

export interface PassageOptions {
  readonly keys: GroupStore;
  readonly view: KnownView;
  readonly lease: HeldLease;
  readonly leaseMs: number;
  /** Ends what is done for others. */
  readonly signal: AbortSignal;
  /** The number of a process on this machine is no process any more; false where that cannot be said. */
  readonly isGone: (member: ViewMember) => boolean;
  /** What shows that this worker wrote its entry of the view; undefined where nothing does. */
  readonly prove: ((member: ViewMember) => string) | undefined;
  /** Whether another's entry was written by a member of the group, as far as that can be shown. */
  readonly isProved: (member: ViewMember) => boolean;
  leaseOf(member: ViewMember): Promise<LeaseState>;
  /** Takes a life out of the view while `still` says so. */
  evict(life: Life, still: () => Promise<boolean>): Promise<unknown>;
  now(): number;
}

/** Workers that are told at once that another expects another size. */
const MAX_TOLD = 16;
/** Between two looks at a name or id that is still taken. */
const RETRY_MS = 200;
/** A lease of a former life that is not seen for so long is gone, although others do not say so. */
const LEASELESS_MS = 2_000;

export class Passage {
  /** Who has the name or the id that this worker waits for. */
  inTheWay: ViewMember | undefined;
  private readonly options: PassageOptions;
  /** The life whose name this worker wants, and since when its lease has not been seen. */
  private leaseless: { readonly life: Life; readonly since: number } | undefined;

  constructor(options: PassageOptions) {
    this.options = options;
  }

  /** Puts this worker into the view, once nobody else holds its name or id. `known`: the view, where it has just been read. */
  async enter(joiner: Joiner, incarnation: number, known: View | undefined, deadline: number): Promise<Entered> {
    const { keys } = this.options;
    const { size } = joiner;
    const anyId = joiner.id === undefined;
    let alone = false;
    for (let view = known ?? (await keys.view()); ; view = await keys.view()) {
      const there = view.members.find((other) => other.name === joiner.name && other.incarnation === incarnation);
      if (there !== undefined) return { member: there, view };
      const member = this.written(entryOf(joiner, incarnation, joiner.id ?? freeId(view)));
      const next = join(view, member, size);
      if (isRefusal(next)) {
        await this.refused(next, { view, member, anyId, size, deadline });
        continue;
      }
      // Where many come at once, whoever loses to another waits at the door.
      if (alone || !(await keys.isDoorTaken())) {
        if (await keys.setView(view, next)) return { member, view: next };
      }
      alone = (await this.wait({ kind: 'join', member, size, anyId }, lifeOf(member))) === 'alone';
    }
  }

  /** Takes a life out of the view, which ends in good order. */
  async leave(life: Life): Promise<void> {
    const { keys, view } = this.options;
    const leaving = new Set([life]);
    const found = await keys.view();
    const next = removeAll(found, leaving, 'left');
    if (next === found || (!(await keys.isDoorTaken()) && (await keys.setView(found, next)))) return;
    await this.wait({ kind: 'leave', life }, life);
    // Nobody may have looked.
    await view.change((latest) => removeAll(latest, leaving, 'left'));
  }

  private written(member: ViewMember): ViewMember {
    const proof = this.options.prove?.(member);
    return proof === undefined ? member : { ...member, proof };
  }

  /** Has somebody look at what this worker wants of the view. */
  private async wait(wish: Wish, life: Life): Promise<Attended> {
    const { keys, view, isProved, signal } = this.options;
    const lease = this.options.lease.current;
    if (lease === undefined) return 'alone';
    const rewrite = (member: ViewMember, id: number): ViewMember | undefined =>
      isProved(member) ? this.written({ ...member, id }) : undefined;
    const entrance = new Entrance({ keys, lease, signal, rewrite, onView: (next) => view.tell(next) });
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
          await Promise.all(view.members.slice(0, MAX_TOLD).map((one) => this.options.keys.tellConflict(one, text)));
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
          await this.options.evict(lifeOf(by), () => this.isOver(by));
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
   * has the leases of the others a moment later. Meanwhile another life may stand there, which has a while of its own.
   */
  private async isOver(by: ViewMember): Promise<boolean> {
    if (this.options.isGone(by)) return true;
    const { state } = await this.options.leaseOf(by);
    const now = this.options.now();
    const life = lifeOf(by);
    if (state === 'alive') this.leaseless = undefined;
    else if (this.leaseless?.life !== life) this.leaseless = { life, since: now };
    return this.leaseless !== undefined && now - this.leaseless.since >= Math.min(LEASELESS_MS, this.options.leaseMs);
  }

  /** Tells the one who holds the name or id too, and fails. */
  private async clash(error: RpcError, by: ViewMember): Promise<never> {
    await this.options.keys.tellConflict(by, error.message);
    throw error;
  }
}
