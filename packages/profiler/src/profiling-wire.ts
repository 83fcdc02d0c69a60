/** @file How profiled calls travel: the wrapped message and its metadata. */
import { type Message, readWrappedPayload, writeWrappedPayload } from '@backwire/wire';
import { decodeProto, encodeProto, MessageType, profilerProto } from '@backwire/wire/internal';
import type { RpcMessage } from '@backwire/rpc/internal';
import type { EventKind, ProfileOptions, RecordedEvent } from './events.ts';
import { MAX_DIMS, MAX_EVENTS_PER_REPLY, MAX_NAME_CHARS, MAX_SHAPES } from './limits.ts';
import type { RemoteEvents } from './recorder.ts';

/** An id of a profiled call. */
export interface ProfileId {
  readonly worker: number;
  readonly incarnation: number;
  readonly local: number;
}

/** The name of the event that says when the callee got the call, on its own clock since the epoch, and how long it had it. */
const WHOLE = '__start_profile';

/** The request that asks for `message` to be run under a profiler. */
export function wrapRequest(message: Message, profile: ProfileId, options: ProfileOptions): Message {
  const config = { recordShapes: options.recordShapes === true, profileMemory: options.profileMemory === true };
  const extra = encodeProto(profilerProto.ProfilingRequest, { wrappedType: message.type, config, profile });
  return changed(message, MessageType.RUN_WITH_PROFILING_REQ, writeWrappedPayload(message.payload, extra));
}

/** The message inside, and what was asked. @throws WireError for a message that is not one. */
export function unwrapRequest(message: Message): { inner: Message; profile: ProfileId; options: ProfileOptions } {
  const { payload, extra } = readWrappedPayload(message.payload);
  const { wrappedType, config, profile } = decodeProto(profilerProto.ProfilingRequest, extra, 'a profiling request');
  return {
    inner: changed(message, wrappedType, payload),
    profile: profile ?? { worker: 0, incarnation: 0, local: 0 },
    options: { recordShapes: config?.recordShapes === true, profileMemory: config?.profileMemory === true },
  };
}

/** The reply with what was recorded. `startedUs` is since the epoch, on this worker's clock. */
export function wrapResponse(
  reply: Message,
  profile: ProfileId,
  events: readonly RecordedEvent[],
  handled: { readonly startedUs: number; readonly handledUs: number; readonly dropped: number },
): Message {
  const sent = events.slice(0, MAX_EVENTS_PER_REPLY);
  const whole = {
    name: WHOLE,
    kind: 'handler',
    node: 0,
    isRemote: false,
    startUs: handled.startedUs,
    durationUs: handled.handledUs,
    parent: -1,
  } as const;
  const extra = encodeProto(profilerProto.ProfilingResponse, {
    wrappedType: reply.type,
    profile,
    events: [toProto(whole), ...sent.map(toProto)],
    dropped: handled.dropped + events.length - sent.length,
  });
  return changed(reply, MessageType.RUN_WITH_PROFILING_RESP, writeWrappedPayload(reply.payload, extra));
}

/** The reply inside, and what the callee `node` recorded. @throws WireError for a message that is not one. */
export function unwrapResponse(
  reply: Message,
  node: number,
): { inner: Message; profile: ProfileId | undefined; remote: RemoteEvents } {
  const { payload, extra } = readWrappedPayload(reply.payload);
  const response = decodeProto(profilerProto.ProfilingResponse, extra, 'a profiling response');
  const [whole, ...rest] = response.events.slice(0, MAX_EVENTS_PER_REPLY + 1);
  return {
    inner: changed(reply, response.wrappedType, payload),
    profile: response.profile,
    remote: {
      node,
      handledUs: finite(whole?.durationUs),
      ...(whole === undefined || finite(whole.startUs) === 0 ? {} : { startedUs: whole.startUs }),
      dropped: response.dropped,
      events: rest.map((event, index) => fromProto(event, index)),
    },
  };
}

/** The message with another type and payload. A message may compute its parts when asked, so they are named one by one. */
function changed({ id, tensors, header }: RpcMessage, type: MessageType, payload: Uint8Array): RpcMessage {
  return header === undefined ? { type, id, payload, tensors } : { type, id, payload, tensors, header };
}

/** Kinds as the numbers that travel in `thread`: a worker has one thread, so the field tells the kind apart. */
const KINDS: readonly EventKind[] = ['op', 'scope', 'rpc', 'handler'];

function toProto(event: RecordedEvent): profilerProto.ProfilerEvent {
  return {
    name: event.name,
    node: event.node,
    remote: event.isRemote,
    startUs: event.startUs,
    durationUs: event.durationUs,
    shapes: (event.shapes ?? []).slice(0, MAX_SHAPES).map((dims) => ({ dims: dims.slice(0, MAX_DIMS) })),
    bytes: event.bytes ?? 0,
    parent: event.parent + 1,
    thread: KINDS.indexOf(event.kind),
  };
}

function fromProto(event: profilerProto.ProfilerEvent, index: number): RecordedEvent {
  const parent = event.parent - 1;
  return {
    name: event.name.slice(0, MAX_NAME_CHARS),
    kind: KINDS[event.thread] ?? 'op',
    node: event.node,
    isRemote: event.remote,
    startUs: finite(event.startUs),
    durationUs: Math.max(finite(event.durationUs), 0),
    // An event is listed after the one it is in: anything else would be a loop.
    parent: parent < index ? parent : -1,
    ...(event.shapes.length === 0
      ? {}
      : { shapes: event.shapes.slice(0, MAX_SHAPES).map(({ dims }) => dims.slice(0, MAX_DIMS)) }),
    ...(event.bytes === 0 ? {} : { bytes: event.bytes }),
  };
}

function finite(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) ? value : 0;
}
