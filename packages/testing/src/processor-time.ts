/** @file How long this process computes, which a busy machine does not make longer, as it does the time on the wall. */

/** Milliseconds of processor time that this process, with its threads, takes for `run`. */
export function processorMs(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
