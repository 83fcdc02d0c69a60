/** @file What is said of what a signal has ended. */
import { RpcError, type RpcErrorFields } from './errors.ts';

/** In words; a signal that was a time limit (`AbortSignal.timeout`) is told apart from one that somebody has fired. */
export function cancelledText(what: string, reason: unknown): string {
  const isTime = reason instanceof Error && reason.name === 'TimeoutError';
  return `${what} was cancelled${isTime ? ': the time of its signal, an AbortSignal.timeout(), was up' : ''}`;
}

/** The error of it, with the signal's reason as its cause. */
export function cancelled(what: string, reason: unknown, more: Omit<RpcErrorFields, 'cause'> = {}): RpcError {
  return new RpcError('cancelled', cancelledText(what, reason), { ...more, cause: reason });
}
