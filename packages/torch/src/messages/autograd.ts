/** @file Messages of distributed autograd: the wrap around calls in a context, gradients, and the end of a context. */
import { isKnownMessageType, MessageType } from '@backwire/wire/internal';
import { refuse } from '../pickle/refusal.ts';
import { readScript, type ScriptContext } from '../pickle/script-reader.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { ScriptDict, scriptDict } from '../values/containers.ts';
import { OpaqueTensor, type TensorLike } from '../values/opaque-tensor.ts';
import { Tensor } from '@backwire/tensor';
import type { BackwardRequest, Body, CleanupRequest, ForwardMessage, RRefBackwardRequest } from './commands.ts';
import {
  fieldsIn,
  flagIn,
  idFields,
  idIn,
  listIn,
  longIn,
  tupleBody,
  unwrapped,
  workerIn,
  wrappedBody,
} from './fields.ts';

export function readForward(kind: ForwardMessage['kind'], body: Uint8Array, context: ScriptContext): ForwardMessage {
  const { inner, metadata } = unwrapped(body);
  const own = { ...context, tensors: [] };
  const [type, contextId, message, from, devices] = fieldsIn(metadata, own, 5, 'the metadata of a context');
  return {
    kind,
    inner: { type: typeIn(type), body: inner, tensors: context.tensors },
    context: longIn(contextId, 'the id of a context'),
    message: longIn(message, 'the id of an autograd message'),
    from: workerIn(from, 'the sender of a message in a context'),
    devices: devicesIn(devices),
  };
}

export function writeForward(type: number, command: ForwardMessage): Body {
  const { inner, context, message, from, devices } = command;
  const writer = new ScriptWriter();
  writer.marked(() => {
    for (const value of [inner.type, context, message, from]) writer.value(value);
    writer.dict(scriptDict('str', 'str', devices));
    writer.remember();
  });
  return wrappedBody(type, inner, writer.finish());
}

/** The type of a message inside of another. */
export function typeIn(value: unknown): number {
  if (typeof value !== 'number' || !isKnownMessageType(value)) throw refuse('a message around one of an unknown type');
  return value;
}

function devicesIn(value: unknown): ReadonlyMap<string, string> {
  if (!(value instanceof ScriptDict)) throw refuse('a map of devices is no dict');
  for (const [from, to] of value)
    if (typeof from !== 'string' || typeof to !== 'string')
      throw refuse('a map of devices with something that is no device');
  return new Map(value as ReadonlyMap<string, string>);
}

export function readBackward(body: Uint8Array, context: ScriptContext): BackwardRequest {
  const items = listIn(body, context, 3, 'a message with gradients');
  const gradients = items.slice(0, -3);
  if (!gradients.every(isTensor)) throw refuse('a gradient that is no tensor');
  const [contextId, message, retainGraph] = items.slice(-3);
  return {
    kind: 'backward-autograd-req',
    gradients,
    context: longIn(contextId, 'the id of a context'),
    message: longIn(message, 'the id of an autograd message'),
    retainGraph: flagIn(retainGraph, 'the word whether the graph is kept'),
  };
}

function isTensor(value: unknown): value is TensorLike {
  return value instanceof Tensor || value instanceof OpaqueTensor;
}

export function writeBackward({ gradients, context, message, retainGraph }: BackwardRequest): Body {
  return tupleBody(MessageType.BACKWARD_AUTOGRAD_REQ, [...gradients, context, message, retainGraph]);
}

export function readCleanup(body: Uint8Array, context: ScriptContext): CleanupRequest {
  return { kind: 'cleanup-autograd-context-req', context: longIn(readScript(body, context), 'the id of a context') };
}

export function writeCleanup({ context }: CleanupRequest): Body {
  const writer = new ScriptWriter();
  writer.value(context);
  return { type: MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, body: writer.finish(), tensors: [] };
}

export function readRRefBackward(body: Uint8Array, context: ScriptContext): RRefBackwardRequest {
  const [rref, contextId, retainGraph] = fieldsIn(body, context, 3, 'a backward pass of an RRef');
  return {
    kind: 'rref-backward-req',
    rref: idIn(rref, 'the id of an RRef'),
    context: longIn(contextId, 'the id of a context'),
    retainGraph: flagIn(retainGraph, 'the word whether the graph is kept'),
  };
}

export function writeRRefBackward({ rref, context, retainGraph }: RRefBackwardRequest): Body {
  return tupleBody(MessageType.RREF_BACKWARD_REQ, [idFields(rref), context, retainGraph]);
}
