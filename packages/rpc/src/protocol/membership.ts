/** @file The view of a group: who belongs to it at which epoch, and what a change of it means. */

import { attempt } from '../base/attempt.ts';
import { isWorkerId, isWorkerName } from '../base/worker-info.ts';

/** A worker in one of its lives, as the store keeps it. */
export interface ViewMember {
  readonly name: string;
  readonly id: number;
  readonly incarnation: number;
  /** Where it listens, best first; each with the domain in which that address means something. */
  readonly endpoints: readonly { readonly transport: string; readonly domain: string; readonly address: string }[];
  /** The machine, so that a refusal from it means that the process is gone. */
  readonly host: string;
  /** Its process there; tells a launcher's notice about it from one about its former life. */
  readonly pid: number;
  /** Names of its extensions. */
  readonly extensions: readonly string[];
  /** It tells others what it knows while somebody is in doubt; versions before that do not. */
  readonly reports?: boolean;
  /** Shows who wrote this entry, where the group has a secret; not checked here. */
  readonly proof?: string;
  /** Its device maps by peer, whose answers go the other way; not checked here. */
  readonly deviceMaps?: unknown;
}

/** A worker in one of its lives, as text: 'trainer1#42'. */
export type Life = string;

/** How a former member ended. */
interface Departure {
  readonly name: string;
  readonly id: number;
  readonly incarnation: number;
  readonly how: 'left' | 'dead';
  /** Who wrote it into the view. */
  readonly by?: Life | undefined;
}

/** The agreed state of a group: the value of one key of the store, changed only by compare-and-set. */
export interface View {
  readonly epoch: number;
  /** Who founded the group. Another founder means another history: the store lost the view, and somebody began anew. */
  readonly founder?: Life | undefined;
  /** Closed groups take no one new once they are complete. */
  readonly size: number | undefined;
  readonly members: readonly ViewMember[];
  /** The latest departures, newest last, up to `MAX_DEPARTURES`. */
  readonly departed: readonly Departure[];
}

/** What changed between two views. */
export interface ViewChange {
  readonly joined: readonly ViewMember[];
  readonly left: readonly ViewMember[];
  readonly dead: readonly ViewMember[];
}

/** Departures a view remembers: enough for a watcher that missed that many changes. */
export const MAX_DEPARTURES = 256;
/** Peers tell it each other in 32 bits. */
const MAX_INCARNATION = 0xffff_ffff;
/** Members of one group; ids are 16 bits. */
export const MAX_MEMBERS = 32_768;

export const EMPTY_VIEW: View = Object.freeze({ epoch: 0, size: undefined, members: [], departed: [] });

/** Why someone cannot join. */
export type Refusal =
  | { readonly kind: 'name-taken'; readonly by: ViewMember }
  | { readonly kind: 'id-taken'; readonly by: ViewMember }
  | { readonly kind: 'mixed'; readonly size: number | undefined }
  | { readonly kind: 'full'; readonly size: number }
  | { readonly kind: 'superseded'; readonly by: number }
  /** This life has been a member before, and was put out or left. */
  | { readonly kind: 'departed'; readonly how: Departure['how'] };

/**
 * The view with `member` in it, or why not. Joining again in the same life changes nothing but its addresses; a later life does not
 * replace an earlier one that is still a member: that one has to be removed first. A life that departed never comes back, and neither
 * does one before it: whoever did not hear that it had joined may have been put out since, and others have been told so.
 */
export function join(view: View, member: ViewMember, size: number | undefined): View | Refusal {
  if (view.members.length > 0 && view.size !== size) return { kind: 'mixed', size: view.size };
  const same = view.members.find(({ name }) => name === member.name);
  if (same !== undefined && same.incarnation !== member.incarnation) {
    return same.incarnation > member.incarnation
      ? { kind: 'superseded', by: same.incarnation }
      : { kind: 'name-taken', by: same };
  }
  const departure = view.departed.findLast(
    ({ name, incarnation }) => name === member.name && incarnation >= member.incarnation,
  );
  if (same === undefined && departure !== undefined)
    return departure.incarnation > member.incarnation
      ? { kind: 'superseded', by: departure.incarnation }
      : { kind: 'departed', how: departure.how };
  const sameId = view.members.find(({ id, name }) => id === member.id && name !== member.name);
  if (sameId !== undefined) return { kind: 'id-taken', by: sameId };
  if (size !== undefined && same === undefined && view.members.length >= size) return { kind: 'full', size };
  if (same === undefined && view.members.length >= MAX_MEMBERS) return { kind: 'full', size: MAX_MEMBERS };
  const members = [...view.members.filter((other) => other !== same), member].sort((a, b) => a.id - b.id);
  const founder = view.founder ?? (view.members.length === 0 ? lifeOf(member) : undefined);
  return { ...view, epoch: view.epoch + 1, size, members, ...(founder === undefined ? {} : { founder }) };
}

