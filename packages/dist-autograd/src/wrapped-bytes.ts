/** @file Wrapped payloads in shared memory: they live until they have been copied into a frame, and own memory for each costs more than that. */
import { writeWrappedPayload } from '@backwire/wire';

const SLAB_BYTES = 16_384;
/** Larger ones get memory of their own. */
const MAX_SHARED_BYTES = 1_024;
/** Of the length at the end. */
const TRAILER = 8;

let slab = new Uint8Array(SLAB_BYTES);
let used = 0;

/** What `writeWrappedPayload` makes. */
export function wrapPayload(payload: Uint8Array, extra: Uint8Array): Uint8Array {
  const { length } = extra;
  const total = payload.length + length + TRAILER;
  if (total > MAX_SHARED_BYTES) return writeWrappedPayload(payload, extra);
  if (used + total > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    used = 0;
  }
  slab.set(payload, used);
  slab.set(extra, used + payload.length);
  const out = slab.subarray(used, (used += total));
  // New memory is zero, and there are no more than two bytes of length.
  slab[used - 2] = length >>> 8;
  slab[used - 1] = length;
  return out;
}
