/** @file Who watches whom: every member is watched by a few others, however large the group is. */
import { lifeOf, type ViewMember } from './membership.ts';

/** So many watch each member: one of them may die with it. */
export const WATCHERS = 2;

/**
 * Those that `self` watches: the next few on a ring on which all members stand in the order of a hash of their lives, so that workers of
 * one host, which may die together, are watched from all over the group.
 */
export function watchedBy(self: ViewMember, members: readonly ViewMember[], count = WATCHERS): ViewMember[] {
  const own = place(self);
  const nearest: { member: ViewMember; distance: number }[] = [];
  for (const member of members) {
    if (member.name === self.name) continue;
    const distance = (place(member) - own) >>> 0;
    const last = nearest.at(-1);
    if (nearest.length >= count && last !== undefined && !before(member, distance, last)) continue;
    nearest.push({ member, distance });
    nearest.sort((a, b) => (before(a.member, a.distance, b) ? -1 : 1));
    if (nearest.length > count) nearest.pop();
  }
  return nearest.map(({ member }) => member);
}

/** Two on one place of the ring stand in the order of their names. */
function before(member: ViewMember, distance: number, other: { member: ViewMember; distance: number }): boolean {
  return distance < other.distance || (distance === other.distance && member.name < other.member.name);
}

/** FNV-1a, 32 bits, and a last mix (that of murmur3), because lives differ in their last characters. */
function place(member: ViewMember): number {
  let hash = 0x811c9dc5;
  for (const char of lifeOf(member)) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