/** The view without this life of a worker; the same view when it is not a member. */
export function remove(view: View, name: string, incarnation: number, how: 'left' | 'dead', by?: Life): View {
  return removeAll(view, new Set([lifeOf({ name, incarnation })]), how, by);
}

/** The view without these lives, in one change; the same view when none of them is a member. */
export function removeAll(view: View, lives: ReadonlySet<Life>, how: 'left' | 'dead', by?: Life): View {
  const gone = lives.size === 0 ? [] : view.members.filter((member) => lives.has(lifeOf(member)));
  if (gone.length === 0) return view;
  const departed = gone.map(({ name, id, incarnation }): Departure => ({
    name,
    id,
    incarnation,
    how,
    ...(by === undefined ? {} : { by }),
  }));
  return {
    ...view,
    epoch: view.epoch + 1,
    members: view.members.filter((member) => !gone.includes(member)),
    departed: [...view.departed, ...departed].slice(-MAX_DEPARTURES),
  };
}

export function isRefusal(result: View | Refusal): result is Refusal {
  return 'kind' in result;
}

/** Former lives that a member remembers. */
const MAX_FORMER = 65_536;
/** Numbers between two epochs, for what members decide without the store: as many as there can be members, and more. */
export const DECISIONS_PER_EPOCH = 65_536;

/**
 * One worker's knowledge of the group. Views come in any order and more than once; each change is told once, in the order of epochs.
 * What it does not know how it ended counts as dead: nothing may be released on a guess.
 */
export class Membership {
  /** The members, without those that the others have decided to be gone. */
  view: View = EMPTY_VIEW;
  /** The view as the store had it last. */
  stored: View = EMPTY_VIEW;
  private readonly self: { readonly name: string; readonly incarnation: number };
  /** Members of the stored view that are gone nevertheless, and how. */
  private decided = new Map<Life, 'left' | 'dead'>();
  /** Lives that were members and are no more, latest last: a store that has forgotten that does not bring them back. */
  private readonly former = new Map<Life, 'left' | 'dead'>();
  /** The view no longer holds this worker, although it did not leave. */
  fenced = false;

  constructor(self: { name: string; incarnation: number }) {
    this.self = self;
  }

  /**
   * Numbers the views of this worker in their order: the epoch, then how many of its members have been decided to be gone. Of two
   * members with one epoch, whoever has the higher number knows all decisions that the other one knows.
   */
  get number(): number {
    return this.stored.epoch * DECISIONS_PER_EPOCH + this.decided.size;
  }

  /** Those who are in the store's view still, although it was decided, or written before, that they are gone. */
  get unwritten(): ReadonlyMap<Life, 'left' | 'dead'> {
    return this.decided;
  }

  /** Takes a view from the store or a peer; undefined when it is not newer. */
  update(next: View): ViewChange | undefined {
    if (next.epoch <= this.stored.epoch) return undefined;
    this.stored = next;
    this.decided = new Map();
    if (this.former.size > 0)
      for (const life of indexOf(next).order) {
        const how = this.former.get(life);
        if (how !== undefined) this.decided.set(life, how);
      }
    return this.take(this.without(next));
  }

  /** Takes a decision of the members, while the store is away; undefined when it is known. */
  decide(lives: Iterable<Life>, how: 'left' | 'dead'): ViewChange | undefined {
    const known = indexOf(this.stored).lives;
    const news = [...lives].filter((life) => known.has(life) && !this.decided.has(life));
    if (news.length === 0) return undefined;
    for (const life of news) this.decided.set(life, how);
    return this.take(this.without(this.stored));
  }

  private without(view: View): View {
    let rest = view;
    for (const how of ['left', 'dead'] as const) {
      const lives = new Set([...this.decided].filter(([, end]) => end === how).map(([life]) => life));
      rest = removeAll(rest, lives, how);
    }
    return rest === view ? view : { ...rest, epoch: view.epoch };
  }

  private take(next: View): ViewChange {
    const before = this.view;
    this.view = next;
    const is = indexOf(next);
    const was = indexOf(before);
    const gone = others(before, was, is);
    const left = (member: Departure | ViewMember): boolean => is.left.has(lifeOf(member));
    for (const member of gone) this.remember(lifeOf(member), left(member) ? 'left' : 'dead');
    if (gone.some((member) => this.isSelf(member) && !left(member))) this.fenced = true;
    return {
      joined: others(next, is, was).filter((member) => !this.isSelf(member)),
      left: gone.filter((member) => !this.isSelf(member) && left(member)),
      dead: gone.filter((member) => !this.isSelf(member) && !left(member)),
    };
  }

