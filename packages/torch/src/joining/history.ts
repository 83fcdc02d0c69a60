/** @file What workers of this process did in torch groups before: a process of torch counts it as long as it lives, and expects the same count of others. */

/** One worker's part in one group, over all its lives there. */
export class History {
  /** How often it joined it as a static group. */
  joins = 0;
  /** Rounds of `CallBarrier`. */
  rounds = 0;
  /** Collectives, by the names of all who took part. */
  readonly collectives = new Map<string, number>();
}

const histories = new Map<string, History>();

/** The history of the worker `name` in the group whose store is at `endpoint`; a new one where its first life begins. Kept for good. */
export function historyOf(endpoint: string, name: string, first: boolean): History {
  const key = `${endpoint} ${name}`;
  const history = (first ? undefined : histories.get(key)) ?? new History();
  histories.set(key, history);
  return history;
}
