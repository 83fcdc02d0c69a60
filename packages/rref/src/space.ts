/** @file RRefs of agents of another kind: what the functions that programs call need of them. */
import type { CallOptions, RpcAgent, To } from '@backwire/rpc';
import type { Named } from '@backwire/tensor';
import type { RRef } from './types.ts';

/** The RRefs of one agent. */
export interface RRefSpace {
  /** Arguments are checked to be a list; `isClass` tells classes from functions. */
  remote(to: To, fn: Named, args: readonly unknown[], options: CallOptions): RRef<unknown>;
  own(value: unknown): RRef<unknown>;
  /** PyTorch's counters. */
  debugInfo(): Record<string, number>;
  /** Every RRef in the tables: owned by whom, held by whom, of what type. */
  list(): { id: string; owner: string; holders: string[]; type: string }[];
}

const spaces = new WeakMap<object, RRefSpace>();

/** Gives an agent RRefs of its own kind; once, when it is made. */
export function provideRRefs(agent: RpcAgent, space: RRefSpace): void {
  spaces.set(agent, space);
}

/** The RRefs of an agent of another kind; undefined for one that has the extension. */
export function spaceOf(agent: RpcAgent): RRefSpace | undefined {
  return spaces.get(agent);
}