  private remember(life: Life, how: 'left' | 'dead'): void {
    this.former.set(life, how);
    if (this.former.size <= MAX_FORMER) return;
    for (const oldest of this.former.keys()) {
      this.former.delete(oldest);
      break;
    }
  }

  /** Whether this life of a worker belongs to the view. */
  has(name: string, incarnation: number): boolean {
    return this.member(name)?.incarnation === incarnation;
  }

  member(name: string): ViewMember | undefined {
    return indexOf(this.view).names.get(name);
  }

  /** The member of that id. */
  at(id: number): ViewMember | undefined {
    return indexOf(this.view).ids.get(id);
  }

  private isSelf(member: { name: string; incarnation: number }): boolean {
    return member.name === this.self.name && member.incarnation === this.self.incarnation;
  }
}

/** What is looked up in a view, made once for it. */
interface ViewIndex {
  readonly names: ReadonlyMap<string, ViewMember>;
  readonly ids: ReadonlyMap<number, ViewMember>;
  readonly lives: ReadonlySet<string>;
  /** The lives in the order of the members. */
  readonly order: readonly string[];
  /** Those that departed, and of them those that left in good order. */
  readonly departed: readonly string[];
  readonly left: ReadonlySet<string>;
}

/** The members of a view that another does not have. Most have the same place in both, or one a little further on. */
function others(view: View, own: ViewIndex, other: ViewIndex): ViewMember[] {
  const found: ViewMember[] = [];
  for (let i = 0, shift = 0; i < own.order.length; i++) {
    const name = own.order[i] as string;
    if (name === other.order[i + shift]) continue;
    if (!other.lives.has(name)) {
      found.push(view.members[i] as ViewMember);
      shift--;
    } else while (i + shift < other.order.length - 1 && name !== other.order[i + shift]) shift++;
  }
  return found;
}

const indexes = new WeakMap<View, ViewIndex>();

function indexOf(view: View): ViewIndex {
  let index = indexes.get(view);
  if (index === undefined) {
    const order = view.members.map(lifeOf);
    const departed = view.departed.map(lifeOf);
    const left = departed.filter((_, i) => view.departed[i]?.how === 'left');
    const names = new Map(view.members.map((member) => [member.name, member]));
    const ids = new Map(view.members.map((member) => [member.id, member]));
    indexes.set(view, (index = { names, ids, lives: new Set(order), order, departed, left: new Set(left) }));
  }
  return index;
}

/** The lives in a view, in the order of its members, and those that departed from it. Worked out once for all workers of a process. */
export function livesOf(view: View): Pick<ViewIndex, 'order' | 'lives' | 'departed'> {
  return indexOf(view);
}

export function lifeOf(member: { readonly name: string; readonly incarnation: number }): Life {
  return `${member.name}#${member.incarnation}`;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodeView(view: View): Uint8Array {
  return encoder.encode(JSON.stringify(view));
}

/** Reads a view; undefined when the bytes are none (another program's key, a broken store). */
export function decodeView(bytes: Uint8Array): View | undefined {
  const plain = attempt((): unknown => JSON.parse(decoder.decode(bytes)));
  return isView(plain) ? plain : undefined;
}

function isView(value: unknown): value is View {
  if (!isObject(value) || !isCount(value['epoch'])) return false;
  const { size, members, departed, founder } = value;
  if (size !== undefined && size !== null && !isCount(size)) return false;
  if (founder !== undefined && typeof founder !== 'string') return false;
  return (
    Array.isArray(members) &&
    members.length <= MAX_MEMBERS &&
    members.every(isViewMember) &&
    Array.isArray(departed) &&
    departed.every(isDeparture)
  );
}

/** Whether it is an entry of a view: what stores and peers give may be anything. */
export function isViewMember(value: unknown): value is ViewMember {
  if (!isObject(value) || !isLife(value) || typeof value['host'] !== 'string' || !isCount(value['pid'])) return false;
  const { endpoints, extensions } = value;
  return (
    Array.isArray(extensions) &&
    extensions.every((name) => typeof name === 'string') &&
    Array.isArray(endpoints) &&
    endpoints.every(isEndpoint)
  );
}

function isEndpoint(value: unknown): boolean {
  return isObject(value) && ['transport', 'domain', 'address'].every((key) => typeof value[key] === 'string');
}

function isDeparture(value: unknown): boolean {
  if (!isObject(value) || !isLife(value)) return false;
  const { how, by } = value;
  return (how === 'left' || how === 'dead') && (by === undefined || typeof by === 'string');
}

function isLife(value: Record<string, unknown>): boolean {
  return isWorkerName(value['name']) && isWorkerId(value['id']) && isIncarnation(value['incarnation']);
}

/** Whether a worker's life can have this number. */
export function isIncarnation(value: unknown): value is number {
  return isCount(value) && value <= MAX_INCARNATION;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
