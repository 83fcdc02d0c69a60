/** @file Wrapped payloads in shared memory are those that the wire package makes, and keep what they say. */
import { expect, it } from 'vitest';
import { readWrappedPayload, writeWrappedPayload } from '@backwire/wire';
import { wrapPayload } from './wrapped-bytes.ts';

it('makes what writeWrappedPayload makes, however much was wrapped before, and leaves earlier ones alone', () => {
  const made: [wrapped: Uint8Array, expected: Uint8Array][] = [];
  for (let i = 0; i < 600; i++) {
    const payload = new Uint8Array((i * 7) % 900).fill(i);
    const extra = new Uint8Array((i * 13) % 700).fill(255 - (i % 200));
    made.push([wrapPayload(payload, extra), writeWrappedPayload(payload, extra)]);
  }
  for (const [wrapped, expected] of made) {
    expect(Buffer.compare(wrapped, expected)).toBe(0);
    expect(readWrappedPayload(wrapped).extra.length).toBe(readWrappedPayload(expected).extra.length);
  }
});

it('gives what is empty its length too', () => {
  expect([...wrapPayload(new Uint8Array(0), new Uint8Array(0))]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
});
