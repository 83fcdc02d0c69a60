/** @file How the protocol's messages and entries look as bytes: the shared protobuf schema for control, a fixed layout for carried entries. */
import { RpcError } from '@backwire/rpc';
import {
  type commonProto,
  controlProto,
  decodeProto,
  encodeProto,
  messageProto,
  MessageType,
} from '@backwire/wire/internal';
import { MAX_DEAD_MEMBERS, MAX_DELETES_PER_MESSAGE, MAX_FAILURE_TEXT_BYTES } from '../limits.ts';
import { incarnationOf, memberKey, workerOf, type GlobalId, type MemberKey } from '../protocol/ids.ts';
import type { Carried, Control, Failure } from '../protocol/messages.ts';

/** A control message as type and payload. */
export interface EncodedControl {
  readonly type: MessageType;
  readonly payload: Uint8Array;
}

/** What a user is told when the owner gives no reason. */
const REFUSED: Failure = { code: 'resource-exhausted', text: 'the owner did not register this handle' };

type Decoder = (payload: Uint8Array) => Control;

export function encodeControl(message: Control): EncodedControl {
  switch (message.kind) {
    case 'fork-request': {
      const { rref, fork } = message;
      const parent = { worker: workerOf(fork.member), incarnation: incarnationOf(fork.member) };
      return encoded(MessageType.RREF_FORK_REQUEST, controlProto.RRefForkRequest, {
        rref: toProto(rref),
        fork: toProto(fork),
        parent,
      });
    }
    case 'fork-ack': {
      const { fork, refused } = message;
      const fields = {
        fork: toProto(fork),
        refused: refused !== undefined,
        code: refused?.code ?? '',
        message: bounded(refused?.text ?? ''),
      };
      return encoded(MessageType.RREF_ACK, controlProto.RRefForkAck, fields);
    }
    case 'child-accept':
      return encoded(MessageType.RREF_CHILD_ACCEPT, controlProto.RRefChildAccept, { fork: toProto(message.fork) });
    case 'user-delete':
      return encoded(MessageType.RREF_USER_DELETE, controlProto.RRefUserDelete, {
        rref: undefined,
        forks: message.forks.map(toProto),
      });
    case 'create-failed': {
      const { rref, fork, failure } = message;
      const fields = {
        rref: toProto(rref),
        fork: toProto(fork),
        code: failure.code,
        message: failure.text.slice(0, MAX_FAILURE_TEXT_BYTES),
      };
      return encoded(MessageType.RREF_CREATE_FAILED, controlProto.RRefCreateFailed, fields);
    }
    case 'fence':
      return encoded(MessageType.FENCE, controlProto.Fence, { epoch: message.epoch });
    case 'fence-ack':
      return encoded(MessageType.FENCE_ACK, controlProto.FenceAck, { epoch: message.epoch });
    case 'fence-done': {
      const dead = message.dead.map((member) => ({ worker: workerOf(member), incarnation: incarnationOf(member) }));
      return encoded(MessageType.FENCE_DONE, controlProto.FenceDone, { epoch: 0, dead });
    }
  }
}

/** What each type of control message means. Decoders throw for anything malformed. */
export const CONTROL_DECODERS: ReadonlyMap<MessageType, Decoder> = new Map<MessageType, Decoder>([
  [
    MessageType.RREF_FORK_REQUEST,
    (payload) => {
      const { rref, fork } = decodeProto(controlProto.RRefForkRequest, payload, 'fork request');
      return { kind: 'fork-request', rref: fromProto(rref), fork: fromProto(fork) };
    },
  ],
  [
    MessageType.RREF_ACK,
    (payload) => {
      const { fork, refused, code, message } = decodeProto(controlProto.RRefForkAck, payload, 'fork acknowledgement');
      const why = code === '' ? REFUSED : { code, text: bounded(message) };
      return { kind: 'fork-ack', fork: fromProto(fork), refused: refused ? why : undefined };
    },
  ],
  [
    MessageType.RREF_CHILD_ACCEPT,
    (payload) => ({
      kind: 'child-accept',
      fork: fromProto(decodeProto(controlProto.RRefChildAccept, payload, 'accept').fork),
    }),
  ],
  [
    MessageType.RREF_USER_DELETE,
    (payload) => {
      const { forks } = decodeProto(controlProto.RRefUserDelete, payload, 'delete');
      if (forks.length > MAX_DELETES_PER_MESSAGE) throw malformed('a delete of too many forks');
      return { kind: 'user-delete', forks: forks.map(fromProto) };
    },
  ],
  [
    MessageType.RREF_CREATE_FAILED,
    (payload) => {
      const { rref, fork, code, message } = decodeProto(controlProto.RRefCreateFailed, payload, 'failed creation');
      return {
        kind: 'create-failed',
        rref: fromProto(rref),
        fork: fromProto(fork),
        failure: { code, text: bounded(message) },
      };
    },
  ],
  [MessageType.FENCE, (payload) => ({ kind: 'fence', epoch: decodeProto(controlProto.Fence, payload, 'fence').epoch })],
  [
    MessageType.FENCE_ACK,
    (payload) => ({ kind: 'fence-ack', epoch: decodeProto(controlProto.FenceAck, payload, 'fence answer').epoch }),
  ],
  [
    MessageType.FENCE_DONE,
    (payload) => {
      const { dead } = decodeProto(controlProto.FenceDone, payload, 'end of a fence');
      if (dead.length > MAX_DEAD_MEMBERS) throw malformed('a fence of too many');
      return { kind: 'fence-done', dead: dead.map(({ worker, incarnation }) => memberKey(worker, incarnation)) };
    },
  ],
]);

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

function encoded<T>(type: MessageType, schema: Parameters<typeof encodeProto<T>>[0], fields: T): EncodedControl {
  return { type, payload: encodeProto(schema, fields) };
}

function toProto(id: GlobalId): commonProto.Id {
  return { worker: workerOf(id.member), incarnation: incarnationOf(id.member), local: id.local };
}

function fromProto(id: commonProto.Id | undefined): GlobalId {
  if (id === undefined || id.worker > 0xffff || !Number.isSafeInteger(id.local)) throw malformed('an id');
  return { member: memberKey(id.worker, id.incarnation), local: id.local };
}

function bounded(text: string): string {
  return text.slice(0, MAX_FAILURE_TEXT_BYTES);
}

function writeMember(at: number, member: MemberKey): void {
  const worker = workerOf(member);
  scratch[at] = worker;
  scratch[at + 1] = worker >>> 8;
  writeU32(at + 2, incarnationOf(member));
}

function readMember(bytes: Uint8Array, at: number): MemberKey {
  return memberKey((bytes[at] as number) | ((bytes[at + 1] as number) << 8), readU32(bytes, at + 2));
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

function malformed(what: string): RpcError {
  return new RpcError('decode-error', `malformed ${what}`);
}
