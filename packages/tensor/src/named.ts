/** @file The name under which a function or class may be called by peers. */

import { checkedAs } from './arguments.ts';
import { underAutocast } from './autocast.ts';

/** Well-known name under which a function or class may be called by peers: Symbol.for('backwire.rpcName'). */
export const rpcName: unique symbol = Symbol.for('backwire.rpcName') as never;
/** What carries a name that peers may call it by. */
export type Named = { readonly [rpcName]: string };

/** Gives a function its public name, the precision that autocast has for it, and the check of what it takes. */
export function named<F extends (...args: never[]) => unknown>(name: string, fn: F): F & Named {
  return Object.defineProperty(checkedAs(name, underAutocast(name, fn)), rpcName, { value: name }) as F & Named;
}
