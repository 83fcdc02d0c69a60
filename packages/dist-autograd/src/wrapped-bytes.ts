/** @file Wrapped payloads in shared memory. */
import { BriefMemory, writeWrappedBriefly } from '@backwire/wire/internal';

const memory = new BriefMemory();

/** What `writeWrappedPayload` makes; it lives until it has been copied into a frame. */
export function wrapPayload(payload: Uint8Array, extra: Uint8Array): Uint8Array {
  return writeWrappedBriefly(memory, payload, extra);
}
