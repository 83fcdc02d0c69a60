/** @file What replicas do together, and which calls of a group are made for it. */
import { ambient, runWith } from '../ambient.ts';
import type { Tags } from './replicas.ts';

/** A replica's place among those over the same workers. */
export interface ReplicaSeat {
  /** Which of them it is: members make theirs in the same order. */
  readonly number: number;
  /** The line of meetings of its group; undefined where nobody knows that. */
  readonly line: string | undefined;
  /** The members of its group, by name; undefined where nobody knows them. */
  readonly workers: readonly string[] | undefined;
  /** How much of a pass may be under way at once, when the other members have said what they take. */
  room(): Room | Promise<Room>;
  /** This worker makes no exchange with it after the first `after`: the other members are told, with the cause. */
  fail(cause: unknown, after: number): void;
  /**
   * Calls `told` when another member makes no exchange after the first `after`; at once where that is known already. Returns what ends
   * that.
   */
  watch(told: Told): () => void;
}

/** What buckets that are under way at once may come to, beside one of any size. */
export interface Room {
  readonly bytes: number;
  readonly buckets: number;
}

export type Told = (error: Error, after: number) => void;

/** What a replica does together with the others of its group. What is brought to other workers while that is called belongs to it. */
export interface Exchange {
  readonly seat: ReplicaSeat;
  readonly tags: Tags;
  /** Calls for one bucket meet beside those for others, as hooks take as long as they like. Undefined where there are no others. */
  readonly bucket: number | undefined;
  /** Fires when it has failed, here or elsewhere. */
  readonly signal: AbortSignal;
  /** False when it has come to a good end: what a hook has started and nobody waits for may outlast it. */
  readonly goesOn: () => boolean;
}

/** The exchange for which a group is called now. */
export function currentExchange(): Exchange | undefined {
  const exchange = ambient().exchange as Exchange | undefined;
  return exchange?.goesOn() === true ? exchange : undefined;
}

/** Runs what calls a group for an exchange. */
export function inExchange<T>(exchange: Exchange, fn: () => T): T {
  return runWith({ exchange }, fn);
}
