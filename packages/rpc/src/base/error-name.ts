/** @file One word for a failure: its code, or the class that a handler threw. It tells nothing of the values involved. */
import { attempt } from './attempt.ts';
import { errorClassName } from './error-types.ts';
import { RemoteError, RpcError } from './errors.ts';
import { isSystem } from './system-error.ts';

/** Characters of a word: the names of classes come from other workers, too. */
const MAX_NAME = 256;

/**
 * The word for a failure, the same at the caller and at the callee: the code of a failure of the system, else the class of what the
 * handler threw, wherever that was. Never throws, whatever is thrown.
 */
export function errorName(error: unknown): string {
  return (attempt(() => wordFor(error)) ?? typeof error).slice(0, MAX_NAME);
}

function wordFor(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const name = classNameOf(error);
  if (error instanceof RpcError && (isSystem(error) || isRpcErrorName(name)))
    return error instanceof RemoteError ? error.remoteName : error.code;
  // An error of no class of its own may have a name, and one class of the platform has many kinds, which its names tell apart.
  const own: unknown = name === 'Error' || name === 'DOMException' ? error.name : name;
  return typeof own === 'string' && own !== '' ? own : 'Error';
}

/** Whether a class is one of those that have a code. */
export function isRpcErrorName(name: string): boolean {
  return name === 'RpcError' || name === 'RemoteError';
}

/** `error.name` is inherited unless a class sets it; what the class is known by says more. May throw, as the error's fields may. */
export function classNameOf(error: Error): string {
  const ctor: unknown = error.constructor;
  // Bundlers for pages give classes shorter names, and other workers know these two by their own.
  if (ctor === RpcError) return 'RpcError';
  if (ctor === RemoteError) return 'RemoteError';
  const known = typeof ctor === 'function' ? errorClassName(ctor) : '';
  const name = known === '' ? error.name : known;
  return name === '' ? 'Error' : name;
}
