/** @file The functions that Backwire's worker 1 serves. */
import { rpcFunction } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';

export const nothing = rpcFunction('bench/nothing', () => undefined);
export const echo = rpcFunction('bench/echo', (x: Tensor) => x);
