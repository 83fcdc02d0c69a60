/** @file The commands that are sent one way, in the payloads of their messages: lifetimes of RRefs, fences, and the end of an agent. */
import { type CommandBody, type Of } from './command-body.ts';
import { fromId, given, isEmpty, toId } from './command-ids.ts';
import { type GlobalId } from './commands.ts';
import { controlProto, decodeProto, encodeProto, type ProtobufMessage } from '../protobuf.ts';

const forkRequest: CommandBody = {
  write(command) {
    const { rrefId, forkId, parent } = command as unknown as Of<'rref-fork-request'>;
    return encodeProto(controlProto.RRefForkRequest, { rref: toId(rrefId), fork: toId(forkId), parent });
  },
  read({ payload }) {
    const { rref, fork, parent } = decodeProto(controlProto.RRefForkRequest, payload, 'fork request');
    return { rrefId: fromId(rref), forkId: fromId(fork), ...given({ parent }) };
  },
};

const ack: CommandBody = {
  write(command) {
    const { forkId, refused } = command as unknown as Of<'rref-ack'>;
    return encodeProto(controlProto.RRefForkAck, {
      fork: forkId === undefined ? undefined : toId(forkId),
      refused: refused !== undefined,
      code: refused?.code ?? '',
      message: refused?.message ?? '',
    });
  },
  read({ payload }) {
    const { fork, refused, code, message } = decodeProto(controlProto.RRefForkAck, payload, 'fork acknowledgement');
    return given({ forkId: fork && fromId(fork), refused: refused && { code, message } });
  },
};

const childAccept: CommandBody = {
  write: ({ forkId }) => encodeProto(controlProto.RRefChildAccept, { fork: toId(forkId as GlobalId) }),
  read: ({ payload }) => ({ forkId: fromId(decodeProto(controlProto.RRefChildAccept, payload, 'accept').fork) }),
};

const userDelete: CommandBody = {
  write(command) {
    const given = command as unknown as Of<'rref-user-delete'>;
    const fields =
      'forkIds' in given
        ? { rref: undefined, forks: given.forkIds.map(toId) }
        : { rref: toId(given.rrefId), forks: [toId(given.forkId)] };
    return encodeProto(controlProto.RRefUserDelete, fields);
  },
  read({ payload }) {
    const { rref, forks } = decodeProto(controlProto.RRefUserDelete, payload, 'delete');
    // With the RRef it is PyTorch's, of one fork; agents send those of one turn together.
    if (rref !== undefined && forks.length === 1) return { rrefId: fromId(rref), forkId: fromId(forks[0]) };
    return { forkIds: forks.map(fromId) };
  },
};

const createFailed: CommandBody = {
  write(command) {
    const { rrefId, forkId, code, message } = command as unknown as Of<'rref-create-failed'>;
    return encodeProto(controlProto.RRefCreateFailed, { rref: toId(rrefId), fork: toId(forkId), code, message });
  },
  read({ payload }) {
    const { rref, fork, code, message } = decodeProto(controlProto.RRefCreateFailed, payload, 'failed creation');
    return { rrefId: fromId(rref), forkId: fromId(fork), code, message };
  },
};

/** A command whose fields are those of its message; the fields in `always` are there also when they say nothing. */
function plain<T extends object>(type: ProtobufMessage<T>, what: string, always: readonly (keyof T)[]): CommandBody {
  const nothing = type.decode(new Uint8Array(0));
  return {
    write: ({ kind: _, ...fields }) => encodeProto(type, { ...nothing, ...fields }),
    read({ payload }) {
      const entries = Object.entries(decodeProto(type, payload, what)) as [keyof T & string, unknown][];
      return Object.fromEntries(entries.filter(([key, value]) => always.includes(key) || !isEmpty(value)));
    },
  };
}

export const CONTROL_CONTENTS = {
  'rref-fork-request': forkRequest,
  'rref-ack': ack,
  'rref-child-accept': childAccept,
  'rref-user-delete': userDelete,
  'rref-create-failed': createFailed,
  fence: plain(controlProto.Fence, 'fence', ['epoch']),
  'fence-ack': plain(controlProto.FenceAck, 'fence answer', ['epoch']),
  'fence-done': plain(controlProto.FenceDone, 'end of a fence', ['epoch', 'dead']),
  report: plain(controlProto.MemberReport, 'report', ['epoch']),
  drain: plain(controlProto.Drain, 'drain', ['lastSeq', 'graceMs', 'reason']),
  bye: plain(controlProto.Bye, 'goodbye', ['reason']),
} as const;
