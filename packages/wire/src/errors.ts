/** @file The one error class of the wire format. */

/**
 * - `protocol-error`: the peer broke the framing; the connection cannot be read further.
 * - `decode-error`: one message is malformed; the connection is still in step.
 * - `limit`: a size is over its bound, on either side.
 */
export type WireErrorCode = 'protocol-error' | 'decode-error' | 'limit';

/** Bytes that cannot be read or a value that cannot be written. The message starts with the code. */
export class WireError extends Error {
  override readonly name = 'WireError';
  readonly code: WireErrorCode;
  /** What was wrong: a field, a limit's name, a place in a value. */
  readonly what: string;
  /** The bound that was broken, for `limit`. */
  readonly limit: number | undefined;
  /** The value that broke it, for `limit`. */
  readonly value: number | undefined;

  constructor(code: WireErrorCode, what: string, detail: { limit?: number; value?: number; cause?: unknown } = {}) {
    const bound = detail.limit === undefined ? '' : ` (${detail.value ?? '?'} over the limit of ${detail.limit})`;
    super(`${code}: ${what}${bound}`, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    this.what = what;
    this.limit = detail.limit;
    this.value = detail.value;
  }
}

/** For framing that is broken: the caller closes the connection. */
export function protocolError(what: string): WireError {
  return new WireError('protocol-error', what);
}

/** For one message that cannot be understood. */
export function decodeError(what: string, cause?: unknown): WireError {
  return new WireError('decode-error', what, cause === undefined ? {} : { cause });
}

/** Throws `limit` when `value` is over `limit`; call it before allocating. */
export function checkLimit(what: string, value: number, limit: number): void {
  if (value > limit) throw limitError(what, value, limit);
}

/** The error of a broken bound. */
export function limitError(what: string, value: number, limit: number): WireError {
  return new WireError('limit', what, { value, limit });
}
