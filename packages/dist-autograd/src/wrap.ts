/** @file Puts autograd metadata around messages, and send and receive functions into the graph. */
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import type { Tensor } from '@backwire/tensor';
import { ambient, setHistory } from '@backwire/tensor/internal';
import { readWrappedPayload, type Message } from '@backwire/wire';
import { decodeWrap, encodeWrap, MessageType, type HeaderEntry, type WrapMetadata } from '@backwire/wire/internal';
import { setApart } from './engine/apart.ts';
import { RecvRpcBackward, SendRpcBackward } from './engine/functions.ts';
import { reachOf } from './engine/reach.ts';
import { unlessRefused } from './failure.ts';
import type { LiveContext } from './live-context.ts';
import { incarnationOf, memberOf } from './peers.ts';
import type { ContextTable } from './protocol/context.ts';
import type { MemberRef, PassId } from './protocol/ids.ts';
import type { Direction, Path } from './protocol/order-key.ts';
import type { Target } from './protocol/pass-types.ts';
import { wrapPayload } from './wrapped-bytes.ts';

/**
 * Requests that are wrapped in a context, and whether they are even when no argument requires grad: the result of a function may,
 * that of an operation cannot.
 */
const WRAPPED: ReadonlyMap<number, boolean> = new Map([
  [MessageType.SCRIPT_CALL, false],
  [MessageType.SCRIPT_REMOTE_CALL, false],
  [MessageType.PYTHON_CALL, true],
  [MessageType.PYTHON_REMOTE_CALL, true],
  [MessageType.SCRIPT_RREF_FETCH_CALL, true],
  [MessageType.PYTHON_RREF_FETCH_CALL, true],
]);

/** What wrapping needs of the worker it happens on. */
export interface Wrapping {
  readonly host: ExtensionHost;
  readonly contexts: ContextTable<LiveContext>;
  /** Whether messages say what their gradients come to, so that passes can be planned. */
  readonly plans: boolean;
  /** What a request says of passes that failed. */
  heardFailed(context: LiveContext, by: MemberRef, passes: readonly PassId[]): void;
}

/** What is inside may have header entries, which go along. */
type WithHeader = Message & { readonly header?: readonly HeaderEntry[] };

/** A wrapped message and the id of its send function, if it has one. */
export interface Wrapped {
  readonly message: Message;
  readonly sendId: number | undefined;
}

/** Whether messages of this type are ever wrapped; undefined when not, else whether always. */
export function forcesRecording(type: number): boolean | undefined {
  return WRAPPED.get(type);
}

/** Those tensors that gradients can come back for. */
export function requiringGrad(tensors: readonly Tensor[]): Tensor[] {
  return tensors.filter((tensor) => tensor.requiresGrad);
}

/**
 * Records that `tensors`, those of a message that require grad, leave this worker: gradients for the message come back through the
 * function made here.
 * @throws RpcError 'resource-exhausted' when the context has no room for it.
 * @public
 */
export function addSendRpcBackward(
  context: LiveContext,
  messageId: number,
  key: { path: Path; direction: Direction },
  tensors: readonly Tensor[],
): SendRpcBackward {
  const send = new SendRpcBackward(messageId, key, tensors);
  unlessRefused(() => context.addSend(messageId, send));
  return send;
}

/**
 * Records that `tensors`, those of a received message that require grad, came from `from`: their gradients go there.
 * Returns undefined when there are none.
 * @throws RpcError 'resource-exhausted' when the context has no room for it.
 * @public
 */
export function addRecvRpcBackward(
  context: LiveContext,
  from: WorkerInfo,
  messageId: number,
  tensors: readonly Tensor[],
  reach?: readonly Target[],
): RecvRpcBackward | undefined {
  const requiring = requiringGrad(tensors);
  if (requiring.length === 0) return undefined;
  const recv = new RecvRpcBackward(context.id, from.id, messageId, requiring.length, reach);
  unlessRefused(() => context.addRecv(from.id, messageId, recv));
  setApart(requiring);
  setHistory(requiring, recv);
  return recv;
}

/**
 * The request as it travels in the context: wrapped when its type always is or some tensor requires grad and grad mode is on, else
 * undefined. The peer becomes a known worker.
 */
export function getMessageWithAutograd(
  own: Wrapping,
  context: LiveContext,
  to: WorkerInfo,
  message: Message,
): Wrapped | undefined {
  const forced = forcesRecording(message.type);
  if (forced === undefined) return undefined;
  const requiring = ambient().gradMode ? requiringGrad(message.tensors) : [];
  if (!forced && requiring.length === 0) return undefined;
  if (!canWrap(own, to)) {
    if (requiring.length === 0) return undefined;
    throw new RpcError('failed-precondition', `worker '${to.name}' has no extension 'dist-autograd'`, { peer: to });
  }
  const path = context.invocation(ambient().call).next();
  return wrap(own, context, to, message, { path, direction: 'request' }, requiring);
}

