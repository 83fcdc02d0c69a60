/** @file The bytes between an embedded store and its clients, beyond the operations it shares with torch. */
import { RpcError, type RpcErrorCode } from '../base/errors.ts';
import { checkKey } from './checks.ts';
import { MAX_KEY_BYTES, MAX_KEYS_PER_REQUEST, MAX_VALUE_BYTES } from './limits.ts';

/*
 * A client of ours starts with the handshake of security/handshake.ts (its first byte, 0x42, plays the part of an AUTH operation) and
 * then sends requests of the operations below, each
 *
 *   u8 operation ‖ u32 length of the body ‖ u32 request id ‖ body
 *
 * and gets, in any order,
 *
 *   u8 REPLY ‖ u32 length ‖ u32 request id ‖ u8 status (0 = done, 1 = failed) ‖ result, or code and message
 *   u8 EVENT ‖ u32 length ‖ u32 request id of the watch ‖ u8 (1 = put, 0 = delete) ‖ key ‖ value
 *   u8 LEASE_LOST ‖ u32 length ‖ u32 lease id
 *
 * Integers are little-endian; texts and byte strings are a u32 length and their bytes. Keys carry the leading '/' that torch's client
 * puts before its own, so that both see the same names.
 */

export const Op = Object.freeze({
  GET: 0x50,
  SET: 0x51,
  ADD: 0x52,
  COMPARE_AND_SET: 0x53,
  DELETE: 0x54,
  LIST: 0x55,
  WAIT: 0x56,
  /** Ends a wait or a watch, by its request id. */
  CANCEL: 0x57,
  WATCH: 0x58,
  /** A new lease, held by this connection. */
  GRANT: 0x59,
  /** Renews a lease and makes this connection one of its holders; may set a key under it. */
  HOLD: 0x5a,
  REVOKE: 0x5b,
  REPLY: 0x60,
  EVENT: 0x61,
  LEASE_LOST: 0x62,
});

export const FRAME_HEAD_BYTES = 9;
/** The largest list of keys with the largest names is far more than anyone needs. */
export const MAX_FRAME_BYTES = 2 * MAX_VALUE_BYTES + MAX_KEY_BYTES + 64;
/** A list is cut off at this; a group's records are far below it. */
export const MAX_LIST_BYTES = 64 * 1024 * 1024;

/** One frame as a whole. */
export function frame(op: number, id: number, parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
  const bytes = new Uint8Array(FRAME_HEAD_BYTES + length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, op);
  view.setUint32(1, length, true);
  view.setUint32(5, id, true);
  let at = FRAME_HEAD_BYTES;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}

export const u8 = (value: number): Uint8Array => Uint8Array.of(value);

export function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

export function i64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigInt64(0, BigInt.asIntN(64, value), true);
  return bytes;
}

/** A length and the bytes. */
export function blob(value: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(4 + value.byteLength);
  new DataView(bytes.buffer).setUint32(0, value.byteLength, true);
  bytes.set(value, 4);
  return bytes;
}

/** A key as text on the client: UTF-8 with a leading '/'. @throws RpcError 'invalid-argument' when it is none, or too long. */
export function clientKey(key: string): Uint8Array {
  return blob(new TextEncoder().encode(`/${checkKey(key)}`));
}

/** The body of a HOLD, which sets a key under the lease too unless `set` is undefined. The first byte of its reply: 1 = renewed, 0 = gone. */
export function holdBody(
  lease: { readonly id: number; readonly token: Uint8Array },
  set?: { readonly key: string; readonly value: Uint8Array },
): Uint8Array[] {
  const named =
    set === undefined ? [blob(new Uint8Array(0)), blob(new Uint8Array(0))] : [clientKey(set.key), blob(set.value)];
  return [u32(lease.id), blob(lease.token), ...named];
}

export function keyText(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes);
  return text.startsWith('/') ? text.slice(1) : text;
}

/** Reads a body from front to back; running off its end, or a length past a limit, throws 'protocol-error'. */
export class Reader {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private at = 0;

  constructor(bytes: Uint8Array) {
    // Not a Buffer, whose `slice` would share its memory.
    this.bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u8(): number {
    return this.view.getUint8(this.advance(1));
  }

  u32(): number {
    return this.view.getUint32(this.advance(4), true);
  }

  i64(): bigint {
    return this.view.getBigInt64(this.advance(8), true);
  }

  /** `count` bytes without a length before them, copied. */
  raw(count: number): Uint8Array {
    const at = this.advance(count);
    return this.bytes.slice(at, at + count);
  }

  /** A copy. */
  blob(limit = MAX_VALUE_BYTES): Uint8Array {
    const length = this.u32();
    if (length > limit) throw new RpcError('protocol-error', `a field of ${length} bytes, at most ${limit} are taken`);
    const at = this.advance(length);
    return this.bytes.slice(at, at + length);
  }

  text(): string {
    return new TextDecoder().decode(this.blob(MAX_KEY_BYTES));
  }

  /** How many of something follow, each of at least `least` bytes. */
  count(least: number, most = MAX_KEYS_PER_REQUEST): number {
    const count = this.u32();
    if (count > most || count * least > this.bytes.byteLength - this.at) {
      throw new RpcError('protocol-error', `a list of ${count} does not fit its frame`);
    }
    return count;
  }

  private advance(count: number): number {
    const at = this.at;
    if (at + count > this.bytes.byteLength) throw new RpcError('protocol-error', 'a frame ends before its fields');
    this.at += count;
    return at;
  }
}

const CODES: ReadonlySet<string> = new Set<RpcErrorCode>([
  'failed-precondition',
  'resource-exhausted',
  'invalid-argument',
  'unavailable',
  'protocol-error',
]);

/** The error that a failed reply tells of. */
export function replyError(body: Reader): RpcError {
  const code = body.text();
  return new RpcError(CODES.has(code) ? (code as RpcErrorCode) : 'failed-precondition', body.text());
}
