/** @file The protocol's control messages as bytes: messages of the shared schema. */
import { DECISIONS_PER_EPOCH } from '@backwire/rpc/internal';
import { controlProto, decodeProto, encodeProto, MessageType } from '@backwire/wire/internal';
import { MAX_DEAD_MEMBERS, MAX_DELETES_PER_MESSAGE, MAX_FAILURE_TEXT_BYTES } from '../limits.ts';
import { incarnationOf, memberKey, workerOf, type MemberKey } from '../protocol/ids.ts';
import type { Control, Failure } from '../protocol/messages.ts';
import { fromProto, malformed, toProto } from './proto-id.ts';

/** A control message as type and payload. */
export interface EncodedControl {
  readonly type: MessageType;
  readonly payload: Uint8Array;
}

/** What a user is told when the owner gives no reason. */
const REFUSED: Failure = { code: 'resource-exhausted', text: 'the owner did not register this handle' };

export function encodeControl(message: Control): EncodedControl {
  switch (message.kind) {
    case 'fork-request': {
      const { rref, fork } = message;
      const fields = { rref: toProto(rref), fork: toProto(fork), parent: memberToProto(fork.member) };
      return encoded(MessageType.RREF_FORK_REQUEST, controlProto.RRefForkRequest, fields);
    }
    case 'fork-ack': {
      const { fork, refused } = message;
      const why = { refused: refused !== undefined, code: refused?.code ?? '', message: bounded(refused?.text ?? '') };
      return encoded(MessageType.RREF_ACK, controlProto.RRefForkAck, { fork: toProto(fork), ...why });
    }
    case 'child-accept':
      return encoded(MessageType.RREF_CHILD_ACCEPT, controlProto.RRefChildAccept, { fork: toProto(message.fork) });
    case 'user-delete': {
      const fields = { rref: undefined, forks: message.forks.map(toProto) };
      return encoded(MessageType.RREF_USER_DELETE, controlProto.RRefUserDelete, fields);
    }
    case 'create-failed': {
      const { rref, fork, failure } = message;
      const fields = { rref: toProto(rref), fork: toProto(fork), code: failure.code, message: bounded(failure.text) };
      return encoded(MessageType.RREF_CREATE_FAILED, controlProto.RRefCreateFailed, fields);
    }
    case 'fence':
      return encoded(MessageType.FENCE, controlProto.Fence, {
        ...numberToProto(message.epoch),
        dead: message.dead.map(memberToProto),
      });
    case 'fence-ack':
      return encoded(MessageType.FENCE_ACK, controlProto.FenceAck, numberToProto(message.epoch));
    case 'fence-done':
      return encoded(MessageType.FENCE_DONE, controlProto.FenceDone, {
        epoch: 0,
        dead: message.dead.map(memberToProto),
      });
  }
}

type Decoder = (payload: Uint8Array) => Control;

/** What each type of control message means. Decoders throw for anything malformed. */
export const CONTROL_DECODERS: ReadonlyMap<MessageType, Decoder> = new Map<MessageType, Decoder>([
  decoder(MessageType.RREF_FORK_REQUEST, controlProto.RRefForkRequest, 'fork request', ({ rref, fork }) => ({
    kind: 'fork-request',
    rref: fromProto(rref),
    fork: fromProto(fork),
  })),
  decoder(
    MessageType.RREF_ACK,
    controlProto.RRefForkAck,
    'fork acknowledgement',
    ({ fork, refused, code, message }) => {
      const why = code === '' ? REFUSED : { code, text: bounded(message) };
      return { kind: 'fork-ack', fork: fromProto(fork), refused: refused ? why : undefined };
    },
  ),
  decoder(MessageType.RREF_CHILD_ACCEPT, controlProto.RRefChildAccept, 'accept', ({ fork }) => ({
    kind: 'child-accept',
    fork: fromProto(fork),
  })),
  decoder(MessageType.RREF_USER_DELETE, controlProto.RRefUserDelete, 'delete', ({ forks }) => {
    if (forks.length > MAX_DELETES_PER_MESSAGE) throw malformed('a delete of too many forks');
    return { kind: 'user-delete', forks: forks.map(fromProto) };
  }),
  decoder(MessageType.RREF_CREATE_FAILED, controlProto.RRefCreateFailed, 'failed creation', (failed) => ({
    kind: 'create-failed',
    rref: fromProto(failed.rref),
    fork: fromProto(failed.fork),
    failure: { code: failed.code, text: bounded(failed.message) },
  })),
  decoder(MessageType.FENCE, controlProto.Fence, 'fence', ({ dead, ...number }) => ({
    kind: 'fence',
    epoch: numberFromProto(number),
    dead: membersFromProto(dead),
  })),
  decoder(MessageType.FENCE_ACK, controlProto.FenceAck, 'fence answer', (number) => ({
    kind: 'fence-ack',
    epoch: numberFromProto(number),
  })),
  decoder(MessageType.FENCE_DONE, controlProto.FenceDone, 'end of a fence', ({ dead }) => ({
    kind: 'fence-done',
    dead: membersFromProto(dead),
  })),
]);

function decoder<T>(
  type: MessageType,
  schema: Parameters<typeof decodeProto<T>>[0],
  what: string,
  read: (message: T) => Control,
): [MessageType, Decoder] {
  return [type, (payload) => read(decodeProto(schema, payload, what))];
}

function encoded<T>(type: MessageType, schema: Parameters<typeof encodeProto<T>>[0], fields: T): EncodedControl {
  return { type, payload: encodeProto(schema, fields) };
}

/** The number of a view: the store's epoch, and how many of its members have been decided to be gone since. */
function numberToProto(number: number): { epoch: number; decisions: number } {
  return { epoch: Math.floor(number / DECISIONS_PER_EPOCH), decisions: number % DECISIONS_PER_EPOCH };
}

function numberFromProto({ epoch, decisions }: { epoch: number; decisions: number }): number {
  return epoch * DECISIONS_PER_EPOCH + decisions;
}

function membersFromProto(members: readonly { worker: number; incarnation: number }[]): MemberKey[] {
  if (members.length > MAX_DEAD_MEMBERS) throw malformed('a fence of too many');
  return members.map(({ worker, incarnation }) => memberKey(worker, incarnation));
}

function bounded(text: string): string {
  return text.slice(0, MAX_FAILURE_TEXT_BYTES);
}

function memberToProto(member: MemberKey): { worker: number; incarnation: number } {
  return { worker: workerOf(member), incarnation: incarnationOf(member) };
}
