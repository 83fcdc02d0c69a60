/** @file Reads and writes the parts that bodies of messages are made of: ids, tuples, wrapped bodies. */
import { readWrappedPayload, writeWrappedPayload } from '@backwire/wire';
import { integerIn } from '../pickle/builtin-globals.ts';
import { refuse } from '../pickle/refusal.ts';
import { readScript, type ScriptContext } from '../pickle/script-reader.ts';
import { ScriptWriter } from '../pickle/script-writer.ts';
import { encodeText } from '../pickle/text.ts';
import { PyTuple } from '../values/containers.ts';
import type { TorchId } from '../values/objects.ts';
import type { Body, Inner } from './commands.ts';

/** The largest id of a worker: torch keeps it in 16 bits. */
const MAX_WORKER = 0x7fff;

/** The tuple of `count` values that a body is. */
export function fieldsIn(body: Uint8Array, context: ScriptContext, count: number, what: string): readonly unknown[] {
  const items = readScript(body, context);
  if (!(items instanceof PyTuple) || items.length !== count) throw refuse(`${what} without its ${count} parts`);
  return items;
}

/** The tuple of at least `count` values that a body is. */
export function listIn(body: Uint8Array, context: ScriptContext, count: number, what: string): readonly unknown[] {
  const items = readScript(body, context);
  if (!(items instanceof PyTuple) || items.length < count) throw refuse(`${what} without its ${count} parts or more`);
  return items;
}

export function idIn(value: unknown, what: string): TorchId {
  if (!(value instanceof PyTuple) || value.length !== 2) throw refuse(`${what} is no id`);
  return { worker: workerIn(value[0], what), local: integerIn(value[1], 0, Number.MAX_SAFE_INTEGER, what) };
}

export function workerIn(value: unknown, what: string): number {
  return integerIn(value, 0, MAX_WORKER, what);
}

export function flagIn(value: unknown, what: string): boolean {
  if (typeof value !== 'boolean') throw refuse(`${what} is no bool`);
  return value;
}

export function textIn(value: unknown, what: string): string {
  if (typeof value !== 'string') throw refuse(`${what} is no text`);
  return value;
}

/** An integer of 64 bits. */
export function longIn(value: unknown, what: string): bigint {
  if (typeof value === 'bigint') return value;
  if (typeof value !== 'number' || !Number.isInteger(value)) throw refuse(`${what} is no integer`);
  return BigInt(value);
}

/** Bytes of a pickle inside of a pickle. Those that are text are no pickle, of which their reader says why: what asks for it is known. */
export function pickledIn(value: unknown): Uint8Array {
  if (typeof value === 'string') return encodeText(value);
  if (!(value instanceof Uint8Array)) throw refuse('a pickled function or value is none');
  return value;
}

/** (worker, local) */
export function idFields({ worker, local }: TorchId): PyTuple {
  return PyTuple.of(worker, local);
}

/** A body that is one tuple. `write` gets the writer of its values. */
export function tupleBody(type: number, values: readonly unknown[]): Body {
  const writer = new ScriptWriter();
  writer.tuple(values);
  return { type, body: writer.finish(), tensors: writer.tensors };
}

/** A body that is empty. */
export function emptyBody(type: number): Body {
  return { type, body: new Uint8Array(0), tensors: [] };
}

/** A body around another one. */
export function wrappedBody(type: number, inner: Inner, metadata: Uint8Array): Body {
  return { type, body: writeWrappedPayload(inner.body, metadata), tensors: inner.tensors };
}

/** Takes a body around another one apart; the type of the inner one is in the metadata. */
export function unwrapped(body: Uint8Array): { inner: Uint8Array; metadata: Uint8Array } {
  const { payload, extra } = readWrappedPayload(body);
  return { inner: payload, metadata: extra };
}
