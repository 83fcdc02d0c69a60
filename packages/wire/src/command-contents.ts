/** @file How the fields of each kind of command lie in its message's payload: one entry a kind. */
import { type Tensor } from '@backwire/tensor';
import { ByteReader } from './byte-reader.ts';
import { ByteWriter } from './byte-writer.ts';
import {
  type AutogradWrap,
  type Command,
  type GlobalId,
  type KnownCommand,
  type WireProfilerEvent,
} from './commands.ts';
import { decodeError } from './errors.ts';
import { type Message } from './message.ts';
import {
  autogradProto,
  type commonProto,
  controlProto,
  decodeProto,
  encodeProto,
  messageProto,
  profilerProto,
} from './protobuf.ts';
import { ValueCodec } from './value-codec.ts';
import { readWrappedPayload, writeWrappedPayload } from './wrapped.ts';

/** Payload of one kind: `write` adds the tensors it names to `tensors`; `wrap` and `unwrap` handle a message inside. */
export interface CommandBody {
  write(command: Command, tensors: Tensor[], wrap: (wrapped: Command) => Message): Uint8Array;
  read(message: Message, unwrap: (message: Message) => Command): Readonly<Record<string, unknown>>;
}

type Of<K extends KnownCommand['kind']> = Extract<KnownCommand, { kind: K }>;

const codec = new ValueCodec<undefined>();
const EMPTY = new Uint8Array(0);
const LOW_48 = (1n << 48n) - 1n;

const empty: CommandBody = { write: () => EMPTY, read: () => ({}) };

const value: CommandBody = {
  write: (command, tensors) => valueBytes(command['value'], tensors),
  read: ({ payload, tensors }) => ({ value: readValue(payload, tensors) }),
};

const call: CommandBody = {
  write: (command, tensors) => callBytes(command as unknown as Of<'python-call'>, tensors),
  read: ({ payload, tensors }) => readCall(payload, tensors),
};

const remoteCall: CommandBody = {
  write(command, tensors) {
    const { rrefId, forkId, ...rest } = command as unknown as Of<'python-remote-call'>;
    const ids = encodeProto(messageProto.RemoteReturn, { rref: toId(rrefId), fork: toId(forkId) });
    return writeWrappedPayload(callBytes(rest, tensors), ids);
  },
  read({ payload, tensors }) {
    const { payload: inner, extra } = readWrappedPayload(payload);
    return { ...readCall(inner, tensors), ...readFork(extra) };
  },
};

const fetch: CommandBody = {
  write(command) {
    const { rrefId, fromWorkerId } = command as unknown as Of<'python-rref-fetch-call'>;
    return encodeProto(messageProto.RRefFetch, { rref: toId(rrefId), worker: fromWorkerId });
  },
  read({ payload }) {
    const { rref, worker } = decodeProto(messageProto.RRefFetch, payload, 'fetch');
    return { rrefId: fromId(rref), fromWorkerId: worker };
  },
};

const autogradWrap: CommandBody = {
  write(command, tensors, wrap) {
    const { wrapped, contextId, messageId, fromWorkerId, deviceMap } = command as unknown as AutogradWrap;
    const inner = wrap(wrapped);
    tensors.push(...inner.tensors);
    const metadata: autogradProto.AutogradMetadata = {
      wrappedType: inner.type,
      context: splitId(contextId),
      message: splitId(messageId),
      sender: fromWorkerId,
      deviceMap: { ...deviceMap },
      oldestLive: 0,
      tensors: [],
    };
    return writeWrappedPayload(inner.payload, encodeProto(autogradProto.AutogradMetadata, metadata));
  },
  read(message, unwrap) {
    const { payload, extra } = readWrappedPayload(message.payload);
    const metadata = decodeProto(autogradProto.AutogradMetadata, extra, 'autograd metadata');
    return {
      contextId: joinId(metadata.context),
      messageId: joinId(metadata.message),
      fromWorkerId: metadata.sender,
      deviceMap: metadata.deviceMap,
      wrapped: unwrap({ ...message, type: metadata.wrappedType, payload }),
    };
  },
};

