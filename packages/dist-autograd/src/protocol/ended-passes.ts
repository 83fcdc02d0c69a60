/** @file The passes of one context that are over on one worker, and on whose word. */
import { MAX_ENDED, MAX_ORIGINS } from '../limits.ts';
import { memberKey, type MemberKey, type PassId } from './ids.ts';

/**
 * An origin numbers its passes: of its own word all up to a number are over. What others bring or say is of that pass alone, as they can
 * name any number, and one far ahead would keep all that the origin is still to begin from running.
 */
export class EndedPasses {
  /** By origin, what it said itself. */
  private readonly upTo = new Map<MemberKey, number>();
  /** By origin, the highest number that anybody said: no failure up to it is news to hand on. */
  private readonly heard = new Map<MemberKey, number>();
  /** The latest `MAX_ENDED`, newest last. */
  private readonly single = new Set<string>();

  /** Entries that are kept. */
  get size(): number {
    return this.single.size + Math.max(this.upTo.size, this.heard.size);
  }

  /** Whether no message of the pass may begin it here, or go on with it. */
  has(pass: PassId): boolean {
    return pass.n <= (this.upTo.get(memberKey(pass)) ?? 0) || this.single.has(keyOf(pass));
  }

  /** Whether this pass, or a later one of its origin, was said to be over before. */
  isOld(pass: PassId): boolean {
    return pass.n <= (this.heard.get(memberKey(pass)) ?? 0);
  }

  /** @param ofOrigin whether its origin says so, which begins none before it any more. */
  add(pass: PassId, ofOrigin: boolean): void {
    raise(this.heard, pass);
    if (ofOrigin) raise(this.upTo, pass);
    else this.addSingle(keyOf(pass));
  }

  /** What is kept, for a model. */
  describe(): unknown {
    return [[...this.upTo].sort(), [...this.heard].sort(), [...this.single].sort()];
  }

  private addSingle(key: string): void {
    this.single.delete(key);
    this.single.add(key);
    if (this.single.size > MAX_ENDED) for (const oldest of this.single) return void this.single.delete(oldest);
  }
}

function raise(marks: Map<MemberKey, number>, pass: PassId): void {
  const key = memberKey(pass);
  const latest = Math.max(pass.n, marks.get(key) ?? 0);
  marks.delete(key);
  marks.set(key, latest);
  // A peer may name members that there never were: whose pass ended longest ago is forgotten.
  if (marks.size > MAX_ORIGINS) for (const oldest of marks.keys()) return void marks.delete(oldest);
}

function keyOf({ worker, incarnation, n }: PassId): string {
  return `${worker}.${incarnation}.${n}`;
}
