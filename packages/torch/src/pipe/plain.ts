/** @file Reads a message of which all parts come on one connection: see `outgoing.ts` for the form. */
import { checkLimit, protocolError } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import { PLAIN_HEAD_BYTES, PLAIN_SIZE_BYTES } from './outgoing.ts';
import type { IncomingMessage, PipeMemory } from './message.ts';
import { lengthIn, u32In } from './program.ts';

const NONE: readonly number[] = Object.freeze([]);

/** One message. @throws WireError before memory is taken for what is too large. */
export function* readPlain(
  limits: TorchLimits,
  memory: PipeMemory,
): Generator<number | Uint8Array, IncomingMessage, Uint8Array> {
  const head = yield PLAIN_HEAD_BYTES;
  const type = u32In(head, 0);
  const count = u32In(head, 4);
  const id = lengthIn(head, 8);
  const bodyBytes = lengthIn(head, 16);
  const tableBytes = lengthIn(head, 24);
  if (!Number.isSafeInteger(id)) throw protocolError(`a message with the id ${id}`);
  checkLimit('body of a message', bodyBytes, limits.maxBodyBytes);
  checkLimit('tensor table of a message', tableBytes, limits.maxTableBytes);
  checkLimit('storages', count, limits.maxTensors);
  const sizes = count === 0 ? NONE : sizesIn(yield PLAIN_SIZE_BYTES * count, count);
  let total = bodyBytes + tableBytes;
  for (const size of sizes) total += size;
  checkLimit('message', total, limits.maxMessageBytes);
  const contents = new Uint8Array(bodyBytes + tableBytes);
  if (contents.length > 0) yield contents;
  const storages: Uint8Array[] = [];
  for (const size of sizes) {
    const storage = size === 0 ? new Uint8Array(0) : memory.take(size);
    if (size > 0) yield storage;
    storages.push(storage);
  }
  return { type, id, body: contents.subarray(0, bodyBytes), table: contents.subarray(bodyBytes), storages };
}

function sizesIn(bytes: Uint8Array, count: number): number[] {
  const sizes: number[] = [];
  for (let i = 0; i < count; i++) sizes.push(lengthIn(bytes, PLAIN_SIZE_BYTES * i));
  return sizes;
}
