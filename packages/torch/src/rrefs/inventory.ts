/** @file What RRefs there are, for people: counts, a list, and lines about what is left at the end. */
import { formatId, typeNameOf, type OwnedValue, type OwnerEntry, type ProtocolWorker } from '@backwire/rref/internal';

type Worker = ProtocolWorker<OwnedValue>;
/** A worker's name by its id. */
type NameOf = (worker: number) => string;

/** By torch's names. */
export function countsOf({ owners, users }: Worker): Record<string, number> {
  return {
    num_owner_rrefs: owners.size,
    num_forks: owners.forkCount,
    num_pending_users: users.pendingUsers,
    num_pending_children: users.pendingChildren,
  };
}

/** RRefs that are owned here, then those that are held. */
export function listOf(
  { owners, users }: Worker,
  name: string,
  nameOf: NameOf,
): { id: string; owner: string; holders: string[]; type: string }[] {
  const holders = new Map<OwnerEntry<OwnedValue>, string[]>();
  for (const fork of owners.allForks()) {
    const known = holders.get(fork.entry) ?? [];
    holders.set(fork.entry, [...known, nameOf(fork.holder)]);
  }
  const owned = [...owners.all()].map((entry) => ({
    id: formatId(entry),
    owner: name,
    holders: holders.get(entry) ?? [],
    type: entry.payload?.settled === true ? valueType(entry.payload) : 'unknown',
  }));
  const held = [...users.all()].map((fork) => ({
    id: formatId(fork.rref),
    owner: nameOf(fork.owner),
    holders: [name],
    type: 'unknown',
  }));
  return [...owned, ...held];
}

/** What others hold of this worker's, a line each. */
export function leaksOf({ owners }: Worker, nameOf: NameOf): string[] {
  return [...owners.allForks()].map(
    (fork) => `Leaking RRef ${formatId(fork.entry)} with fork Id ${formatId(fork)}, held by '${nameOf(fork.holder)}'`,
  );
}

/** What this worker holds of others', a line each. */
export function waitsOf({ users }: Worker, nameOf: NameOf): string[] {
  return [...users.all()].map((fork) => `${formatId(fork)} waits for '${nameOf(fork.owner)}'`);
}

function valueType(owned: OwnedValue): string {
  try {
    return typeNameOf(owned.now());
  } catch {
    return 'unknown'; // its creation failed
  }
}
