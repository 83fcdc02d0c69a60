/** @file Addresses of transports and the words of dials that were given up. Runs in browsers too. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';
import { DEFAULT_DIAL_TIMEOUT_MS, type DialOptions } from './transport.ts';

/**
 * What `start` begins, within the time given: `done` and `fail` settle it, once, as do the signal and the end of the time. What `start` returns lets go
 * of it then, and is told whether it has failed.
 */
export function settleDial<T>(
  remote: string,
  { timeoutMs = DEFAULT_DIAL_TIMEOUT_MS, signal }: DialOptions,
  start: (done: (value: T) => void, fail: (error: Error) => void) => (isFailed: boolean) => void,
): Promise<T> {
  if (signal?.aborted) return Promise.reject(cancelled(remote, signal));
  return new Promise<T>((resolve, reject) => {
    let settled = false;
    const settle = (isFailed: boolean, outcome: () => void): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      letGo(isFailed);
      outcome();
    };
    const fail = (error: Error): void => settle(true, () => reject(error));
    const onAbort = (): void => fail(cancelled(remote, signal as AbortSignal));
    const letGo = start((value) => settle(false, () => resolve(value)), fail);
    const late = `${remote} did not answer in ${Math.ceil(timeoutMs)} ms`;
    const timer = setTimeout(() => fail(new RpcError('deadline-exceeded', late)), Math.min(timeoutMs, MAX_TIMER_MS));
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

export function cancelled(remote: string, signal: AbortSignal): RpcError {
  return new RpcError('cancelled', `connecting to ${remote} was cancelled`, { cause: signal.reason });
}

/** IPv6 addresses stand in brackets before a port. */
export function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Host and port of 'scheme://host:port'. @throws RpcError 'invalid-argument'. */
export function parseHostPort(endpoint: string, scheme: string): { host: string; port: number } {
  const match = /^([a-z]+):\/\/(?:\[([^\]]+)\]|([^:/[\]]+)):(\d{1,5})$/.exec(endpoint);
  const port = Number(match?.[4]);
  if (match !== null && match[1] === scheme && port > 65_535)
    throw invalidArgument(`the port in '${endpoint}' is ${port}; ports are 0 to 65535`);
  if (match === null || match[1] !== scheme) {
    throw invalidArgument(`'${endpoint}' is not ${scheme}://host:port`);
  }
  return { host: match[2] ?? match[3] ?? '', port };
}

/** In the text of errors of connections that were taken and not answered. */
export const UNANSWERED = 'it was connected, and did not answer in time';

/** One that hangs up sooner has not been too busy to answer. */
const KEPT_MS = 1_000;

/** What to add to the words for a connection that was closed before it was answered, `sinceMs` after it was made. */
export function unanswered(sinceMs: number): string {
  return sinceMs >= KEPT_MS ? `: ${UNANSWERED}` : '';
}

/** What a dial that failed says of the peer: that nobody listens there, that somebody does and has not come to answering, or nothing. */
export function howDialFailed(error: unknown): 'refused' | 'busy' | 'failed' {
  if (isRefusal(error)) return 'refused';
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    // A Unix socket says so when its queue of connections is full.
    if ((at as { code?: unknown }).code === 'EAGAIN' || at.message.includes(UNANSWERED)) return 'busy';
  return 'failed';
}

/** Whether somebody answered that nobody listens there: the process is gone, not merely out of reach. */
export function isRefusal(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code } = at as { code?: unknown };
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return true;
    if (at.message.includes('nobody listens')) return true;
  }
  return false;
}
