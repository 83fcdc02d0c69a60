/** @file Who watches whom: every member is watched by a few others, however large the group is. */
import { hashText } from '@backwire/tensor/internal';
import { lifeOf, type Life, type ViewMember } from './membership.ts';

/** So many watch each member: one of them may die with it. */
export const WATCHERS = 2;
/** In groups of so many everybody puts out who is gone; in larger ones its watchers do, */
const FEW_MEMBERS = 8;
/** and the others, if those have not in so long, and in so much more for each member: that is how long the store takes to set the view and to tell it. */
const WATCHERS_MS = 1_000;
const WATCHERS_MS_PER_MEMBER = 4;

/**
 * Those that `self` watches: the next few on a ring on which all members stand in the order of a hash of their lives, so that workers of
 * one host, which may die together, are watched from all over the group.
 */
export function watchedBy(self: ViewMember, members: readonly ViewMember[], count = WATCHERS): ViewMember[] {
  const ring = ringOf(members);
  const own = place(self);
  let [at, end] = [0, ring.length];
  while (at < end) {
    const middle = (at + end) >>> 1;
    if ((ring[middle] as Stand).place < own) at = middle + 1;
    else end = middle;
  }
  const next: ViewMember[] = [];
  for (let i = 0; i < ring.length && next.length < count; i++) {
    const { member } = ring[(at + i) % ring.length] as Stand;
    if (member.name !== self.name) next.push(member);
  }
  return next;
}

/**
 * How many milliseconds `self` leaves it to others to put out `lives`; 0 where it is its own to do. Those that watch one of them put it
 * out: all others know of it as soon, and each who sets the view has all of it sent to and fro against everybody else. They wait a moment,
 * in which it is done unless the watchers are gone too. `lot`, from 0 to 1, keeps them apart.
 */
export function waitForWatchers(
  self: ViewMember,
  lives: ReadonlySet<Life>,
  members: readonly ViewMember[],
  lot: number,
): number {
  if (members.length <= FEW_MEMBERS) return 0;
  if (watchedBy(self, members).some((member) => lives.has(lifeOf(member)))) return 0;
  return WATCHERS_MS * (1 + lot) + WATCHERS_MS_PER_MEMBER * members.length;
}

/** Where a member stands on the ring; two on one place stand in the order of their names. */
interface Stand {
  readonly place: number;
  readonly member: ViewMember;
}

const rings = new WeakMap<readonly ViewMember[], readonly Stand[]>();

/** Worked out once for all workers of a process. */
function ringOf(members: readonly ViewMember[]): readonly Stand[] {
  let ring = rings.get(members);
  if (ring === undefined) {
    const stands = members.map((member) => ({ place: place(member), member }));
    stands.sort((a, b) => a.place - b.place || (a.member.name < b.member.name ? -1 : 1));
    rings.set(members, (ring = stands));
  }
  return ring;
}

/** A hash with a last mix (that of murmur3), because lives differ in their last characters. */
function place(member: ViewMember): number {
  let hash = hashText(lifeOf(member));
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
