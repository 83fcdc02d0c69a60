/** @file Wrapped payloads: a message's payload with metadata behind it, as PyTorch lays them out. */
import type { BriefMemory } from '../bytes/brief-memory.ts';
import { decodeError } from '../errors.ts';

/** Bytes of the big-endian length at the end. */
const TRAILER = 8;

/** `payload`, `extra`, then the length of `extra` as eight big-endian bytes. */
export function writeWrappedPayload(payload: Uint8Array, extra: Uint8Array): Uint8Array {
  return fill(new Uint8Array(payload.length + extra.length + TRAILER), payload, extra);
}

/** The same in `memory`, for a payload that lives until it has been copied into a frame. */
export function writeWrappedBriefly(memory: BriefMemory, payload: Uint8Array, extra: Uint8Array): Uint8Array {
  return fill(memory.take(payload.length + extra.length + TRAILER), payload, extra);
}

function fill(out: Uint8Array, payload: Uint8Array, extra: Uint8Array): Uint8Array {
  out.set(payload);
  out.set(extra, payload.length);
  // The upper half of the length stays zero: no message is that long.
  const { length } = extra;
  const end = out.length;
  out[end - 4] = length >>> 24;
  out[end - 3] = length >>> 16;
  out[end - 2] = length >>> 8;
  out[end - 1] = length;
  return out;
}

/**
 * Takes apart what `writeWrappedPayload` made, as views of `payload`.
 * @throws WireError 'decode-error' when the length at the end does not fit.
 */
export function readWrappedPayload(payload: Uint8Array): { payload: Uint8Array; extra: Uint8Array } {
  const end = payload.length - TRAILER;
  if (end < 0) throw decodeError('a wrapped payload is shorter than its length field');
  // Exact as long as it can fit, and far too large where it is not.
  let length = 0;
  for (let i = end; i < payload.length; i++) length = length * 256 + (payload[i] as number);
  if (length > end) throw decodeError('the metadata of a wrapped payload is longer than the payload');
  const from = end - length;
  return { payload: payload.subarray(0, from), extra: payload.subarray(from, end) };
}
