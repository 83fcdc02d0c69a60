/** @file Which errors are the system's own, and not thrown by a handler: the caller gets them under their own code. */
import { RpcError } from './errors.ts';

const SYSTEM = Symbol('system');

/** Marks an error as the system's own. */
export function system(error: RpcError): RpcError {
  return Object.defineProperty(error, SYSTEM, { value: true });
}

/** Errors of extensions' handlers are the system's too: they carry a code; what user code threw was wrapped before. */
export function isSystem(error: unknown): error is RpcError {
  try {
    return error instanceof RpcError && SYSTEM in error;
  } catch {
    return false; // a proxy that does not say what it is
  }
}