/** Wraps the response of a call that was wrapped, if its result requires grad. */
export function wrapResponse(own: Wrapping, context: LiveContext, to: WorkerInfo, reply: Message, path: Path): Message {
  const requiring = requiringGrad(reply.tensors);
  if (requiring.length === 0 || reply.type === MessageType.EXCEPTION) return reply;
  if (context.released) throw gone(context.id);
  return wrap(own, context, to, reply, { path, direction: 'response' }, requiring).message;
}

/** The response inside, with its tensors in the graph. A context that is gone leaves them without history. */
export function unwrapResponse(own: Wrapping, from: WorkerInfo, reply: Message): Message {
  if (reply.type !== MessageType.FORWARD_AUTOGRAD_RESP) return reply;
  const { meta, inner } = unwrap(reply);
  const context = own.contexts.lookup(meta.context);
  if (context !== undefined && meta.graph) attach(own, context, from, meta, inner);
  return inner;
}

/**
 * The request inside and its context, made now if it is new here.
 * @throws RpcError 'failed-precondition' when it was released, 'resource-exhausted' when there are too many or it has no room.
 */
export function unwrapRequest(
  own: Wrapping,
  from: WorkerInfo,
  message: Message,
): { context: LiveContext; inner: Message; path: Path } {
  const { meta, inner } = unwrap(message);
  // A wrap inside a wrap would be unwrapped without end.
  if (forcesRecording(meta.type) === undefined) {
    throw new RpcError('protocol-error', `a message of type ${meta.type} cannot be wrapped in an autograd context`);
  }
  const by = memberOf(own.host, from);
  const context = unlessRefused(() => own.contexts.accept(meta.context, meta.oldest, by));
  context.calledBy(by);
  if (meta.failed !== undefined) own.heardFailed(context, by, meta.failed);
  if (meta.graph) attach(own, context, from, meta, inner);
  return { context, inner, path: meta.path };
}

/** The error of code that goes on in a context after it was left. */
export function gone(id: bigint): RpcError {
  return new RpcError(
    'failed-precondition',
    `Couldn't find autograd context data for current autograd context id: ${id} was released`,
  );
}

function attach(own: Wrapping, context: LiveContext, from: WorkerInfo, meta: WrapMetadata, inner: Message): void {
  if (addRecvRpcBackward(context, from, meta.message, inner.tensors, meta.reach) !== undefined)
    know(own, context, from);
}

function wrap(
  own: Wrapping,
  context: LiveContext,
  to: WorkerInfo,
  message: Message,
  key: { path: Path; direction: Direction },
  requiring: readonly Tensor[],
): Wrapped {
  const { contexts } = own;
  const id = contexts.nextMessage();
  const graph = requiring.length > 0;
  const send = graph ? addSendRpcBackward(context, id, key, requiring) : undefined;
  know(own, context, to);
  const request = key.direction === 'request';
  const metadata = encodeWrap({
    type: message.type,
    context: context.ref,
    oldest: contexts.oldestOf(context.ref),
    message: id,
    path: key.path,
    graph,
    reach: send === undefined || !own.plans ? undefined : reachOf(send, context.id),
    failed: request && context.aborted.length > 0 ? context.aborted : undefined,
  });
  const wrapped: WithHeader = {
    type: request ? MessageType.FORWARD_AUTOGRAD_REQ : MessageType.FORWARD_AUTOGRAD_RESP,
    id: message.id,
    payload: wrapPayload(message.payload, metadata),
    tensors: message.tensors,
    header: (message as WithHeader).header as readonly HeaderEntry[],
  };
  return { sendId: graph ? id : undefined, message: wrapped };
}

function unwrap(message: Message): { meta: WrapMetadata; inner: Message } {
  const { payload, extra } = readWrappedPayload(message.payload);
  const meta = decodeWrap(extra);
  return { meta, inner: { type: meta.type, id: message.id, payload, tensors: message.tensors } };
}

function know(own: Wrapping, context: LiveContext, worker: WorkerInfo): void {
  context.known.set(worker.id, incarnationOf(own.host, worker));
}

/** Whether the peer understands wraps. One that was not met yet is known by the view; a worker without any extension names none. */
function canWrap(own: Wrapping, to: WorkerInfo): boolean {
  return to.id === own.host.self.id || own.host.extensionsOf(to).has('dist-autograd');
}
