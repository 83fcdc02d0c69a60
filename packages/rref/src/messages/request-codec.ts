/** @file The payloads of requests to owners: messages of the schema; those of every remote call and fetch are written and read by hand. */
import { ByteReader, ByteWriter, decodeProto, encodeProto, messageProto, WireType } from '@backwire/wire/internal';
import { incarnationOf, MAX_WORKER, memberKey, workerOf, type GlobalId } from '../protocol/ids.ts';
import { fromProto, malformed, toProto } from './proto-id.ts';

/** Field numbers of `Id` in the schema; the ids are fields 1 and 2 of what they are in. */
const WORKER = (1 << 3) | WireType.VARINT;
const INCARNATION = (2 << 3) | WireType.VARINT;
const LOCAL = (3 << 3) | WireType.VARINT;
const FIRST_ID = (1 << 3) | WireType.LENGTH;
const SECOND_ID = (2 << 3) | WireType.LENGTH;
const SECOND_NUMBER = (2 << 3) | WireType.VARINT;

/** Used from its first byte to `slice` without anything in between. */
const writer = new ByteWriter(128);
const reader = new ByteReader(new Uint8Array(0));

/** The ids that stand behind a remote call, and in its answer: `RemoteReturn`. */
export function encodeCreation(rref: GlobalId, fork: GlobalId): Uint8Array {
  writer.pos = 0;
  writeId(FIRST_ID, rref);
  writeId(SECOND_ID, fork);
  return writer.finish();
}

/** @throws RpcError or WireError 'decode-error' */
export function decodeCreation(bytes: Uint8Array): { rref: GlobalId; fork: GlobalId } {
  const [rref, fork] = readIds(bytes);
  if (rref === undefined || fork === undefined) throw malformed('ids of an RRef');
  return { rref, fork };
}

/** `RRefFetch`: what is fetched, and for which worker. */
export function encodeFetch(rref: GlobalId, worker: number): Uint8Array {
  writer.pos = 0;
  writeId(FIRST_ID, rref);
  if (worker > 0) {
    writer.u8(SECOND_NUMBER);
    writer.varint32(worker);
  }
  return writer.finish();
}

/** @throws RpcError or WireError 'decode-error' */
export function decodeFetch(bytes: Uint8Array): GlobalId {
  const [rref] = readIds(bytes);
  if (rref === undefined) throw malformed('ids of an RRef');
  return rref;
}

const CONTEXT_LOCAL_BITS = 48n;

/** `contextId` as `RRef.backward` got it: the creator's id in the upper 16 bits. */
export function encodeBackward(rref: GlobalId, contextId: bigint, retainGraph: boolean): Uint8Array {
  const worker = Number(BigInt.asUintN(16, contextId >> CONTEXT_LOCAL_BITS));
  const local = Number(BigInt.asUintN(48, contextId));
  return encodeProto(messageProto.RRefBackward, {
    rref: toProto(rref),
    context: { worker, incarnation: 0, local },
    retainGraph,
  });
}

export function decodeBackward(bytes: Uint8Array): { rref: GlobalId; contextId: bigint; retainGraph: boolean } {
  const { rref, context, retainGraph } = decodeProto(messageProto.RRefBackward, bytes, 'backward request');
  const { member, local } = fromProto(context);
  return {
    rref: fromProto(rref),
    contextId: (BigInt(workerOf(member)) << CONTEXT_LOCAL_BITS) | BigInt(local),
    retainGraph,
  };
}

function writeId(tag: number, { member, local }: GlobalId): void {
  writer.pair(tag, 0);
  const start = writer.pos;
  const worker = workerOf(member);
  const incarnation = incarnationOf(member);
  if (worker > 0) {
    writer.u8(WORKER);
    writer.varint32(worker);
  }
  if (incarnation > 0) {
    writer.u8(INCARNATION);
    writer.varint32(incarnation);
  }
  if (local > 0) {
    writer.u8(LOCAL);
    writer.varint53(local);
  }
  writer.bytes[start - 1] = writer.pos - start;
}

/** Fields 1 and 2 where they are ids; others are skipped. */
function readIds(bytes: Uint8Array): [GlobalId | undefined, GlobalId | undefined] {
  reader.reset(bytes, 0, bytes.length);
  let first: GlobalId | undefined;
  let second: GlobalId | undefined;
  while (reader.pos < bytes.length) {
    const tag = reader.varint32();
    if (tag === FIRST_ID) first = readId(bytes.length);
    else if (tag === SECOND_ID) second = readId(bytes.length);
    else reader.skip(tag & 7);
  }
  return [first, second];
}

function readId(whole: number): GlobalId {
  const end = reader.length() + reader.pos;
  let worker = 0;
  let incarnation = 0;
  let local = 0;
  reader.end = end;
  while (reader.pos < end) {
    const tag = reader.varint32();
    if (tag === WORKER) worker = reader.varint32();
    else if (tag === INCARNATION) incarnation = reader.varint32();
    else if (tag === LOCAL) local = reader.varint53();
    else reader.skip(tag & 7);
  }
  reader.end = whole;
  if (worker > MAX_WORKER) throw malformed('ids of an RRef');
  return { member: memberKey(worker, incarnation), local };
}
