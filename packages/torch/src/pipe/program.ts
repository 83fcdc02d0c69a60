/** @file Reads frames: programs that say which bytes they want next. They hold no socket; `feed.ts` and the shell run them. */
import { protocolError } from '@backwire/wire/internal';

/**
 * Yields how many bytes it wants, or the memory that is to be filled, and is resumed with exactly those bytes. What it did not give
 * memory for is valid until the next yield. A throw ends the connection.
 */
export type PipeProgram = Generator<number | Uint8Array, void, Uint8Array>;

/** Bytes of the length before every frame. */
export const HEAD_BYTES = 8;

/** A length of eight bytes, little-endian. */
export function lengthIn(head: Uint8Array): number {
  const length = new DataView(head.buffer, head.byteOffset, HEAD_BYTES).getBigUint64(0, true);
  // What is past 2^53 is past every limit, too.
  return Number(length);
}

/** Writes a length at `at`. */
export function putLength(bytes: Uint8Array, at: number, length: number): void {
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).setBigUint64(at, BigInt(length), true);
}

/** One frame of at most `limit` bytes, valid until the next yield. */
export function* frame(limit: number, what: string): Generator<number | Uint8Array, Uint8Array, Uint8Array> {
  const length = lengthIn(yield HEAD_BYTES);
  if (length > limit) throw protocolError(`${what} of ${length} bytes, over the limit of ${limit}`);
  return length === 0 ? new Uint8Array(0) : yield length;
}

/** A frame as one piece of memory. */
export function framed(content: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + content.length);
  putLength(bytes, 0, content.length);
  bytes.set(content, HEAD_BYTES);
  return bytes;
}
