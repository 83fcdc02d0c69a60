/** @file What to say about a port that cannot be had. */
import { codeOf, LaunchError, messageOf } from './errors.ts';

/** One clear message that names address and port. */
export function portError(host: string, port: number, error: unknown): LaunchError {
  const cause = rootCause(error);
  const taken = codeOf(cause) === 'EADDRINUSE';
  const reason = taken ? 'is already in use' : `cannot be used: ${messageOf(cause)}`;
  return new LaunchError(`port ${port} on ${host} ${reason}`, { cause });
}

/** The system's error inside the errors that passed it on. */
function rootCause(error: unknown): unknown {
  let inner = error;
  while (inner instanceof Error && inner.cause !== undefined) inner = inner.cause;
  return inner;
}
