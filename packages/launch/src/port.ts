/** @file What to say about a port that cannot be had. */
import { codeOf, LaunchError, messageOf } from './errors.ts';

/** One clear message that names address and port. */
export function portError(host: string, port: number, error: unknown): LaunchError {
  const cause = rootCause(error);
  const taken = codeOf(cause) === 'EADDRINUSE';
  // A server has two where browsers reach it too.
  const which = cause instanceof Error && 'port' in cause && typeof cause.port === 'number' ? cause.port : port;
  const reason = taken ? 'is already in use' : `cannot be used: ${messageOf(cause)}`;
  return new LaunchError(`port ${which} on ${host} ${reason}`, { cause });
}

/** The system's error inside the errors that passed it on. */
function rootCause(error: unknown): unknown {
  let inner = error;
  while (inner instanceof Error && inner.cause !== undefined) inner = inner.cause;
  return inner;
}
