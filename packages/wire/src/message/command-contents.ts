/** @file How the fields of each kind of command lie in its message's payload: one entry a kind. */
import { type Tensor } from '@backwire/tensor';
import { ByteReader } from '../bytes/byte-reader.ts';
import { ByteWriter } from '../bytes/byte-writer.ts';
import { AUTOGRAD_CONTENTS } from './autograd-contents.ts';
import { type CommandBody, type Of } from './command-body.ts';
import { fromId, given, invalidArgument, joinId, toContext, toId } from './command-ids.ts';
import { type GlobalId, type KnownCommand, type WireException, type WireProfilerEvent } from './commands.ts';
import { CONTROL_CONTENTS } from './control-contents.ts';
import { decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS } from '../limits.ts';
import { type commonProto, decodeProto, encodeProto, errorProto, messageProto, profilerProto } from '../protobuf.ts';
import { ValueCodec } from '../value/codec.ts';
import { readWrappedPayload, writeWrappedPayload } from '../torch/wrapped.ts';

/** Values of extensions stay what they are on the wire: whoever takes a message apart need not be the agent that it is for. */
const codec = new ValueCodec<undefined>([], DEFAULT_WIRE_LIMITS, { opaque: true });
const EMPTY = new Uint8Array(0);

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
    const { wrapped, profilingId, events, dropped = 0 } = command as unknown as Of<'run-with-profiling-resp'>;
    const inner = wrap(wrapped);
    tensors.push(...inner.tensors);
    const metadata = { wrappedType: inner.type, profile: toId(profilingId), events: events.map(toEvent), dropped };
    return writeWrappedPayload(inner.payload, encodeProto(profilerProto.ProfilingResponse, metadata));
  },
  read(message, unwrap) {
    const { payload, extra } = readWrappedPayload(message.payload);
    const { wrappedType, profile, events, dropped } = decodeProto(
      profilerProto.ProfilingResponse,
      extra,
      'profiler events',
    );
    const wrapped = unwrap({ ...message, type: wrappedType, payload });
    return { profilingId: fromId(profile), events: events.map(fromEvent), ...given({ dropped }), wrapped };
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
  ...AUTOGRAD_CONTENTS,
  ...CONTROL_CONTENTS,
  'run-with-profiling-req': profilingRequest,
  'run-with-profiling-resp': profilingResponse,
  'rref-backward-req': {
    write(command) {
      const { rrefId, contextId, retainGraph } = command as unknown as Of<'rref-backward-req'>;
      return encodeProto(messageProto.RRefBackward, { rref: toId(rrefId), context: toContext(contextId), retainGraph });
    },
    read({ payload }) {
      const { rref, context, retainGraph } = decodeProto(messageProto.RRefBackward, payload, 'backward');
      if (context === undefined) throw decodeError('an id is missing');
      return { rrefId: fromId(rref), contextId: joinId(context.worker, context.local), retainGraph };
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
  'cleanup-autograd-context-resp': empty,
  'rref-backward-resp': empty,
  exception: {
    write: (command) => encodeProto(errorProto.Error, toError(command as unknown as WireException)),
    read: ({ payload }) => ({ ...fromError(decodeProto(errorProto.Error, payload, 'error')) }),
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
  const { function: name, args } = command as { function: unknown; args: unknown };
  if (typeof name !== 'string') throw invalidArgument(`function is the name of a definition, got ${String(name)}`);
  if (!Array.isArray(args)) throw invalidArgument(`args is a list, got ${String(args)}`);
  const out = new ByteWriter();
  out.u8((1 << 3) | 2);
  out.string(name);
  out.u8((2 << 3) | 2);
  const mark = out.beginLength();
  codec.write(out, args, tensors, undefined);
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

function toEvent(event: WireProfilerEvent): profilerProto.ProfilerEvent {
  const { isRemote: remote, shapes, parent = 0, thread = 0, ...same } = event;
  return { ...same, remote, shapes: shapes.map((dims) => ({ dims: [...dims] })), parent, thread };
}

function fromEvent(event: profilerProto.ProfilerEvent): WireProfilerEvent {
  const { remote: isRemote, shapes, parent, thread, ...same } = event;
  return { ...same, isRemote, shapes: shapes.map(({ dims }) => dims), ...given({ parent, thread }) };
}

const EXECUTED = ['no', 'maybe', 'yes'] as const;

function toError(error: WireException): errorProto.Error {
  const { message, code = '', name = '', stack = '', executed, retryable = false, peerName = '', peer, cause } = error;
  return {
    code,
    message,
    name,
    stack,
    executed: (executed === undefined ? 0 : EXECUTED.indexOf(executed) + 1) as commonProto.Executed,
    retryable,
    peerName,
    peer,
    cause: cause === undefined ? undefined : toError(cause),
    details: error.details ?? EMPTY,
    properties: error.properties ?? EMPTY,
  };
}

function fromError(error: errorProto.Error): WireException {
  const { message, executed, cause, ...rest } = error;
  return { message, ...given({ ...rest, executed: EXECUTED[executed - 1], cause: cause && fromError(cause) }) };
}