const backward: CommandBody = {
  write(command, tensors) {
    const { contextId, messageId, retainGraph, gradients } = command as unknown as Of<'backward-autograd-req'>;
    for (const gradient of gradients) if (gradient !== null) tensors.push(gradient);
    return encodeProto(autogradProto.AutogradBackward, {
      pass: { context: splitId(contextId), pass: undefined },
      message: splitId(messageId),
      retainGraph,
      defined: gradients.map((gradient) => gradient !== null),
      path: [],
    });
  },
  read({ payload, tensors }) {
    const { pass, message, retainGraph, defined } = decodeProto(autogradProto.AutogradBackward, payload, 'gradients');
    if (defined.filter(Boolean).length !== tensors.length)
      throw decodeError('another number of gradients than tensors');
    let next = 0;
    const gradients = defined.map((has) => (has ? (tensors[next++] as Tensor) : null));
    return { contextId: joinId(pass?.context), messageId: joinId(message), retainGraph, gradients };
  },
};

const profilingRequest: CommandBody = {
  write(command, tensors, wrap) {
    const { wrapped, profilingId, recordShapes, profileMemory } = command as unknown as Of<'run-with-profiling-req'>;
    const inner = wrap(wrapped);
    tensors.push(...inner.tensors);
    const metadata = { wrappedType: inner.type, config: { recordShapes, profileMemory }, profile: toId(profilingId) };
    return writeWrappedPayload(inner.payload, encodeProto(profilerProto.ProfilingRequest, metadata));
  },
  read(message, unwrap) {
    const { payload, extra } = readWrappedPayload(message.payload);
    const { wrappedType, config, profile } = decodeProto(profilerProto.ProfilingRequest, extra, 'profiler settings');
    return {
      profilingId: fromId(profile),
      recordShapes: config?.recordShapes ?? false,
      profileMemory: config?.profileMemory ?? false,
      wrapped: unwrap({ ...message, type: wrappedType, payload }),
    };
  },
};

const profilingResponse: CommandBody = {
  write(command, tensors, wrap) {
    const { wrapped, profilingId, events } = command as unknown as Of<'run-with-profiling-resp'>;
    const inner = wrap(wrapped);
    tensors.push(...inner.tensors);
    const metadata = { wrappedType: inner.type, profile: toId(profilingId), events: events.map(toEvent), dropped: 0 };
    return writeWrappedPayload(inner.payload, encodeProto(profilerProto.ProfilingResponse, metadata));
  },
  read(message, unwrap) {
    const { payload, extra } = readWrappedPayload(message.payload);
    const { wrappedType, profile, events } = decodeProto(profilerProto.ProfilingResponse, extra, 'profiler events');
    const wrapped = unwrap({ ...message, type: wrappedType, payload });
    return { profilingId: fromId(profile), events: events.map(fromEvent), wrapped };
  },
};

/** The payload of every kind of command. */
export const contents: Readonly<Record<KnownCommand['kind'], CommandBody>> = {
  'script-call': call,
  'python-call': call,
  'script-remote-call': remoteCall,
  'python-remote-call': remoteCall,
  'script-rref-fetch-call': fetch,
  'python-rref-fetch-call': fetch,
  'rref-user-delete': {
    write({ rrefId, forkId }) {
      return encodeProto(controlProto.RRefUserDelete, {
        rref: toId(rrefId as GlobalId),
        forks: [toId(forkId as GlobalId)],
      });
    },
    read({ payload }) {
      const { rref, forks } = decodeProto(controlProto.RRefUserDelete, payload, 'delete');
      if (forks.length !== 1) throw decodeError(`a delete of ${forks.length} forks`);
      return { rrefId: fromId(rref), forkId: fromId(forks[0]) };
    },
  },
  'rref-fork-request': {
    write({ rrefId, forkId }) {
      return encodeProto(controlProto.RRefForkRequest, {
        rref: toId(rrefId as GlobalId),
        fork: toId(forkId as GlobalId),
        parent: undefined,
      });
    },
    read({ payload }) {
      const { rref, fork } = decodeProto(controlProto.RRefForkRequest, payload, 'fork request');
      return { rrefId: fromId(rref), forkId: fromId(fork) };
    },
  },
  'rref-child-accept': {
    write: ({ forkId }) => encodeProto(controlProto.RRefChildAccept, { fork: toId(forkId as GlobalId) }),
    read: ({ payload }) => ({ forkId: fromId(decodeProto(controlProto.RRefChildAccept, payload, 'accept').fork) }),
  },
  'forward-autograd-req': autogradWrap,
  'forward-autograd-resp': autogradWrap,
  'backward-autograd-req': backward,
  'cleanup-autograd-context-req': {
    write: ({ contextId }) => encodeProto(autogradProto.AutogradCleanup, { context: splitId(contextId as bigint) }),
    read: ({ payload }) => ({
      contextId: joinId(decodeProto(autogradProto.AutogradCleanup, payload, 'cleanup').context),
    }),
  },
  'run-with-profiling-req': profilingRequest,
  'run-with-profiling-resp': profilingResponse,
  'rref-backward-req': {
    write(command) {
      const { rrefId, contextId, retainGraph } = command as unknown as Of<'rref-backward-req'>;
      return encodeProto(messageProto.RRefBackward, { rref: toId(rrefId), context: splitId(contextId), retainGraph });
    },
    read({ payload }) {
      const { rref, context, retainGraph } = decodeProto(messageProto.RRefBackward, payload, 'backward');
      return { rrefId: fromId(rref), contextId: joinId(context), retainGraph };
    },
  },
  'script-ret': value,
  'python-ret': value,
  'script-rref-fetch-ret': value,
  'python-rref-fetch-ret': value,
  'remote-ret': {
    write: ({ rrefId, forkId }) =>
      encodeProto(messageProto.RemoteReturn, { rref: toId(rrefId as GlobalId), fork: toId(forkId as GlobalId) }),
    read: ({ payload }) => readFork(payload),
  },
  'rref-ack': empty,
  'backward-autograd-resp': empty,
  'cleanup-autograd-context-resp': empty,
  'rref-backward-resp': empty,
  exception: {
    write: ({ message }) => new TextEncoder().encode(String(message)),
    read: ({ payload }) => ({ message: new TextDecoder().decode(payload) }),
  },
};

