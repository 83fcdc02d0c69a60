/** @file Anomaly mode: finds the operation whose gradient went wrong. */
import { runWith } from '../ambient.ts';

/**
 * Runs `fn` so that a backward pass inside it throws at the first NaN gradient, naming the function that gave it; the error's cause
 * shows where its forward operation was called. Slow: for finding faults. Holds across `await`.
 */
export function detectAnomaly<T>(fn: () => T): T {
  return runWith({ anomaly: true }, fn);
}
