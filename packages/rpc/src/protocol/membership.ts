/** @file The view of a group: who belongs to it at which epoch, and what a change of it means. */

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
  /** Its device maps by peer, whose answers go the other way; not checked here. */
  readonly deviceMaps?: unknown;
}

/** How a former member ended. */
export interface Departure {
  readonly name: string;
  readonly id: number;
  readonly incarnation: number;
  readonly how: 'left' | 'dead';
}

/** The agreed state of a group: the value of one key of the store, changed only by compare-and-set. */
export interface View {
  readonly epoch: number;
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
  return { ...view, epoch: view.epoch + 1, size, members };
}

/** The view without this life of a worker; the same view when it is not a member. */
export function remove(view: View, name: string, incarnation: number, how: 'left' | 'dead'): View {
  const gone = view.members.find((member) => member.name === name && member.incarnation === incarnation);
  if (gone === undefined) return view;
  const departure: Departure = { name, id: gone.id, incarnation, how };
  return {
    ...view,
    epoch: view.epoch + 1,
    members: view.members.filter((member) => member !== gone),
    departed: [...view.departed, departure].slice(-MAX_DEPARTURES),
  };
}

export function isRefusal(result: View | Refusal): result is Refusal {
  return 'kind' in result;
}

/**
 * One worker's knowledge of the group. Views come in any order and more than once; each change is told once, in the order of epochs.
 * What it does not know how it ended counts as dead: nothing may be released on a guess.
 */
export class Membership {
  view: View = EMPTY_VIEW;
  private readonly self: { readonly name: string; readonly incarnation: number };
  /** The view no longer holds this worker, although it did not leave. */
  fenced = false;

  constructor(self: { name: string; incarnation: number }) {
    this.self = self;
  }

  /** Takes a view from the store or a peer; undefined when it is not newer. */
  update(next: View): ViewChange | undefined {
    if (next.epoch <= this.view.epoch) return undefined;
    const before = this.view;
    this.view = next;
    const is = indexOf(next);
    const was = indexOf(before);
    const gone = others(before, was, is);
    const left = (member: Departure | ViewMember): boolean => is.left.has(life(member));
    if (gone.some((member) => this.isSelf(member) && !left(member))) this.fenced = true;
    return {
      joined: others(next, is, was).filter((member) => !this.isSelf(member)),
      left: gone.filter((member) => !this.isSelf(member) && left(member)),
      dead: gone.filter((member) => !this.isSelf(member) && !left(member)),
    };
  }

  /** Whether this life of a worker belongs to the view. */
  has(name: string, incarnation: number): boolean {
    return this.member(name)?.incarnation === incarnation;
  }

  member(name: string): ViewMember | undefined {
    return indexOf(this.view).names.get(name);
  }

  private isSelf(member: { name: string; incarnation: number }): boolean {
    return member.name === this.self.name && member.incarnation === this.self.incarnation;
  }
}

/** What is looked up in a view, made once for it. */
interface ViewIndex {
  readonly names: ReadonlyMap<string, ViewMember>;
  readonly lives: ReadonlySet<string>;
  /** The lives in the order of the members. */
  readonly order: readonly string[];
  /** The lives that left in good order. */
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
    const order = view.members.map(life);
    const left = view.departed.filter(({ how }) => how === 'left').map(life);
    const names = new Map(view.members.map((member) => [member.name, member]));
    indexes.set(view, (index = { names, lives: new Set(order), order, left: new Set(left) }));
  }
  return index;
}

function life(member: { readonly name: string; readonly incarnation: number }): string {
  return `${member.name}#${member.incarnation}`;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodeView(view: View): Uint8Array {
  return encoder.encode(JSON.stringify(view));
}

/** Reads a view; undefined when the bytes are none (another program's key, a broken store). */
export function decodeView(bytes: Uint8Array): View | undefined {
  try {
    const plain: unknown = JSON.parse(decoder.decode(bytes));
    return isView(plain) ? plain : undefined;
  } catch {
    return undefined;
  }
}

function isView(value: unknown): value is View {
  if (!isObject(value) || !isCount(value['epoch'])) return false;
  const { size, members, departed } = value;
  if (size !== undefined && size !== null && !isCount(size)) return false;
  return (
    Array.isArray(members) &&
    members.length <= MAX_MEMBERS &&
    members.every(isMember) &&
    Array.isArray(departed) &&
    departed.every(isDeparture)
  );
}

function isMember(value: unknown): boolean {
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
  return isObject(value) && isLife(value) && (value['how'] === 'left' || value['how'] === 'dead');
}

function isLife(value: Record<string, unknown>): boolean {
  return typeof value['name'] === 'string' && isCount(value['id']) && isCount(value['incarnation']);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
