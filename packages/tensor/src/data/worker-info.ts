/** @file What the code of a data set knows of the thread it runs in. */

/** The thread that asks, among those of its loader. */
export interface WorkerInfo {
  /** From 0 to below `numWorkers`. */
  readonly id: number;
  readonly numWorkers: number;
  /** What `manualSeed` was called with for this epoch: the loader's number for it, plus `id`. */
  readonly seed: number;
  /** This thread's copy of the data set; undefined while it is opened. */
  readonly dataset: unknown;
}

let current: WorkerInfo | undefined;

/**
 * In a thread of a `DataLoader`, which one it is; undefined everywhere else. A stream of samples takes its share by it, because each thread
 * reads the whole stream otherwise.
 */
export function getWorkerInfo(): WorkerInfo | undefined {
  return current;
}

/** Said before the data set is opened, and once an epoch, by the thread's program. */
export function setWorkerInfo(info: WorkerInfo): void {
  current = Object.freeze(info);
}
