/** @file W3C trace context: what is valid goes over unchanged, what is not is nothing. */
import { describe, expect, it } from 'vitest';
import { formatTrace, parseTrace } from './trace-context.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('a trace context', () => {
  it('goes over and comes back', () => {
    const span = { traceId, spanId, traceFlags: 1, traceState: { serialize: () => 'vendor=1,other=x' } };
    const sent = formatTrace(span);
    expect(new TextDecoder().decode(sent)).toBe(`00-${traceId}-${spanId}-01\nvendor=1,other=x`);
    expect(parseTrace(sent)).toEqual({ traceId, spanId, flags: 1, state: 'vendor=1,other=x' });
    expect(parseTrace(formatTrace({ traceId, spanId, traceFlags: 0 }))).toEqual({
      traceId,
      spanId,
      flags: 0,
      state: '',
    });
  });

  it('is not sent for a span that is none', () => {
    expect(formatTrace({ traceId: '0'.repeat(32), spanId, traceFlags: 1 })).toBeUndefined();
    expect(formatTrace({ traceId, spanId: '0'.repeat(16), traceFlags: 1 })).toBeUndefined();
  });

  it.each([
    undefined,
    bytes(''),
    bytes('hello'),
    bytes(`00-${traceId}-${spanId}`),
    bytes(`00-${traceId.toUpperCase()}-${spanId}-01`),
    bytes(`00-${'0'.repeat(32)}-${spanId}-01`),
    bytes(`00-${traceId}-${'0'.repeat(16)}-01`),
    bytes(`ff-${traceId}-${spanId}-01`),
    bytes(`00-${traceId}-${spanId}-01-more`),
    Uint8Array.of(0xff, 0xfe, 0x00),
  ])('is nothing when it is not valid (%#)', (sent) => {
    expect(parseTrace(sent)).toBeUndefined();
  });

  it('takes what later versions add, and drops a state that is none', () => {
    expect(parseTrace(bytes(`01-${traceId}-${spanId}-01-more`))?.traceId).toBe(traceId);
    expect(parseTrace(bytes(`00-${traceId}-${spanId}-01\n\u00e9`))?.state).toBe('');
    expect(parseTrace(bytes(`00-${traceId}-${spanId}-01\n${'x'.repeat(600)}`))?.state).toBe('');
  });
});
