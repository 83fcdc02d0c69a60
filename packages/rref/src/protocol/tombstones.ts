/** @file Forks that were deleted and must not come back: two generations, so that memory is bounded and the recent ones are all there. */
import { MAX_TOMBSTONES_PER_GENERATION } from '../limits.ts';
import { IdMap, type GlobalId, type MemberKey } from './ids.ts';

/** A fork that was deleted, and by whom: what one holder deletes says nothing of the handles of others. */
export interface Tombstone extends GlobalId {
  readonly holder: MemberKey;
}

export class Tombstones {
  private recent = new IdMap<Tombstone>();
  private older = new IdMap<Tombstone>();
  private readonly perGeneration: number;

  constructor(perGeneration: number = MAX_TOMBSTONES_PER_GENERATION) {
    this.perGeneration = perGeneration;
  }

  has(id: GlobalId, holder: MemberKey): boolean {
    return this.recent.get(id)?.holder === holder || this.older.get(id)?.holder === holder;
  }

  /** `registered`: the fork was known to be the holder's. A word about one that was not takes no other's place. */
  add({ member, local }: GlobalId, holder: MemberKey, registered: boolean): void {
    const id = { member, local, holder };
    if (!registered && (this.recent.has(id) || this.older.has(id))) return;
    if (this.recent.size >= this.perGeneration) {
      this.older = this.recent;
      this.recent = new IdMap();
    }
    this.recent.set(id, id);
  }

  snapshot(): Tombstone[] {
    return [...this.older.values(), ...this.recent.values()];
  }
}
