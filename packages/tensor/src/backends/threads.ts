/** @file How many threads a kernel of this process may use. */
import { kindOf } from '../given.ts';

let chosen: number | undefined;
const listeners: ((threads: number) => void)[] = [];

/**
 * How many threads one kernel may use, on backends whose kernels have any: what `setNumThreads` or OMP_NUM_THREADS says, else this process's
 * share of the processors: all of them, divided by the workers that a launcher started on this host (LOCAL_WORLD_SIZE).
 */
export function getNumThreads(): number {
  return chosen ?? given('OMP_NUM_THREADS') ?? Math.max(1, Math.floor(processors() / (given('LOCAL_WORLD_SIZE') ?? 1)));
}

/**
 * Bounds the threads of one kernel. On `blas` at once; on `tensorflow` only before its first operation; `wasm` and `cpu` kernels have one.
 * @throws RangeError unless a whole number of at least 1. @throws TensorError where `tensorflow` has started with another number.
 */
export function setNumThreads(threads: number): void {
  if (!Number.isInteger(threads) || threads < 1)
    throw new RangeError(`a number of threads must be a whole number of at least 1, got ${kindOf(threads)}`);
  for (const listener of listeners) listener(threads);
  chosen = threads;
}

/** Calls `listener` before each change. */
export function onThreads(listener: (threads: number) => void): void {
  listeners.push(listener);
}

function given(name: string): number | undefined {
  const value = Number(globalThis.process?.env?.[name]);
  return Number.isInteger(value) && value >= 1 ? value : undefined;
}

function processors(): number {
  return globalThis.process?.getBuiltinModule?.('node:os').availableParallelism() ?? 1;
}
