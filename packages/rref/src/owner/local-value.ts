/** @file The value of an RRef on its owner, without a wait where there is none. */
import type { RRef } from '../types.ts';
import { OwnedValue } from './owned-value.ts';
import { StandIn } from './stand-in.ts';

/** As `localValue()`, but a value that is there is given in this very turn: what handlers do to it is done in the order of their calls. */
export function localValueNow(rref: RRef<unknown>): unknown {
  const { owned } = rref as { readonly owned?: unknown };
  if (!(owned instanceof OwnedValue) || !owned.settled) return rref.localValue();
  const value = owned.now();
  return value instanceof StandIn ? value.local : value;
}
