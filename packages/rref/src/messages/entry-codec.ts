/** @file What travels beside a message and in a value: the entries of its header table and the ids of handles, in a fixed layout. */
import { incarnationOf, MAX_WORKER, memberKey, workerOf, type GlobalId, type MemberKey } from '../protocol/ids.ts';
import type { Carried } from '../protocol/messages.ts';
import { malformed } from './proto-id.ts';

/** Kind, then ids: worker u16, incarnation u32, local u64; little endian. */
const KIND_CREATE = 1;
const KIND_FORK = 2;
const ID_BYTES = 14;
const MEMBER_BYTES = 6;
const CREATE_BYTES = 1 + 2 * ID_BYTES;
const FORK_BYTES = CREATE_BYTES + MEMBER_BYTES;
const WORD = 0x1_0000_0000;

/** Entries and ids are put together here: a view on a small array of its own would cost more than all the rest. */
const scratch = new Uint8Array(FORK_BYTES);

/** An entry for a message's header table. */
export function encodeCarried(carried: Carried): Uint8Array {
  scratch[0] = carried.kind === 'create' ? KIND_CREATE : KIND_FORK;
  writeId(1, carried.rref);
  writeId(1 + ID_BYTES, carried.fork);
  if (carried.kind === 'fork') writeMember(CREATE_BYTES, carried.owner);
  return scratch.slice(0, carried.kind === 'create' ? CREATE_BYTES : FORK_BYTES);
}

/** @throws RpcError 'decode-error' for anything else than `encodeCarried` makes. */
export function decodeCarried(bytes: Uint8Array): Carried {
  const kind = bytes[0];
  if (bytes.length !== (kind === KIND_CREATE ? CREATE_BYTES : kind === KIND_FORK ? FORK_BYTES : -1))
    throw malformed('a handle in a message');
  const rref = readId(bytes, 1);
  const fork = readId(bytes, 1 + ID_BYTES);
  return kind === KIND_CREATE
    ? { kind: 'create', rref, fork }
    : { kind: 'fork', rref, fork, owner: readMember(bytes, CREATE_BYTES) };
}

/** An id alone, as it stands in a value. */
export function encodeId(id: GlobalId): Uint8Array {
  writeId(0, id);
  return scratch.slice(0, ID_BYTES);
}

/** @throws RpcError 'decode-error' */
export function decodeId(bytes: Uint8Array): GlobalId {
  if (bytes.length !== ID_BYTES) throw malformed('an id');
  return readId(bytes, 0);
}

function writeMember(at: number, member: MemberKey): void {
  const worker = workerOf(member);
  scratch[at] = worker;
  scratch[at + 1] = worker >>> 8;
  writeU32(at + 2, incarnationOf(member));
}

function readMember(bytes: Uint8Array, at: number): MemberKey {
  const worker = (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
  if (worker > MAX_WORKER) throw malformed('an id');
  return memberKey(worker, readU32(bytes, at + 2));
}

function writeId(at: number, id: GlobalId): void {
  writeMember(at, id.member);
  writeU32(at + MEMBER_BYTES, id.local % WORD);
  writeU32(at + MEMBER_BYTES + 4, Math.floor(id.local / WORD));
}

function readId(bytes: Uint8Array, at: number): GlobalId {
  const local = readU32(bytes, at + MEMBER_BYTES + 4) * WORD + readU32(bytes, at + MEMBER_BYTES);
  if (!Number.isSafeInteger(local)) throw malformed('an id');
  return { member: readMember(bytes, at), local };
}

function writeU32(at: number, value: number): void {
  scratch[at] = value;
  scratch[at + 1] = value >>> 8;
  scratch[at + 2] = value >>> 16;
  scratch[at + 3] = value >>> 24;
}

function readU32(bytes: Uint8Array, at: number): number {
  const low = (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16);
  return (low | ((bytes[at + 3] as number) << 24)) >>> 0;
}
