/**
 * @file The fixed binary headers of frames: layout, encode, decode.
 *
 * Three shapes, all little-endian, `u53` = u32 low word then u32 high word below 2^21:
 *
 *     every frame (24)        id frames (+24 = 48)     call frames (+32 = 56)
 *      0 u8  kind             24 u53 id                24 u53 callId
 *      1 u8  flags            32 u32 a                 32 u32 fn
 *      2 u16 messageType      36 u32 b                 36 u32 remainingMs (0xffffffff = none)
 *      4 u32 length           40 u53 c                 40 u32 tableLength
 *      8 u53 seq (0 = none)                            44 u32 descriptorLength
 *     16 u53 ack                                       48 u32 inlineLength
 *                                                      52 u16 tensorCount
 *                                                      54 u16 nameLength
 *
 * `length` counts the bytes after the header. A call frame's payload is, in this order: value, function name, header
 * table, tensor table, inline storages.
 */
import { protocolError } from '../errors.ts';

/** What a frame is. Numbers are part of the protocol. */
export const FrameKind = {
  /** HELLO, CHALLENGE, AUTH, WELCOME or REJECT: a protobuf `Handshake`. */
  HANDSHAKE: 1,
  CALL: 2,
  RESULT: 3,
  /** A failed call: the payload is a protobuf `Error`, or a value when flag VALUE is set. */
  ERROR: 4,
  STREAM_ITEM: 5,
  STREAM_END: 6,
  /** id = callId, a = a {@link CancelReason}. */
  CANCEL: 7,
  /** id = callId of the stream or 0 for the link, a = calls or items, c = bytes. */
  CREDIT: 8,
  /** A protobuf message of type `messageType`. */
  CONTROL: 9,
  /** A piece of a storage. id = seq of its message, a = storage, c = offset; unsequenced. */
  BODY: 10,
  /** A whole body has arrived, or with b = 1 the bytes of it before c. id = seq of its message, a = storage, c = bytes. */
  BODY_ACK: 11,
  /** The bytes of a body no longer exist at the sender. id = seq of its message, a = storage. */
  BODY_LOST: 12,
  /** Nothing but the ack field. */
  ACK: 13,
  /** id = the sender's clock, a = its event loop's lag in ms. */
  PING: 14,
  /** id = the ping's id, a = lag in ms, b = calls in flight. */
  PONG: 15,
  /** Where both sides stand after a reconnect: a protobuf `Resume`. */
  RESUME: 16,
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** Why a caller takes a call back. Whatever else stands there is read as `UNWANTED`. */
export const CancelReason = {
  UNWANTED: 0,
  /** Its time is over by the caller's clock, whose news may be here before the callee's own clock says so. */
  TIME_OVER: 1,
} as const;
export type CancelReason = (typeof CancelReason)[keyof typeof CancelReason];

/** Bits of the flags byte. Which kinds they are allowed on is the session's business. */
export const FrameFlag = {
  /** No answer is wanted. */
  ONEWAY: 1,
  /** The answer is a stream. */
  STREAM: 2,
  /** Has an idempotency key, as a header table entry. */
  IDEMPOTENT: 4,
  /** Sent again after a reconnect. */
  REPLAY: 8,
  /** The payload of an ERROR is a value. */
  VALUE: 16,
  /** Last of its kind (the last chunk of a body, the last item of a stream). */
  LAST: 32,
  /** The call may start before calls that were sent earlier, and they after it. */
  UNORDERED: 64,
  /** On a BODY: that it has arrived is to be acknowledged, by a BODY_ACK with b = 1. */
  ASK: 128,
} as const;

export const BASE_HEADER_BYTES = 24;
export const ID_HEADER_BYTES = 48;
export const CALL_HEADER_BYTES = 56;
/** `remainingMs` on the wire when the call has no deadline. */
const NO_DEADLINE = 0xffff_ffff;
const TWO_32 = 0x1_0000_0000;

/** Size of the header by kind; 0 = no such kind. */
const HEADER_BYTES = new Uint8Array(256);
for (const kind of [FrameKind.HANDSHAKE, FrameKind.CONTROL, FrameKind.ACK, FrameKind.RESUME])
  HEADER_BYTES[kind] = BASE_HEADER_BYTES;
for (const kind of [
  FrameKind.CANCEL,
  FrameKind.CREDIT,
  FrameKind.BODY,
  FrameKind.BODY_ACK,
  FrameKind.BODY_LOST,
  FrameKind.PING,
  FrameKind.PONG,
])
  HEADER_BYTES[kind] = ID_HEADER_BYTES;
for (const kind of [FrameKind.CALL, FrameKind.RESULT, FrameKind.ERROR, FrameKind.STREAM_ITEM, FrameKind.STREAM_END])
  HEADER_BYTES[kind] = CALL_HEADER_BYTES;

/** Bytes of the header of a frame of this kind, or 0 when there is no such kind. */
export function headerBytes(kind: number): number {
  return HEADER_BYTES[kind & 0xff] ?? 0;
}

/** A decoded header. Readers reuse one object for every frame: copy what must outlive the callback. */
export class FrameHeader {
  kind: FrameKind = FrameKind.ACK;
  flags = 0;
  messageType = 0;
  /** Bytes after the header. */
  length = 0;
  /** 0 = not sequenced. */
  seq = 0;
  /** Highest sequence number the sender has received, all before it included. */
  ack = 0;
  /** Call frames: the call. Id frames: see `FrameKind`. */
  id = 0;
  /** Id frames. */
  a = 0;
  b = 0;
  c = 0;
  /** Interned function id; 0 = none. With `nameLength` > 0 the frame defines it. */
  fn = 0;
  /** Milliseconds left, or -1 for a call without a deadline. */
  remainingMs = -1;
  tableLength = 0;
  descriptorLength = 0;
  inlineLength = 0;
  tensorCount = 0;
  nameLength = 0;
}

/** Writes the first 8 bytes. The next 16 are sequence and acknowledgement. */
export function writeBase(
  view: DataView,
  at: number,
  kind: number,
  flags: number,
  messageType: number,
  length: number,
): void {
  view.setUint32(at, (kind | (flags << 8) | (messageType << 16)) >>> 0, true);
  view.setUint32(at + 4, length, true);
}

/** Writes bytes 8 to 24: sequence and acknowledgement, also of a frame that is already written. */
export function writeSequence(view: DataView, at: number, seq: number, ack: number): void {
  writeU53(view, at + 8, seq);
  writeU53(view, at + 16, ack);
}

/** Writes bytes 24 to 48 of an id frame. */
export function writeIdFields(view: DataView, at: number, id: number, a: number, b: number, c: number): void {
  writeU53(view, at + 24, id);
  view.setUint32(at + 32, a, true);
  view.setUint32(at + 36, b, true);
  writeU53(view, at + 40, c);
}

/** Writes bytes 24 to 40 of a call frame. */
export function writeCallFields(view: DataView, at: number, callId: number, fn: number, remainingMs: number): void {
  writeU53(view, at + 24, callId);
  view.setUint32(at + 32, fn, true);
  view.setUint32(at + 36, remainingMs < 0 ? NO_DEADLINE : Math.min(Math.ceil(remainingMs), NO_DEADLINE - 1), true);
}

/** Writes bytes 40 to 52 of a call frame. */
export function writeCallLengths(view: DataView, at: number, table: number, descriptors: number, inline: number): void {
  view.setUint32(at + 40, table, true);
  view.setUint32(at + 44, descriptors, true);
  view.setUint32(at + 48, inline, true);
}

/** Writes bytes 52 to 56 of a call frame: how many tensors it has, and the length of the name. */
export function writeCallCounts(view: DataView, at: number, tensors: number, name: number): void {
  view.setUint32(at + 52, (tensors | (name << 16)) >>> 0, true);
}

/** Sets the acknowledgement of a frame that is already written. */
export function patchAck(view: DataView, at: number, ack: number): void {
  writeU53(view, at + 16, ack);
}

/** Sets the time left of a call frame that is already written; -1 = none. */
export function patchRemaining(view: DataView, at: number, remainingMs: number): void {
  view.setUint32(at + 36, remainingMs < 0 ? NO_DEADLINE : Math.min(Math.ceil(remainingMs), NO_DEADLINE - 1), true);
}

/**
 * Reads the header at `at` into `into`. `headerBytes(kind)` bytes must be there.
 * Throws `protocol-error` for an unknown kind, a number past 2^53 or lengths that do not add up.
 */
export function readHeader(view: DataView, at: number, into: FrameHeader): void {
  const first = view.getUint32(at, true);
  const kind = first & 0xff;
  const size = headerBytes(kind);
  if (size === 0) throw protocolError(`unknown frame kind ${kind}`);
  into.kind = kind as FrameKind;
  into.flags = (first >>> 8) & 0xff;
  into.messageType = first >>> 16;
  into.length = view.getUint32(at + 4, true);
  into.seq = readU53(view, at + 8);
  into.ack = readU53(view, at + 16);
  if (size === CALL_HEADER_BYTES) readCallFields(view, at, into);
  else if (size === ID_HEADER_BYTES) {
    into.id = readU53(view, at + 24);
    into.a = view.getUint32(at + 32, true);
    into.b = view.getUint32(at + 36, true);
    into.c = readU53(view, at + 40);
  }
}

function readCallFields(view: DataView, at: number, into: FrameHeader): void {
  into.id = readU53(view, at + 24);
  into.fn = view.getUint32(at + 32, true);
  const remaining = view.getUint32(at + 36, true);
  into.remainingMs = remaining === NO_DEADLINE ? -1 : remaining;
  into.tableLength = view.getUint32(at + 40, true);
  into.descriptorLength = view.getUint32(at + 44, true);
  into.inlineLength = view.getUint32(at + 48, true);
  const counts = view.getUint32(at + 52, true);
  into.tensorCount = counts & 0xffff;
  into.nameLength = counts >>> 16;
  if (into.nameLength + into.tableLength + into.descriptorLength + into.inlineLength > into.length)
    throw protocolError('the sections of a frame are longer than the frame');
}

/** Writes a safe non-negative integer as two u32 words. */
function writeU53(view: DataView, at: number, value: number): void {
  view.setUint32(at, value >>> 0, true);
  view.setUint32(at + 4, (value / TWO_32) >>> 0, true);
}

function readU53(view: DataView, at: number): number {
  const high = view.getUint32(at + 4, true);
  if (high > 0x1f_ffff) throw protocolError('a number is past 2^53');
  return high * TWO_32 + view.getUint32(at, true);
}
