/** @file What there is to see of a worker's RRefs: what it owns that others hold, and what it holds. */
import { attempt } from '@backwire/rpc/internal';
import type { CreationSites } from './creation-sites.ts';
import type { MemberDirectory } from './members.ts';
import type { OwnedValue } from './owner/owned-value.ts';
import { typeNameOf } from './owner/referent.ts';
import { formatId, type MemberKey } from './protocol/ids.ts';
import type { OwnerEntry } from './protocol/owner-table.ts';
import type { ProtocolWorker } from './protocol/worker.ts';

interface OwnedLook {
  readonly id: string;
  /** 'unknown' while the value is being made, 'failed' when making it failed. */
  readonly type: string;
  readonly createdAt?: string;
  /** Names of workers, one for each handle. */
  readonly holders: string[];
}

interface HeldLook {
  readonly id: string;
  /** The owner's name. */
  readonly owner: string;
  readonly createdAt?: string;
  /** Forks that this worker has of it. */
  handles: number;
  /** Whether the owner has confirmed all of them. */
  confirmed: boolean;
}

/** What looking needs of the extension that is looked at. */
interface LookHost {
  readonly worker: Pick<ProtocolWorker<OwnedValue>, 'owners' | 'users'>;
  readonly creationSites: CreationSites;
  readonly members: MemberDirectory;
}

/** At most `most` RRefs of each side; the totals count the rest. Reads no value and makes no call. */
export function lookAt(
  { worker, creationSites, members }: LookHost,
  most = Infinity,
): { owned: OwnedLook[]; held: HeldLook[]; ownedTotal: number; heldTotal: number } {
  const { owners, users } = worker;
  const nameOf = (member: MemberKey): string => members.worker(member).name;
  const made = (key: object | undefined): { createdAt?: string } => {
    const createdAt = creationSites.of(key);
    return createdAt === undefined ? {} : { createdAt };
  };
  const owned = new Map<OwnerEntry<OwnedValue>, OwnedLook>();
  for (const entry of owners.all()) {
    if (owned.size === most) break;
    owned.set(entry, { id: formatId(entry), type: typeOf(entry.payload), holders: [], ...made(entry.payload) });
  }
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
    } else if (held.size < most) {
      const about = { id: formatId(fork.rref), owner: nameOf(fork.owner), handles: 1, confirmed: fork.confirmed };
      held.set(key, { ...about, ...made(fork) });
    }
  }
  return { owned: [...owned.values()], held: [...held.values()], ownedTotal: owners.size, heldTotal };
}

/** The type of a value, as far as there is one. */
function typeOf(owned: OwnedValue | undefined): string {
  if (owned?.settled !== true) return 'unknown';
  return attempt(() => typeNameOf(owned.now())) ?? 'failed';
}
