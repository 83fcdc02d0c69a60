/** @file The frames of a message. */
import { checkLimit } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import { writeDescriptor } from './packets.ts';
import { HEAD_BYTES, putLength, putU32 } from './program.ts';

/** A message to send. Its bytes stay unchanged until it is flushed. */
export interface OutgoingMessage {
  readonly type: number;
  readonly id: number;
  readonly body: Uint8Array;
  /** The tensor table, as `writeTable` makes it, and the storages that it speaks of. */
  readonly table: Uint8Array;
  readonly storages: readonly Uint8Array[];
}

/** Parts of a message up to this size together are copied into one piece: every further piece costs more than the copy. */
const JOINED_BYTES = 16 * 1024;
const TYPE_BYTES = 4;
const ID_BYTES = 8;
/** Heads and contents of the type and the id, and the head of the body. */
const FIXED_BYTES = HEAD_BYTES + TYPE_BYTES + HEAD_BYTES + ID_BYTES + HEAD_BYTES;

/** @throws WireError 'limit' for a message that is too large. */
export function checkMessage({ body, table, storages }: OutgoingMessage, limits: TorchLimits): void {
  checkLimit('body of a message', body.length, limits.maxBodyBytes);
  checkLimit('tensor table of a message', table.length, limits.maxTableBytes);
  checkLimit('storages', storages.length, limits.maxTensors);
  let total = body.length + table.length;
  for (const storage of storages) total += storage.length;
  checkLimit('message', total, limits.maxMessageBytes);
}

/** What goes over each of the two connections: torch's framing. A storage of no bytes is not sent at all. */
export function framesOf(message: OutgoingMessage): Frames {
  const { body, table, storages } = message;
  const sizes = storages.map(({ length }) => length);
  const descriptor = writeDescriptor([TYPE_BYTES, ID_BYTES, body.length, table.length], sizes);
  const [descriptors, framed] = [descriptorFrames(message, descriptor), storageFrames(storages)];
  return { descriptors, storages: framed, copied: descriptors.length === 1 && framed.length <= 1 };
}

export interface Frames {
  readonly descriptors: readonly Uint8Array[];
  readonly storages: readonly Uint8Array[];
  /** None of the message's own memory is in them: it may change at once. */
  readonly copied: boolean;
}

function descriptorFrames({ type, id, body, table }: OutgoingMessage, descriptor: Uint8Array): Uint8Array[] {
  const joined = body.length + table.length <= JOINED_BYTES;
  const bodyAt = HEAD_BYTES + descriptor.length + FIXED_BYTES;
  const head = new Uint8Array(bodyAt + (joined ? body.length + HEAD_BYTES + table.length : 0));
  putLength(head, 0, descriptor.length);
  head.set(descriptor, HEAD_BYTES);
  let at = HEAD_BYTES + descriptor.length;
  putLength(head, at, TYPE_BYTES);
  putU32(head, at + HEAD_BYTES, type);
  at += HEAD_BYTES + TYPE_BYTES;
  putLength(head, at, ID_BYTES);
  putLength(head, at + HEAD_BYTES, id);
  putLength(head, at + HEAD_BYTES + ID_BYTES, body.length);
  if (joined) {
    head.set(body, bodyAt);
    putLength(head, bodyAt + body.length, table.length);
    head.set(table, bodyAt + body.length + HEAD_BYTES);
    return [head];
  }
  const tableHead = new Uint8Array(HEAD_BYTES);
  putLength(tableHead, 0, table.length);
  return [head, body, tableHead, table];
}

/** One piece only where it is a copy, since each has a head. */
function storageFrames(storages: readonly Uint8Array[]): Uint8Array[] {
  const sent = storages.filter(({ length }) => length > 0);
  const heads = sent.map(({ length }) => {
    const head = new Uint8Array(HEAD_BYTES);
    putLength(head, 0, length);
    return head;
  });
  return gathered(sent.flatMap((storage, i) => [heads[i] as Uint8Array, storage]));
}

/** The pieces, as one where they are small. */
function gathered(pieces: readonly Uint8Array[]): Uint8Array[] {
  let total = 0;
  for (const piece of pieces) total += piece.length;
  if (pieces.length < 2 || total > JOINED_BYTES) return [...pieces];
  const joined = new Uint8Array(total);
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return [joined];
}

/*
 * Between two workers of this kind all of a message goes over one connection, without names and devices:
 * u32 type, u32 number of storages, u64 id, u64 bytes of the body, u64 bytes of the table; u64 for the size of each storage; body, table,
 * storages. All of it little-endian.
 */
export const PLAIN_HEAD_BYTES = 32;
export const PLAIN_SIZE_BYTES = 8;

/** What goes over the one connection, as `descriptors`. */
export function plainFrames({ type, id, body, table, storages }: OutgoingMessage): Frames {
  const fixed = PLAIN_HEAD_BYTES + PLAIN_SIZE_BYTES * storages.length;
  let total = fixed + body.length + table.length;
  for (const storage of storages) total += storage.length;
  const joined = total <= JOINED_BYTES;
  const head = new Uint8Array(joined ? total : fixed);
  putU32(head, 0, type);
  putU32(head, 4, storages.length);
  putLength(head, 8, id);
  putLength(head, 16, body.length);
  putLength(head, 24, table.length);
  let at = PLAIN_HEAD_BYTES;
  for (const { length } of storages) {
    putLength(head, at, length);
    at += PLAIN_SIZE_BYTES;
  }
  const pieces = [body, table, ...storages].filter(({ length }) => length > 0);
  if (!joined) return { descriptors: [head, ...pieces], storages: [], copied: false };
  for (const piece of pieces) {
    head.set(piece, at);
    at += piece.length;
  }
  return { descriptors: [head], storages: [], copied: true };
}
