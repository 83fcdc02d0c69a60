/** @file What an owner answers: creating calls, fetches, backward passes. */
import { callContext, RpcError, type Incoming } from '@backwire/rpc';
import type { RpcMessage } from '@backwire/rpc/internal';
import { MessageType } from '@backwire/wire/internal';
import { readWrappedPayload, type Message } from '@backwire/wire';
import { isStream } from './referent.ts';
import { valueOf } from './remote-methods.ts';
import type { RRefSession } from '../extension.ts';
import { decodeCreation, decodeFetch } from '../messages/request-codec.ts';
import { decodeBackward } from '../messages/control-codec.ts';

type Handler = (call: Incoming) => Promise<Message>;

const EMPTY = new Uint8Array(0);

export function requestHandlers(session: RRefSession): ReadonlyMap<MessageType, Handler> {
  const create = (inner: MessageType) => (call: Incoming) => serveCreation(session, call, inner);
  const fetch = (reply: MessageType) => (call: Incoming) => serveFetch(session, call, reply);
  return new Map<MessageType, Handler>([
    [MessageType.PYTHON_REMOTE_CALL, create(MessageType.PYTHON_CALL)],
    [MessageType.SCRIPT_REMOTE_CALL, create(MessageType.SCRIPT_CALL)],
    [MessageType.PYTHON_RREF_FETCH_CALL, fetch(MessageType.PYTHON_RREF_FETCH_RET)],
    [MessageType.SCRIPT_RREF_FETCH_CALL, fetch(MessageType.SCRIPT_RREF_FETCH_RET)],
    [MessageType.RREF_BACKWARD_REQ, (call) => serveBackward(session, call)],
  ]);
}

/** The entry and the creator's fork are registered since delivery. The function's error is the RRef's and the answer's. */
async function serveCreation(session: RRefSession, { from, message }: Incoming, inner: MessageType): Promise<Message> {
  const { payload, extra } = readWrappedPayload(message.payload);
  const { rref } = decodeCreation(extra);
  const { owners } = session.worker;
  const entry = rref.member === session.members.of(from) ? owners.start(rref) : undefined;
  if (entry === undefined) throw session.creationRefused(rref, from);
  const cell = session.cellOfEntry(entry);
  try {
    const value = await session.host.runValue(from, { type: inner, id: message.id, payload, tensors: message.tensors });
    if (isStream(value)) {
      // Nothing that an RRef can do would ever run it.
      await value.return(undefined);
      throw new RpcError('failed-precondition', 'a generator is called with rpcStream()', { executed: 'yes' });
    }
    cell.resolve(value);
  } catch (error) {
    cell.reject(error);
    throw error;
  } finally {
    owners.settle(entry);
  }
  // The answer has the very ids that came.
  return { type: MessageType.REMOTE_RET, id: message.id, payload: extra, tensors: [] };
}

async function serveFetch(session: RRefSession, { from, message }: Incoming, reply: MessageType): Promise<Message> {
  const cell = session.cellOfId(decodeFetch(message.payload));
  const value = cell.settled ? cell.now() : await valueOf(cell);
  const { bytes, tensors, header } = session.host.encodeValue(value, from);
  const answer: RpcMessage = { type: reply, id: message.id, payload: bytes, tensors, header };
  return answer;
}

async function serveBackward(session: RRefSession, { message }: Incoming): Promise<Message> {
  const { rref, contextId, retainGraph } = decodeBackward(message.payload);
  const value = await valueOf(session.cellOfId(rref));
  const { signal } = callContext();
  if (signal.aborted) throw new RpcError('cancelled', 'the backward pass was cancelled', { cause: signal.reason });
  await session.uses.backwardHere(value, contextId, { retainGraph, signal });
  return { type: MessageType.RREF_BACKWARD_RESP, id: message.id, payload: EMPTY, tensors: [] };
}
