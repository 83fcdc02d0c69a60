/** @file What can happen in an exploration of the agreement of members. */
import type { AgreementRules } from '../../src/protocol/opinions.ts';

/** What can happen to a group; each thing happens once, at any time, or not at all, but what is cut or away comes back in the end. */
export interface Bounds {
  readonly size: number;
  /** One dies; the others find its process gone, or its host refuses them, or there is only silence. */
  readonly death?: { readonly of: number; readonly how: 'proved' | 'refused' | 'silent' };
  /** One stands still for a while. */
  readonly stall?: number;
  /** Who does not reach whom for a while. */
  readonly cut?: readonly Pair[];
  /** Whether the cut is mended. @default true */
  readonly mended?: boolean;
  /** The store goes away, and comes back as it was, or with nothing in it, or never. @default it stays */
  readonly store?: 'same' | 'empty' | 'never';
  /** The store does not run while it is away, and its host says so. @default only silence */
  readonly down?: boolean;
  readonly rules?: Partial<AgreementRules>;
  /** What is under way arrives, in one order, before anything else happens inside the group. @default messages are as slow as all else */
  readonly prompt?: boolean;
}

/** Two that do not reach each other: workers by their ranks, or the store. */
export type Pair = readonly [number | 'store', number | 'store'];

/** What happens to a small group, and how it has to end. */
export interface Scenario extends Bounds {
  readonly name: string;
  /** What must be true of a group that has come to rest, by the ranks that have ended by themselves or were put out; undefined = it is. */
  readonly ends?: ((ended: readonly number[]) => string | undefined) | undefined;
}
