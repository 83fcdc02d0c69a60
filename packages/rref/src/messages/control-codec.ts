/** @file The protocol's control messages as bytes: messages of the shared schema. */
import { controlProto, decodeProto, encodeProto, MessageType } from '@backwire/wire/internal';
import { MAX_DEAD_MEMBERS, MAX_DELETES_PER_MESSAGE, MAX_FAILURE_TEXT_BYTES } from '../limits.ts';
import { incarnationOf, memberKey, workerOf } from '../protocol/ids.ts';
import type { Control, Failure } from '../protocol/messages.ts';
import { fromProto, malformed, toProto } from './proto-id.ts';

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

function encoded<T>(type: MessageType, schema: Parameters<typeof encodeProto<T>>[0], fields: T): EncodedControl {
  return { type, payload: encodeProto(schema, fields) };
}

function bounded(text: string): string {
  return text.slice(0, MAX_FAILURE_TEXT_BYTES);
}
