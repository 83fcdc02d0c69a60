/** @file What learning-rate schedulers need of an optimiser, local or distributed. */

/** Options that a scheduler changes. */
export interface ScheduledGroup {
  lr: number;
  [option: string]: unknown;
}

/** An optimiser, as schedulers see it. */
export interface Scheduled {
  readonly paramGroups: readonly ScheduledGroup[];
}
