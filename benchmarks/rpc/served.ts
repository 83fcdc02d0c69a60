/** @file The functions that Backwire's worker 1 serves. */
import { rpcFunction } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { residentMiB, resetPeak } from '../memory.ts';

export const nothing = rpcFunction('bench/nothing', () => undefined);
/** In a scope: what arrived goes back to the pool once the answer is out, not at the next garbage collection. */
export const echo = rpcFunction('bench/echo', (x: Tensor) => x, { scope: true });
export const peakMiB = rpcFunction('bench/peakMiB', () => residentMiB().peak);
export const forgetPeak = rpcFunction('bench/forgetPeak', () => resetPeak());
