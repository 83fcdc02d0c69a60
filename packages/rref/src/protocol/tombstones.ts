/** @file Forks that were deleted and must not come back: two generations, so that memory is bounded and the recent ones are all there. */
import { MAX_TOMBSTONES_PER_GENERATION } from '../limits.ts';
import { IdMap, type GlobalId } from './ids.ts';

export class Tombstones {
  private recent = new IdMap<GlobalId>();
  private older = new IdMap<GlobalId>();
  private readonly perGeneration: number;

  constructor(perGeneration: number = MAX_TOMBSTONES_PER_GENERATION) {
    this.perGeneration = perGeneration;
  }

  has(id: GlobalId): boolean {
    return this.recent.has(id) || this.older.has(id);
  }

  add(id: GlobalId): void {
    if (this.recent.size >= this.perGeneration) {
      this.older = this.recent;
      this.recent = new IdMap();
    }
    this.recent.set(id, id);
  }

  snapshot(): GlobalId[] {
    return [...this.older.values(), ...this.recent.values()];
  }
}
