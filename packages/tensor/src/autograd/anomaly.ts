/** @file Anomaly mode: finds the operation whose gradient went wrong. */
import { checkFunction } from '../given.ts';
import { runWith } from '../ambient.ts';
import { isOwnFrame } from '../here.ts';

/**
 * Runs `fn` so that a backward pass inside it throws at the first NaN gradient, naming the function that gave it; the error's cause
 * shows where its forward operation was called. Slow: for finding faults. Holds across `await`.
 */
export function detectAnomaly<T>(fn: () => T): T {
  checkFunction('detectAnomaly', fn);
  return runWith({ anomaly: true }, fn);
}

/** Frames that are looked at: layers within layers put many of the library's between an operation and the program. */
const FRAMES = 200;
/** How many of the program's frames are kept. */
const KEPT = 20;

/** The stack of the program that called an operation, without the library's own frames. */
export function programStack(title: string): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = FRAMES;
  const { stack } = new Error(title);
  Error.stackTraceLimit = limit;
  const frames = (stack ?? '').split('\n').slice(1);
  const program = frames.filter((line) => !/[( ]node:/.test(line) && !isOwnFrame(line));
  return [title, ...(program.length > 0 ? program : frames).slice(0, KEPT)].join('\n');
}
