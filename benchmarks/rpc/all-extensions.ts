/** @file Every extension there is; loaded by those alone who measure what they cost, for they take memory. */
import { distAutograd } from '@backwire/dist-autograd';
import { profiling } from '@backwire/profiler';
import type { Extension } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';

export function allExtensions(): Extension[] {
  return [rrefs(), distAutograd(), profiling()];
}
