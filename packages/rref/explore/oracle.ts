/** @file What must hold in every world: nothing is freed that somebody can reach, and nothing stays that nobody can. */
import type { Facts } from './locals.ts';
import { LEFT, nameOf, OWNER, type Worlds } from './world.ts';

/** What is wrong with the world of a row, or nothing. */
export function findFault(worlds: Worlds, row: Uint32Array): string | undefined {
  return freedTooEarly(worlds, row) ?? confirmedButUnknown(worlds, row) ?? leak(worlds, row);
}

function freedTooEarly(worlds: Worlds, row: Uint32Array): string | undefined {
  if ((worlds.left(row) & LEFT.freed) === 0) return undefined;
  for (let member = 0; member < worlds.count; member++) {
    const fork = factsAt(worlds, row, member)?.usable[0];
    if (fork !== undefined) return `freed while ${nameOf(member)} holds ${fork.member}.${fork.local}`;
  }
  for (let i = 0; i < worlds.count * (worlds.count - 1); i++)
    if (worlds.queues.carries[row[worlds.count + i] as number] === true)
      return 'freed while a message carries a handle';
  return undefined;
}

function confirmedButUnknown(worlds: Worlds, row: Uint32Array): string | undefined {
  const owner = factsAt(worlds, row, OWNER);
  for (let member = 1; member < worlds.count; member++) {
    const confirmed = factsAt(worlds, row, member)?.confirmed ?? 0;
    if ((confirmed & ~(owner?.registered[member] ?? 0)) !== 0)
      return `${nameOf(member)} holds a confirmed fork which its owner does not know`;
  }
  return undefined;
}

/** Once no handle, no message and no unseen death is left, every table has to be empty. */
function leak(worlds: Worlds, row: Uint32Array): string | undefined {
  const { count } = worlds;
  for (let i = 0; i < count * (count - 1); i++) if (row[count + i] !== 0) return undefined;
  for (let member = 0; member < count; member++) {
    const facts = factsAt(worlds, row, member);
    if (facts === undefined) continue;
    if (facts.epoch !== worlds.latestEpoch(row) || facts.held.length > 0 || facts.toRun !== undefined) return undefined;
  }
  for (let member = 0; member < count; member++) {
    const left = factsAt(worlds, row, member)?.remains;
    if (left !== undefined) return `leak at ${member === OWNER ? 'the owner' : nameOf(member)}: ${left}`;
  }
  return undefined;
}

function factsAt(worlds: Worlds, row: Uint32Array, member: number): Facts | undefined {
  const local = row[member] as number;
  return local === 0 ? undefined : worlds.locals.facts[local];
}
