/** @file Who is who in the group. */

export const COORDINATOR = 'coordinator';
export const SERVER = 'server';

/** The name of a worker: rank 0 coordinates, rank 1 owns the parameters, the others train. */
export function nameOf(rank: number): string {
  if (rank === 0) return COORDINATOR;
  return rank === 1 ? SERVER : `trainer${rank - 2}`;
}

/** How many processes a run has. */
export function worldSize(trainers: number): number {
  return trainers + 2;
}
