/** @file Many changes of a view as one: workers that want in and members that want out write it down, and one of them takes all. */
import {
  isRefusal,
  isViewMember,
  join,
  lifeOf,
  removeAll,
  type Life,
  type View,
  type ViewMember,
} from './membership.ts';

/** What a worker wants of the view. */
export type Wish =
  | {
      readonly kind: 'join';
      readonly member: ViewMember;
      /** The size of a closed group; undefined for one that is open. */
      readonly size?: number | undefined;
      /** It brought no id of its own: that of `member` may be another's by now. */
      readonly anyId?: boolean | undefined;
    }
  | { readonly kind: 'leave'; readonly life: Life };

/** What became of wishes. */
export interface Taken {
  /** One epoch later; the same view when nothing had to change. */
  readonly view: View;
  /** The lives whose wishes are true of it. Those of the others are theirs to look at: each is told why on its own. */
  readonly granted: readonly Life[];
}

/**
 * The view with all wishes in it that it allows. Who leaves goes first, then those who join, in the order of their lives: of two that
 * want one name or one id the first to come has it, as if each had come alone.
 * @param rewrite Gives a newcomer another id; undefined when it may not be written down by this worker.
 */
export function takeAll(
  before: View,
  wishes: Iterable<Wish>,
  rewrite: (member: ViewMember, id: number) => ViewMember | undefined,
): Taken {
  const all = [...wishes];
  const leaving = new Set(all.flatMap((wish) => (wish.kind === 'leave' ? [wish.life] : [])));
  const granted: Life[] = [...leaving];
  let view = removeAll(before, leaving, 'left');
  const lives = new Set(view.members.map(lifeOf));
  const free = freeIds(view);
  const joining = all.flatMap((wish) => (wish.kind === 'join' ? [wish] : []));
  joining.sort((a, b) => a.member.incarnation - b.member.incarnation || (a.member.name < b.member.name ? -1 : 1));
  for (const { member, size, anyId } of joining) {
    const life = lifeOf(member);
    // Another has taken it in already, and could not say so.
    const known = lives.has(life);
    const placed = known || anyId !== true || free.has(member.id) ? member : rewrite(member, free.next());
    const next = known || placed === undefined ? undefined : join(view, placed, size);
    if (!known && (next === undefined || isRefusal(next))) continue;
    granted.push(life);
    if (next === undefined || isRefusal(next) || placed === undefined) continue;
    view = next;
    lives.add(life);
    free.take(placed.id);
  }
  return { view: view === before ? before : { ...view, epoch: before.epoch + 1 }, granted };
}

interface FreeIds {
  has(id: number): boolean;
  /** The lowest. */
  next(): number;
  take(id: number): void;
}

function freeIds(view: View): FreeIds {
  const taken = new Set(view.members.map(({ id }) => id));
  let lowest = 0;
  return {
    has: (id) => !taken.has(id),
    next: () => {
      while (taken.has(lowest)) lowest++;
      return lowest;
    },
    take: (id) => void taken.add(id),
  };
}

/** The lowest id that no member has. */
export function freeId(view: View): number {
  return freeIds(view).next();
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodeWish(wish: Wish): Uint8Array {
  return encoder.encode(JSON.stringify(wish));
}

/** Reads a wish; undefined when the bytes are none. */
export function decodeWish(bytes: Uint8Array): Wish | undefined {
  try {
    const plain = JSON.parse(decoder.decode(bytes)) as Record<string, unknown>;
    if (plain['kind'] === 'leave') return typeof plain['life'] === 'string' ? (plain as unknown as Wish) : undefined;
    const { kind, member, size, anyId } = plain;
    if (kind !== 'join' || !isViewMember(member)) return undefined;
    if (size !== undefined && !(Number.isSafeInteger(size) && (size as number) > 0)) return undefined;
    return { kind, member, size: size as number | undefined, anyId: anyId === true };
  } catch {
    return undefined;
  }
}
