/** @file The table of error classes that may travel, and the names by which workers know them. */
import { rpcName } from '@backwire/tensor';
import { RpcError } from './errors.ts';
import { show } from './shown.ts';

type ErrorCtor = new (message: string) => Error;

// On a well-known global symbol, so that two installed copies of this package agree.
const KEY = Symbol.for('backwire.rpc.errorTypes');
const holder = globalThis as { [KEY]?: Map<string, ErrorCtor> };
const table: Map<string, ErrorCtor> = (holder[KEY] ??= new Map<string, ErrorCtor>([
  ['Error', Error],
  ['EvalError', EvalError],
  ['RangeError', RangeError],
  ['ReferenceError', ReferenceError],
  ['SyntaxError', SyntaxError],
  ['TypeError', TypeError],
  ['URIError', URIError],
]));

/** Standard too, but made of more than a message. */
const STANDARD: ReadonlySet<string> = new Set(['AggregateError', 'DOMException']);

/**
 * Lets errors of a class arrive as that class. The class is known by its `static readonly [rpcName]`, else by its name, the same on
 * both sides, and is rebuilt with the original message alone. Bundlers that minify rename classes, so a class of a page has an `rpcName`.
 * @param ctor a class that is made from its message alone; own properties travel and are put on it
 * @throws RpcError 'invalid-argument' when its name is another class already; TypeError for what is no class.
 * @example
 * ```ts workers=worker1
 * class OutOfStock extends Error {}
 * registerErrorType(OutOfStock); // on both sides
 *
 * const buy = rpcFunction('example/buy', () => {
 *   throw new OutOfStock('no tea');
 * });
 * await rpcSync('worker1', buy).catch((error: unknown) => console.log(error instanceof OutOfStock)); // true
 * ```
 */
export function registerErrorType(ctor: new (message: string) => Error): void {
  if (typeof ctor !== 'function') throw new TypeError(`registerErrorType() takes a class of errors, got ${show(ctor)}`);
  const name = errorClassName(ctor);
  const known = table.get(name);
  if (known === ctor || STANDARD.has(name)) return;
  if (name === '') throw new RpcError('invalid-argument', 'an error type needs a class name');
  if (known !== undefined) throw new RpcError('invalid-argument', `error type '${name}' is already registered`);
  table.set(name, ctor);
}

/** The class registered under `name`, standard ones included. */
export function errorTypeOf(name: string): ErrorCtor | undefined {
  return table.get(name);
}

/**
 * What other workers know a class of errors by: its own `rpcName`, else the name that it has in this program. A class that extends one
 * with an `rpcName` is another one. May throw, as the fields of a stranger's class may.
 */
export function errorClassName(ctor: object): string {
  const own: unknown = Object.hasOwn(ctor, rpcName) ? (ctor as { [rpcName]?: unknown })[rpcName] : undefined;
  if (typeof own === 'string' && own !== '') return own;
  const { name } = ctor as { name?: unknown };
  return typeof name === 'string' ? name : '';
}
