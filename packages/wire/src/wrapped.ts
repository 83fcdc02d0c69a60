/** @file Wrapped payloads: a message's payload with metadata behind it, as PyTorch lays them out. */
import { decodeError } from './errors.ts';

/** Bytes of the big-endian length at the end. */
const TRAILER = 8;

/** `payload`, `extra`, then the length of `extra` as eight big-endian bytes. */
export function writeWrappedPayload(payload: Uint8Array, extra: Uint8Array): Uint8Array {
  const out = new Uint8Array(payload.length + extra.length + TRAILER);
  out.set(payload);
  out.set(extra, payload.length);
  new DataView(out.buffer).setBigUint64(payload.length + extra.length, BigInt(extra.length));
  return out;
}

/**
 * Takes apart what `writeWrappedPayload` made, as views of `payload`.
 * @throws WireError 'decode-error' when the length at the end does not fit.
 */
export function readWrappedPayload(payload: Uint8Array): { payload: Uint8Array; extra: Uint8Array } {
  const end = payload.length - TRAILER;
  if (end < 0) throw decodeError('a wrapped payload is shorter than its length field');
  const length = new DataView(payload.buffer, payload.byteOffset, payload.byteLength).getBigUint64(end);
  if (length > BigInt(end)) throw decodeError('the metadata of a wrapped payload is longer than the payload');
  const from = end - Number(length);
  return { payload: payload.subarray(0, from), extra: payload.subarray(from, end) };
}
