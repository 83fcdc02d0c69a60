/** @file The functions that Backwire's worker 1 serves. */
import { rpcFunction } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { residentMiB, resetPeak, usedMiB } from '../memory.ts';

export const nothing = rpcFunction('bench/nothing', () => undefined);
/** In a scope: what arrived goes back to the pool once the answer is out, not at the next garbage collection. */
export const echo = rpcFunction('bench/echo', (x: Tensor) => x, { scope: true });
export const peakMiB = rpcFunction('bench/peakMiB', () => residentMiB().peak);
export const forgetPeak = rpcFunction('bench/forgetPeak', () => resetPeak());
export const heapMiB = rpcFunction('bench/heapMiB', () => usedMiB());

let release = (): void => undefined;
let released = new Promise<void>((resolve) => (release = resolve));
/** Returns when it is told to. */
export const wait = rpcFunction('bench/wait', () => released);
export const letGo = rpcFunction('bench/letGo', () => {
  release();
  released = new Promise((resolve) => (release = resolve));
});
