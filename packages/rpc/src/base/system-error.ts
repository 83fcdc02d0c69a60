/** @file Which errors are the system's own, and not thrown by a handler: the caller gets them under their own code. */
import { RpcError } from './errors.ts';

const SYSTEM = Symbol('system');

/** Marks an error as the system's own. */
export function system(error: RpcError): RpcError {
  return Object.defineProperty(error, SYSTEM, { value: true });
}

const THROWN = new WeakSet<object>();

/** Marks an error as one that a handler threw, here or elsewhere: the caller gets it as such, from a handler of an extension, too. */
export function thrown<T>(error: T): T {
  if (typeof error === 'object' && error !== null) THROWN.add(error);
  return error;
}

/** Whether a handler threw it. */
export function wasThrown(error: object): boolean {
  return THROWN.has(error);
}

/** Errors of extensions' handlers are the system's too: they carry a code; what user code threw was wrapped before. */
export function isSystem(error: unknown): error is RpcError {
  try {
    return error instanceof RpcError && SYSTEM in error;
  } catch {
    return false; // a proxy that does not say what it is
  }
}
