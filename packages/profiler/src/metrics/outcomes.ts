/** @file Which functions and outcomes metrics tell apart: so many, for their names come from other workers, and each makes a series of its own. */
import { isRpcErrorCode, MAX_METHODS } from '@backwire/rpc/internal';
import { MAX_OUTCOMES } from '../limits.ts';

/** What functions and classes of errors beyond the bound are counted as. */
export const OTHER = 'other';

/** The words by which a call is counted. */
export interface Counted {
  readonly method: string;
  /** The code or class of the failure; '' for success. */
  readonly error: string;
}

/** Remembers the words that were given, and gives 'other' once there are too many. Codes are few and always kept apart. */
export class Outcomes {
  private readonly classesOf = new Map<string, Set<string>>();

  of(method: string, error: string): Counted {
    const kept = this.classesOf.has(method) || this.classesOf.size < MAX_METHODS ? method : OTHER;
    let classes = this.classesOf.get(kept);
    if (classes === undefined) this.classesOf.set(kept, (classes = new Set()));
    if (error === '' || isRpcErrorCode(error) || classes.has(error)) return { method: kept, error };
    if (classes.size >= MAX_OUTCOMES) return { method: kept, error: OTHER };
    classes.add(error);
    return { method: kept, error };
  }
}
