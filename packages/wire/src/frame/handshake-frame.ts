/** @file The frames that a link begins with: each stands alone, outside of any session. */
import { checkLimit } from '../errors.ts';
import type { WireLimits } from '../limits.ts';
import { BASE_HEADER_BYTES, writeBase, writeSequence, FrameKind } from './header.ts';

/** A whole frame of kind HANDSHAKE or RESUME. */
export function handshakeFrame(
  kind: typeof FrameKind.HANDSHAKE | typeof FrameKind.RESUME,
  payload: Uint8Array,
  limits: WireLimits,
): Uint8Array {
  checkLimit('frame', payload.length, kind === FrameKind.HANDSHAKE ? limits.maxHandshakeBytes : limits.maxControlBytes);
  const bytes = new Uint8Array(BASE_HEADER_BYTES + payload.length);
  const view = new DataView(bytes.buffer);
  writeBase(view, 0, kind, 0, 0, payload.length);
  writeSequence(view, 0, 0, 0);
  bytes.set(payload, BASE_HEADER_BYTES);
  return bytes;
}
