/** @file The frames of a message. */
import { checkLimit } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import { writeDescriptor } from './packets.ts';
import { HEAD_BYTES, putLength } from './program.ts';

/** A message to send. Its bytes stay unchanged until it is flushed. */
export interface OutgoingMessage {
  readonly type: number;
  readonly id: number;
  readonly body: Uint8Array;
  /** The tensor table, as `writeTable` makes it, and the storages that it speaks of. */
  readonly table: Uint8Array;
  readonly storages: readonly Uint8Array[];
}

/** Bodies up to this size are copied next to their heads: a second write costs more. */
const JOINED_BYTES = 16 * 1024;
const TYPE_BYTES = 4;
const ID_BYTES = 8;

/**
 * What goes over each of the two connections. A storage of no bytes is not sent at all.
 * @throws WireError 'limit' for a message that is too large.
 */
export function framesOf(
  message: OutgoingMessage,
  limits: TorchLimits,
): { descriptors: Uint8Array[]; storages: Uint8Array[] } {
  const { body, table, storages } = message;
  checkLimit('body of a message', body.length, limits.maxBodyBytes);
  checkLimit('tensor table of a message', table.length, limits.maxTableBytes);
  const sizes = storages.map(({ length }) => length);
  checkLimit(
    'message',
    sizes.reduce((sum, size) => sum + size, body.length + table.length),
    limits.maxMessageBytes,
  );
  const descriptor = writeDescriptor([TYPE_BYTES, ID_BYTES, body.length, table.length], sizes, limits);
  return { descriptors: descriptorFrames(message, descriptor), storages: storageFrames(storages) };
}

function descriptorFrames({ type, id, body, table }: OutgoingMessage, descriptor: Uint8Array): Uint8Array[] {
  const joined = body.length <= JOINED_BYTES;
  const fixed = HEAD_BYTES + descriptor.length + HEAD_BYTES + TYPE_BYTES + HEAD_BYTES + ID_BYTES + HEAD_BYTES;
  const head = new Uint8Array(fixed + (joined ? body.length : 0));
  const view = new DataView(head.buffer);
  putLength(head, 0, descriptor.length);
  head.set(descriptor, HEAD_BYTES);
  let at = HEAD_BYTES + descriptor.length;
  putLength(head, at, TYPE_BYTES);
  view.setInt32(at + HEAD_BYTES, type, true);
  at += HEAD_BYTES + TYPE_BYTES;
  putLength(head, at, ID_BYTES);
  view.setBigInt64(at + HEAD_BYTES, BigInt(id), true);
  at += HEAD_BYTES + ID_BYTES;
  putLength(head, at, body.length);
  if (joined) head.set(body, at + HEAD_BYTES);
  const tableHead = new Uint8Array(HEAD_BYTES);
  putLength(tableHead, 0, table.length);
  return joined ? [head, tableHead, table] : [head, body, tableHead, table];
}

function storageFrames(storages: readonly Uint8Array[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (const storage of storages) {
    if (storage.length === 0) continue;
    const head = new Uint8Array(HEAD_BYTES);
    putLength(head, 0, storage.length);
    chunks.push(head, storage);
  }
  return chunks;
}
