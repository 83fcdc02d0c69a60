/** @file The name under which a function or class may be called by peers. */

/** Well-known name under which a function or class may be called by peers: Symbol.for('backwire.rpcName'). */
export const rpcName: unique symbol = Symbol.for('backwire.rpcName') as never;
export type Named = { readonly [rpcName]: string };

/** Gives a function its public name. */
export function named<F extends (...args: never[]) => unknown>(name: string, fn: F): F & Named {
  return Object.defineProperty(fn, rpcName, { value: name }) as F & Named;
}
