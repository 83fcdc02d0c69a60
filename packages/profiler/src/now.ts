/** @file The clock of events. */

/** A monotonic time in microseconds. */
export function nowUs(): number {
  return performance.now() * 1000;
}

/** The same moment in microseconds since the epoch, which processes of one host share. */
export function epochUs(us: number): number {
  return performance.timeOrigin * 1000 + us;
}
