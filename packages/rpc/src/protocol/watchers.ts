/** @file Who watches whom: every member is watched by a few others, however large the group is. */
import { lifeOf, type ViewMember } from './membership.ts';

/** So many watch each member: one of them may die with it. */
export const WATCHERS = 2;

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

/** FNV-1a, 32 bits, and a last mix (that of murmur3), because lives differ in their last characters. */
function place(member: ViewMember): number {
  let hash = 0x811c9dc5;
  for (const char of lifeOf(member)) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