function valueBytes(plain: unknown, tensors: Tensor[]): Uint8Array {
  const out = new ByteWriter();
  codec.write(out, plain, tensors, undefined);
  return out.finish();
}

function readValue(bytes: Uint8Array, tensors: readonly Tensor[]): unknown {
  return codec.read(bytes, 0, bytes.length, tensors, undefined);
}

/** A protobuf `Call`, written here because its arguments are a `Value` that needs the tensors. */
function callBytes(command: { function: string; args: readonly unknown[] }, tensors: Tensor[]): Uint8Array {
  const out = new ByteWriter();
  out.u8((1 << 3) | 2);
  out.string(command.function);
  out.u8((2 << 3) | 2);
  const mark = out.beginLength();
  codec.write(out, command.args, tensors, undefined);
  out.endLength(mark);
  return out.finish();
}

function readCall(bytes: Uint8Array, tensors: readonly Tensor[]): { function: string; args: unknown[] } {
  const reader = new ByteReader(bytes);
  let name = '';
  let args: unknown = [];
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === ((1 << 3) | 2)) name = reader.utf8(reader.length());
    else if (tag === ((2 << 3) | 2)) args = readValue(reader.view8(), tensors);
    else reader.skip(tag & 7);
  }
  if (name === '' || !Array.isArray(args)) throw decodeError('a call without a function or a list of arguments');
  return { function: name, args };
}

function readFork(bytes: Uint8Array): { rrefId: GlobalId; forkId: GlobalId } {
  const { rref, fork } = decodeProto(messageProto.RemoteReturn, bytes, 'fork');
  return { rrefId: fromId(rref), forkId: fromId(fork) };
}

function toId(id: GlobalId): commonProto.Id {
  return { worker: id.createdOn, incarnation: id.incarnation ?? 0, local: Number(id.localId) };
}

function fromId(id: commonProto.Id | undefined): GlobalId {
  if (id === undefined) throw decodeError('an id is missing');
  return { createdOn: id.worker, localId: BigInt(id.local), incarnation: id.incarnation };
}

/** `worker << 48 | counter`. */
function splitId(id: bigint): commonProto.Id {
  return { worker: Number(BigInt.asUintN(64, id) >> 48n), incarnation: 0, local: Number(id & LOW_48) };
}

function joinId(id: commonProto.Id | undefined): bigint {
  if (id === undefined) throw decodeError('an id is missing');
  return BigInt.asIntN(64, (BigInt(id.worker) << 48n) | (BigInt(id.local) & LOW_48));
}

function toEvent(event: WireProfilerEvent): profilerProto.ProfilerEvent {
  const { name, node, isRemote, startUs, durationUs, shapes, bytes } = event;
  return {
    name,
    node,
    remote: isRemote,
    startUs,
    durationUs,
    shapes: shapes.map((dims) => ({ dims: [...dims] })),
    bytes,
    parent: 0,
    thread: 0,
  };
}

function fromEvent(event: profilerProto.ProfilerEvent): WireProfilerEvent {
  const { name, node, remote, startUs, durationUs, shapes, bytes } = event;
  return { name, node, isRemote: remote, startUs, durationUs, shapes: shapes.map(({ dims }) => dims), bytes };
}
