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
import { MAX_DEAD_SITES, MAX_DELETES_PER_MESSAGE, MAX_FAILURE_TEXT_BYTES } from './limits.ts';
import { incarnationOf, siteOf, workerOf, type GlobalId, type Site } from './protocol/ids.ts';
import type { Carried, Control, Failure } from './protocol/messages.ts';

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
      const parent = { worker: workerOf(fork.site), incarnation: incarnationOf(fork.site) };
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
      const dead = message.dead.map((site) => ({ worker: workerOf(site), incarnation: incarnationOf(site) }));
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
      if (dead.length > MAX_DEAD_SITES) throw malformed('a fence of too many');
      return { kind: 'fence-done', dead: dead.map(({ worker, incarnation }) => siteOf(worker, incarnation)) };
    },
  ],
]);

/** Kind, then ids: worker u16, incarnation u32, local u64; little endian. */
const KIND_CREATE = 1;
const KIND_FORK = 2;
const ID_BYTES = 14;
const SITE_BYTES = 6;
const CREATE_BYTES = 1 + 2 * ID_BYTES;
const FORK_BYTES = CREATE_BYTES + SITE_BYTES;
const WORD = 0x1_0000_0000;

/** An entry for a message's header table. */
export function encodeCarried(carried: Carried): Uint8Array {
  const bytes = new Uint8Array(carried.kind === 'create' ? CREATE_BYTES : FORK_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, carried.kind === 'create' ? KIND_CREATE : KIND_FORK);
  writeId(view, 1, carried.rref);
  writeId(view, 1 + ID_BYTES, carried.fork);
  if (carried.kind === 'fork') writeSite(view, CREATE_BYTES, carried.owner);
  return bytes;
}

/** @throws RpcError 'decode-error' for anything else than `encodeCarried` makes. */
export function decodeCarried(bytes: Uint8Array): Carried {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const kind = bytes.length > 0 ? view.getUint8(0) : 0;
  if (bytes.length !== (kind === KIND_CREATE ? CREATE_BYTES : kind === KIND_FORK ? FORK_BYTES : -1))
    throw malformed('a handle in a message');
  const rref = readId(view, 1);
  const fork = readId(view, 1 + ID_BYTES);
  return kind === KIND_CREATE
    ? { kind: 'create', rref, fork }
    : { kind: 'fork', rref, fork, owner: readSite(view, CREATE_BYTES) };
}

/** An id alone, as it stands in a value. */
export function encodeId(id: GlobalId): Uint8Array {
  const bytes = new Uint8Array(ID_BYTES);
  writeId(new DataView(bytes.buffer), 0, id);
  return bytes;
}

/** @throws RpcError 'decode-error' */
export function decodeId(bytes: Uint8Array): GlobalId {
  if (bytes.length !== ID_BYTES) throw malformed('an id');
  return readId(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0);
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
  const { site, local } = fromProto(context);
  return {
    rref: fromProto(rref),
    contextId: (BigInt(workerOf(site)) << CONTEXT_LOCAL_BITS) | BigInt(local),
    retainGraph,
  };
}

function encoded<T>(type: MessageType, schema: Parameters<typeof encodeProto<T>>[0], fields: T): EncodedControl {
  return { type, payload: encodeProto(schema, fields) };
}

function toProto(id: GlobalId): commonProto.Id {
  return { worker: workerOf(id.site), incarnation: incarnationOf(id.site), local: id.local };
}

function fromProto(id: commonProto.Id | undefined): GlobalId {
  if (id === undefined || id.worker > 0xffff || !Number.isSafeInteger(id.local)) throw malformed('an id');
  return { site: siteOf(id.worker, id.incarnation), local: id.local };
}

function bounded(text: string): string {
  return text.slice(0, MAX_FAILURE_TEXT_BYTES);
}

function writeSite(view: DataView, at: number, site: Site): void {
  view.setUint16(at, workerOf(site), true);
  view.setUint32(at + 2, incarnationOf(site), true);
}

function readSite(view: DataView, at: number): Site {
  return siteOf(view.getUint16(at, true), view.getUint32(at + 2, true));
}

function writeId(view: DataView, at: number, id: GlobalId): void {
  writeSite(view, at, id.site);
  view.setUint32(at + SITE_BYTES, id.local % WORD, true);
  view.setUint32(at + SITE_BYTES + 4, Math.floor(id.local / WORD), true);
}

function readId(view: DataView, at: number): GlobalId {
  const local = view.getUint32(at + SITE_BYTES + 4, true) * WORD + view.getUint32(at + SITE_BYTES, true);
  if (!Number.isSafeInteger(local)) throw malformed('an id');
  return { site: readSite(view, at), local };
}

function malformed(what: string): RpcError {
  return new RpcError('decode-error', `malformed ${what}`);
}
