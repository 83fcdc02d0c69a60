/** @file What an inspector sees of a worker's RRefs: what it owns that others hold, and what it holds; a bounded part of it. */
import { MAX_INSPECTED } from './limits.ts';
import { formatId, type MemberKey } from './protocol/ids.ts';
import type { OwnerEntry } from './protocol/owner-table.ts';
import type { Cell } from './owner/owned-value.ts';
import { typeNameOf } from './owner/referent.ts';
import type { RRefSession } from './extension.ts';

export interface OwnedLook {
  readonly id: string;
  /** 'unknown' while the value is being made, 'failed' when making it failed. */
  readonly type: string;
  readonly createdAt?: string;
  /** Names of workers, one for each handle. */
  readonly holders: string[];
}

export interface HeldLook {
  readonly id: string;
  /** The owner's name. */
  readonly owner: string;
  readonly createdAt?: string;
  /** Forks that this worker has of it. */
  handles: number;
  /** Whether the owner has confirmed all of them. */
  confirmed: boolean;
}

/** See `ExtensionInternals.inspect`. Reads no value and makes no call. */
export function inspect(session: RRefSession): Record<string, unknown> {
  const { owners, users } = session.worker;
  const owned = new Map<OwnerEntry<Cell>, OwnedLook>();
  for (const entry of owners.all()) {
    if (owned.size === MAX_INSPECTED) break;
    const made = session.creationSites.of(entry.payload);
    owned.set(entry, { id: formatId(entry), type: typeOf(entry.payload), holders: [], ...createdAt(made) });
  }
  const nameOf = (member: MemberKey): string => session.members.worker(member).name;
  for (const fork of owners.allForks()) owned.get(fork.entry)?.holders.push(nameOf(fork.holder));
  const held = new Map<string, HeldLook>();
  let heldTotal = 0;
  for (const fork of users.all()) {
    heldTotal++;
    const key = `${fork.rref.member}.${fork.rref.local}`;
    const known = held.get(key);
    if (known !== undefined) {
      known.handles++;
      known.confirmed &&= fork.confirmed;
    } else if (held.size < MAX_INSPECTED) {
      const made = session.creationSites.of(fork);
      const about = { id: formatId(fork.rref), owner: nameOf(fork.owner), handles: 1, confirmed: fork.confirmed };
      held.set(key, { ...about, ...createdAt(made) });
    }
  }
  return { owned: [...owned.values()], held: [...held.values()], ownedTotal: owners.size, heldTotal };
}

/** The type of what a cell holds, as far as there is something. */
export function typeOf(cell: Cell | undefined): string {
  if (cell?.settled !== true) return 'unknown';
  try {
    return typeNameOf(cell.now());
  } catch {
    return 'failed';
  }
}

function createdAt(made: string | undefined): { createdAt?: string } {
  return made === undefined ? {} : { createdAt: made };
}
