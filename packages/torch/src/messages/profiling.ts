/** @file Messages of torch's legacy profiler: the wrap around a call that is profiled, and the events that come back. */
import { MessageType } from '@backwire/wire/internal';
import { integerIn, numberIn } from '../pickle/builtin-globals.ts';
import { narrowed } from '../pickle/integers.ts';
import { refuse } from '../pickle/refusal.ts';
import type { ScriptContext } from '../pickle/script-reader.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { ScriptList, scriptList } from '../values/containers.ts';
import { PyFloat } from '../values/numbers.ts';
import { typeIn } from './autograd.ts';
import type { Body, ProfilingRequest, ProfilingResponse, TorchEvent } from './commands.ts';
import { fieldsIn, flagIn, idFields, idIn, listIn, longIn, textIn, unwrapped, wrappedBody } from './fields.ts';

export function readRequest(body: Uint8Array, context: ScriptContext): ProfilingRequest {
  const { inner, metadata } = unwrapped(body);
  const own = { ...context, tensors: [] };
  const [type, config, profile] = fieldsIn(metadata, own, 3, 'the metadata of a profile');
  if (!(config instanceof ScriptList) || config.length !== 3) throw refuse('a profile without its three settings');
  return {
    kind: 'run-with-profiling-req',
    inner: { type: typeIn(type), body: inner, tensors: context.tensors },
    profile: idIn(profile, 'the id of a profile'),
    state: integerIn(config[0], 0, 255, 'the state of a profiler'),
    shapes: flagIn(config[1], 'the word whether shapes are recorded'),
    memory: flagIn(config[2], 'the word whether memory is recorded'),
  };
}

export function writeRequest(command: ProfilingRequest): Body {
  const { inner, state, shapes, memory, profile } = command;
  const writer = new ScriptWriter({ aliases: false });
  writer.tuple([inner.type, scriptList<unknown>('Any', [state, shapes, memory]), idFields(profile)]);
  return wrappedBody(MessageType.RUN_WITH_PROFILING_REQ, inner, writer.finish());
}

export function readResponse(body: Uint8Array, context: ScriptContext): ProfilingResponse {
  const { inner, metadata } = unwrapped(body);
  const own = { ...context, tensors: [] };
  const [type, profile, count, ...events] = listIn(metadata, own, 3, 'the metadata of a profile');
  if (count !== events.length) throw refuse('a profile with another number of events than it says');
  return {
    kind: 'run-with-profiling-resp',
    inner: { type: typeIn(type), body: inner, tensors: context.tensors },
    profile: idIn(profile, 'the id of a profile'),
    events: events.map(eventIn),
  };
}

export function writeResponse(command: ProfilingResponse): Body {
  const { inner, profile, events } = command;
  const writer = new ScriptWriter({ aliases: false });
  writer.tuple([inner.type, idFields(profile), events.length, ...events.map(eventFields)]);
  return wrappedBody(MessageType.RUN_WITH_PROFILING_RESP, inner, writer.finish());
}

const FIELDS = 12;

function eventIn(value: unknown): TorchEvent {
  if (!(value instanceof ScriptList) || value.length !== FIELDS) throw refuse('an event without its twelve fields');
  const long = (at: number): number | bigint => narrowed(longIn(value[at], 'a field of an event'));
  const small = (at: number): number => integerIn(value[at], -0x8000_0000, 0xffff_ffff, 'a field of an event');
  return {
    kind: integerIn(value[0], 0, 3, 'the kind of an event'),
    name: textIn(value[1], 'the name of an event'),
    thread: small(2),
    handle: numberIn(value[3], 'the handle of an event'),
    node: small(4),
    cpuBytes: long(5),
    cpuNs: long(6),
    hasCuda: value[7] === true || value[7] === 1,
    cudaBytes: long(8),
    cudaDevice: small(9),
    cudaUs: long(10),
    shapes: shapesIn(value[11]),
  };
}

function shapesIn(value: unknown): readonly (readonly number[])[] {
  if (!(value instanceof ScriptList)) throw refuse('the shapes of an event are no list');
  return value.map((shape) => {
    if (!(shape instanceof ScriptList)) throw refuse('a shape of an event is no list');
    return [...shape].map((size) => integerIn(size, 0, Number.MAX_SAFE_INTEGER, 'a size of an event'));
  });
}

function eventFields(event: TorchEvent): ScriptList {
  const shapes = event.shapes.map((shape) => scriptList('int', shape));
  return scriptList<unknown>('Any', [
    event.kind,
    event.name,
    event.thread,
    new PyFloat(event.handle),
    event.node,
    event.cpuBytes,
    event.cpuNs,
    event.hasCuda,
    event.cudaBytes,
    event.cudaDevice,
    event.cudaUs,
    scriptList('List[int]', shapes),
  ]);
}
