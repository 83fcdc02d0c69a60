/** @file What an owner answers: creating calls, fetches, backward passes. */
import { callContext, RpcError, type Incoming, type WorkerInfo } from '@backwire/rpc';
import { cancelled, isStream, type ExtensionHost, type RpcMessage } from '@backwire/rpc/internal';
import { MessageType } from '@backwire/wire/internal';
import { readWrappedPayload, type Message } from '@backwire/wire';
import { creationCutOff } from '../failure.ts';
import type { MemberDirectory } from '../members.ts';
import { decodeBackward, decodeCreation, decodeFetch } from '../messages/request-codec.ts';
import type { GlobalId } from '../protocol/ids.ts';
import type { OwnerTable } from '../protocol/owner-table.ts';
import { backwardHere } from './backward.ts';
import type { OwnedValue } from './owned-value.ts';
import type { OwnedValues } from './owned-values.ts';
import { typeNameOf } from './referent.ts';
import { valueOf } from './remote-methods.ts';
import { StandIn, elsewhere } from './stand-in.ts';

/** What an owner needs to answer. */
export interface OwnerHost {
  readonly host: ExtensionHost;
  readonly members: MemberDirectory;
  readonly worker: { readonly owners: OwnerTable<OwnedValue> };
  readonly owned: OwnedValues;
  /** Why a creating call is not run. */
  creationRefused(rref: GlobalId, from: WorkerInfo): RpcError;
}

type Handler = (call: Incoming) => Promise<Message>;

const EMPTY = new Uint8Array(0);

export function requestHandlers(owner: OwnerHost): ReadonlyMap<MessageType, Handler> {
  const create = (inner: MessageType) => (call: Incoming) => serveCreation(owner, call, inner);
  const fetch = (reply: MessageType) => (call: Incoming) => serveFetch(owner, call, reply);
  return new Map<MessageType, Handler>([
    [MessageType.PYTHON_REMOTE_CALL, create(MessageType.PYTHON_CALL)],
    [MessageType.SCRIPT_REMOTE_CALL, create(MessageType.SCRIPT_CALL)],
    [MessageType.PYTHON_RREF_FETCH_CALL, fetch(MessageType.PYTHON_RREF_FETCH_RET)],
    [MessageType.SCRIPT_RREF_FETCH_CALL, fetch(MessageType.SCRIPT_RREF_FETCH_RET)],
    [MessageType.RREF_BACKWARD_REQ, (call) => serveBackward(owner, call)],
  ]);
}

/** The entry and the creator's fork are registered since delivery. The function's error is the RRef's and the answer's. */
async function serveCreation(owner: OwnerHost, { from, message }: Incoming, inner: MessageType): Promise<Message> {
  const { payload, extra } = readWrappedPayload(message.payload);
  const { rref } = decodeCreation(extra);
  const { owners } = owner.worker;
  const entry = rref.member === owner.members.of(from) ? owners.start(rref) : undefined;
  if (entry === undefined) throw owner.creationRefused(rref, from);
  const owned = owner.owned.of(entry);
  try {
    const value = await owner.host.runValue(from, { type: inner, id: message.id, payload, tensors: message.tensors });
    if (isStream(value)) {
      // Nothing that an RRef can do would ever run it.
      await value.return(undefined);
      throw new RpcError('failed-precondition', 'a generator is called with rpcStream()', { executed: 'yes' });
    }
    owned.resolve(value);
  } catch (error) {
    // Whoever fetches the value did not set that time limit.
    const cutOff = error === callContext().signal.reason ? creationCutOff(error, owner.host.self) : undefined;
    owned.reject(cutOff ?? error);
    throw error;
  } finally {
    owners.settle(entry);
  }
  // The answer has the very ids that came.
  return { type: MessageType.REMOTE_RET, id: message.id, payload: extra, tensors: [] };
}

async function serveFetch(owner: OwnerHost, { from, message }: Incoming, reply: MessageType): Promise<Message> {
  const owned = owner.owned.byId(decodeFetch(message.payload));
  const own = owned.settled ? owned.now() : await valueOf(owned);
  const value = own instanceof StandIn ? await elsewhere((within) => own.fetch(within)) : own;
  try {
    const { bytes, tensors, header } = owner.host.encodeValue(value, from);
    const answer: RpcMessage = { type: reply, id: message.id, payload: bytes, tensors, header };
    return answer;
  } catch (error) {
    throw unsendable(error, value, from);
  }
}

/** Says that it is a value of an RRef that cannot travel, and how it is used where it is. */
function unsendable(error: unknown, value: unknown, to: WorkerInfo): unknown {
  if (!(error instanceof TypeError) || !error.message.startsWith('cannot send ')) return error;
  const text = `toHere(): the value of the RRef, of type '${typeNameOf(value)}', cannot go to worker '${to.name}': ${error.message}; or call its methods where it is, with rref.rpcSync()`;
  return new TypeError(text, { cause: error });
}

async function serveBackward(owner: OwnerHost, { message }: Incoming): Promise<Message> {
  const { rref, contextId, retainGraph } = decodeBackward(message.payload);
  const value = await valueOf(owner.owned.byId(rref));
  const { signal } = callContext();
  if (signal.aborted) throw cancelled('the backward pass', signal.reason);
  await backwardHere(owner.host, value, contextId, { retainGraph, signal });
  return { type: MessageType.RREF_BACKWARD_RESP, id: message.id, payload: EMPTY, tensors: [] };
}
