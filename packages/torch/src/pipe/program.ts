/** @file Reads frames: programs that say which bytes they want next. They hold no socket; `feed.ts` and the shell run them. */
import { protocolError } from '@backwire/wire/internal';

/**
 * Yields how many bytes it wants, or the memory that is to be filled, and is resumed with exactly those bytes. What it did not give
 * memory for is valid until the next yield. A throw ends the connection.
 */
export type PipeProgram = Generator<number | Uint8Array, void, Uint8Array>;

/** Bytes of the length before every frame. */
export const HEAD_BYTES = 8;

/** A length of eight bytes at `at`, little-endian. */
export function lengthIn(head: Uint8Array, at = 0): number {
  // What is past 2^53 loses precision, and is past every limit, too.
  return u32In(head, at) + u32In(head, at + 4) * 0x1_0000_0000;
}

/** A number of four bytes at `at`, little-endian. */
export function u32In(bytes: Uint8Array, at: number): number {
  const high = (bytes[at + 3] as number) << 24;
  return ((bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16) | high) >>> 0;
}

/** Writes a length at `at`. */
export function putLength(bytes: Uint8Array, at: number, length: number): void {
  putU32(bytes, at, length);
  putU32(bytes, at + 4, Math.floor(length / 0x1_0000_0000));
}

/** Writes the lowest 32 bits of a number at `at`. */
export function putU32(bytes: Uint8Array, at: number, value: number): void {
  const word = value >>> 0;
  bytes[at] = word;
  bytes[at + 1] = word >>> 8;
  bytes[at + 2] = word >>> 16;
  bytes[at + 3] = word >>> 24;
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
