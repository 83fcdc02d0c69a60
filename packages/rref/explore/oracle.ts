/** @file What must hold in every state: nothing is freed that somebody can reach, and nothing stays that nobody can. */
import type { WorkerState } from '../src/protocol/worker.ts';
import { OWNER, type World } from './model.ts';

/** What is wrong with a state, or nothing. */
export function findFault(world: World): string | undefined {
  return freedTooEarly(world) ?? confirmedButUnknown(world) ?? leak(world);
}

function freedTooEarly(world: World): string | undefined {
  if (!world.freed) return undefined;
  for (const [site, state] of world.workers.entries()) {
    for (const fork of state?.user.forks ?? []) {
      if (fork.failure === undefined && !fork.released)
        return `freed while user ${site} holds ${fork.id.site}.${fork.id.local}`;
    }
  }
  const carrier = world.channels.flat().find((packet) => packet.kind === 'fork');
  return carrier === undefined ? undefined : 'freed while a message carries a handle';
}

function confirmedButUnknown(world: World): string | undefined {
  const owner = world.workers[OWNER];
  if (owner === undefined) return undefined;
  const registered = new Set(owner.owner.forks.map((fork) => `${fork.id.site}.${fork.id.local}@${fork.holder}`));
  for (const [site, state] of world.workers.entries()) {
    for (const fork of state?.user.forks ?? []) {
      if (fork.phase !== 'confirmed' || fork.failure !== undefined) continue;
      const key = `${fork.id.site}.${fork.id.local}@${site}`;
      if (!registered.has(key)) return `user ${site} holds the confirmed fork ${key}, which its owner does not know`;
    }
  }
  return undefined;
}

/** Once no handle, no message and no unseen death is left, every table has to be empty. */
function leak(world: World): string | undefined {
  if (world.ownerHandle || world.channels.some((queue) => queue.length > 0)) return undefined;
  const epoch = world.deaths.length + 1;
  for (const [site, state] of world.workers.entries()) {
    if (state === undefined) continue;
    if (world.epochs[site] !== epoch || state.user.forks.some((fork) => !fork.released)) return undefined;
    if (state.owner.entries.some((entry) => entry.phase === 'created')) return undefined;
  }
  for (const [site, state] of world.workers.entries()) {
    const left = state === undefined ? undefined : remains(state);
    if (left !== undefined) return `leak at ${site === OWNER ? 'the owner' : `user ${site}`}: ${left}`;
  }
  return undefined;
}

function remains({ owner, user, fence }: WorkerState<true>): string | undefined {
  if (owner.entries.length > 0) return 'an RRef that nobody holds';
  if (owner.forks.length > 0) return 'a fork that nobody holds';
  if (user.forks.length > 0) return 'a released fork that is never deleted';
  if (user.children.length > 0) return 'a child that is never accepted';
  return fence.dead.length > 0 ? 'a fence that never closes' : undefined;
}
