/** @file A call as a message that is encoded only when an extension looks inside. */
import type { Tensor } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import { BriefMemory, ByteReader, ByteWriter, decodeError, WireType, type HeaderEntry } from '@backwire/wire/internal';
import type { ValueContext } from '../base/environment.ts';
import type { ExtendedEnvironment } from './chain.ts';
import type { RpcMessage } from './extension.ts';
import { unsent } from '../base/unsent.ts';
import type { WorkerInfo } from '../base/worker-info.ts';

/** Most calls meet extensions that have nothing to do with them: those are never encoded here. */
export class CallMessage implements Message {
  readonly type: number;
  readonly id = 0n;
  private readonly environment: ExtendedEnvironment;
  private readonly to: WorkerInfo;
  private readonly name: string;
  private readonly args: readonly unknown[];
  private message: RpcMessage | undefined;

  constructor(environment: ExtendedEnvironment, to: WorkerInfo, type: number, name: string, args: readonly unknown[]) {
    this.environment = environment;
    this.to = to;
    this.type = type;
    this.name = name;
    this.args = args;
  }

  /** Whether somebody looked: what was encoded then has to be what is sent. */
  get encoded(): boolean {
    return this.message !== undefined;
  }
  get payload(): Uint8Array {
    return this.encode().payload;
  }
  get tensors(): readonly Tensor[] {
    return this.encode().tensors;
  }
  get header(): readonly HeaderEntry[] | undefined {
    return this.encode().header;
  }

  private encode(): RpcMessage {
    return (this.message ??= encodeCallMessage(this.environment, this.to, this.type, this.name, this.args));
  }
}

/**
 * The message of a call, whole: payload `Call` of the schema, and behind it, where it is given, what `extra` makes when the arguments
 * are written (see `writeWrappedPayload`).
 * @throws TypeError for an argument that cannot travel.
 */
export function encodeCallMessage(
  environment: ExtendedEnvironment,
  to: WorkerInfo,
  type: number,
  name: string,
  args: readonly unknown[],
  extra?: () => Uint8Array,
): RpcMessage {
  const { bytes, tensors, header } = encodeFor(environment, to, args, name, extra);
  return { type, id: 0n, payload: bytes, tensors, header };
}

const NAME = (1 << 3) | WireType.LENGTH;
const ARGUMENTS = (2 << 3) | WireType.LENGTH;
const encoder = new TextEncoder();

/** The payload of a call: its name, and its arguments, which are a value. */
export function callPayload(name: string, args: Uint8Array): Uint8Array {
  const prefix = prefixOf(name);
  const out = new ByteWriter(prefix.length + args.length + 5);
  out.raw(prefix);
  out.varint32(args.length);
  out.raw(args);
  return out.written();
}

/** The prefix made last: most programs make the same call many times. */
let lastName: string | undefined;
let lastPrefix: Uint8Array = new Uint8Array(0);

/** What stands before the length of the arguments. */
function prefixOf(name: string): Uint8Array {
  if (name === lastName) return lastPrefix;
  const utf8 = encoder.encode(name);
  const out = new ByteWriter(utf8.length + 8);
  out.u8(NAME);
  out.varint32(utf8.length);
  out.raw(utf8);
  out.u8(ARGUMENTS);
  lastName = name;
  lastPrefix = out.finish();
  return lastPrefix;
}

/** The name in the payload of a call, and where its arguments are. Throws WireError 'decode-error'. */
export function readCallPayload(payload: Uint8Array): { name: string; start: number; end: number } {
  const reader = new ByteReader(payload);
  let name: string | undefined;
  let start = 0;
  let end = 0;
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === NAME) name = reader.utf8(reader.length());
    else if (tag === ARGUMENTS) {
      const length = reader.length();
      start = reader.pos;
      end = start + length;
      reader.pos = end;
    } else reader.skip(tag & 7);
  }
  if (name === undefined) throw decodeError('a call without a name');
  return { name, start, end };
}

/**
 * A value for `to`, with what goes beside it; as the arguments of a call of `name` where that is given, with `extra` behind it.
 * @throws TypeError for what cannot travel; what was drawn for the part before it is taken back.
 */
export function encodeFor(
  environment: ExtendedEnvironment,
  to: WorkerInfo,
  value: unknown,
  name?: string,
  extra?: () => Uint8Array,
): { bytes: Uint8Array; tensors: Tensor[]; header: readonly HeaderEntry[] } {
  // Whoever encodes an extension's value may encode another one meanwhile.
  const out = spare ?? new ByteWriter(MAX_SPARE_BYTES);
  spare = undefined;
  const tensors: Tensor[] = [];
  const context: ValueContext = { worker: to, header: [], pending: [], unclaimed: [] };
  try {
    if (name !== undefined) out.raw(prefixOf(name));
    const mark = name === undefined ? -1 : out.beginLength();
    environment.codec.write(out, value, tensors, context);
    if (mark >= 0) out.endLength(mark);
    if (extra !== undefined) putTrailer(out, extra());
    return { bytes: name === undefined ? out.finish() : brief.copy(out.written()), tensors, header: context.header };
  } catch (error) {
    environment.extensions.undelivered(to, context.header);
    throw error;
  } finally {
    out.pos = 0;
    if (out.bytes.length <= MAX_SPARE_BYTES) spare = out;
  }
}

/** A result as a message. @throws what cannot travel, as the result of the function that `name` says. */
export function encodeReply(
  environment: ExtendedEnvironment,
  to: WorkerInfo,
  type: number,
  value: unknown,
  name: () => string,
): RpcMessage {
  try {
    const { bytes, tensors, header } = encodeFor(environment, to, value);
    return { type, id: 0n, payload: bytes, tensors, header };
  } catch (error) {
    throw unsent(error, { what: 'the result', name: name(), to, self: environment.self, executed: 'yes' });
  }
}

/** `extra` and its length as eight big-endian bytes, as behind every wrapped payload. */
function putTrailer(out: ByteWriter, extra: Uint8Array): void {
  out.raw(extra);
  out.reserve(8);
  const { bytes, pos } = out;
  bytes.fill(0, pos, pos + 4);
  for (let i = 0; i < 4; i++) bytes[pos + 7 - i] = extra.length >>> (8 * i);
  out.pos = pos + 8;
}

/** Of payloads of calls. */
const brief = new BriefMemory();

/** Memory to encode in, kept from one value to the next unless it has grown. */
let spare: ByteWriter | undefined;
const MAX_SPARE_BYTES = 4_096;
