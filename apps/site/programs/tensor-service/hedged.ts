import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from './pool.ts';

/** Asks a second worker where the first has not answered after `ms`. The first answer counts, and the other call is cancelled. */
export async function hedged<T>(
  pool: Pool,
  attempt: (worker: string, signal: AbortSignal) => Promise<T>,
  ms: number,
  signal: AbortSignal,
): Promise<T> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const ask = (): Promise<T> => pool.call((worker) => attempt(worker, either));
  const first = ask();
  try {
    const late = await Promise.race([first.then(() => false), delay(ms, true, { ref: false })]);
    return await (late ? Promise.any([first, ask()]) : first);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error; // both have failed: what the first said
  } finally {
    over.abort(new Error('the other worker was faster'));
  }
}
