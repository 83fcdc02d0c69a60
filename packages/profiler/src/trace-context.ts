/** @file W3C trace context as bytes: `traceparent`, a line feed and `tracestate`, which may be empty. */

/** Where a trace stands. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  /** 1 = sampled. */
  readonly flags: number;
  /** The vendors' own part; '' for none. */
  readonly state: string;
}

/** Vendors may add 512 characters; more is dropped whole, as the specification allows. */
const MAX_STATE_CHARS = 512;
const PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** @returns undefined for a context that is not valid: there is nothing to follow. */
export function formatTrace(span: {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly traceState?: { serialize(): string } | undefined;
}): Uint8Array | undefined {
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0');
  const parent = `00-${span.traceId}-${span.spanId}-${flags}`;
  if (!isValid(parent)) return undefined;
  const state = span.traceState?.serialize() ?? '';
  return new TextEncoder().encode(`${parent}\n${state.length <= MAX_STATE_CHARS ? state : ''}`);
}

/** What a caller sent; undefined for nothing, and for what is not valid. */
export function parseTrace(bytes: Uint8Array | undefined): TraceContext | undefined {
  if (bytes === undefined) return undefined;
  const [parent = '', state = ''] = new TextDecoder().decode(bytes).split('\n');
  if (!isValid(parent)) return undefined;
  const [, , traceId = '', spanId = '', flags = ''] = PARENT.exec(parent) ?? [];
  // Printable ASCII is all that a tracestate may have.
  const clean = /^[\x20-\x7e]*$/.test(state) && state.length <= MAX_STATE_CHARS ? state : '';
  return { traceId, spanId, flags: Number.parseInt(flags, 16), state: clean };
}

/** Version 00 has nothing after the flags; later ones may, and version ff does not exist. */
function isValid(parent: string): boolean {
  const [, version, traceId = '', spanId = '', , rest] = PARENT.exec(parent) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return false;
  return !ZEROS.test(traceId) && !ZEROS.test(spanId);
}
