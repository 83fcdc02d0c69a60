/** @file A call as a message that is encoded only when an extension looks inside. */
import type { Tensor } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import { ByteReader, ByteWriter, decodeError, WireType, type HeaderEntry } from '@backwire/wire/internal';
import type { Core, ValueContext } from './core.ts';
import type { RpcMessage } from './extension.ts';
import type { WorkerInfo } from './worker-info.ts';

/** Most calls meet extensions that have nothing to do with them: those are never encoded here. */
export class LazyCall implements Message {
  readonly type: number;
  readonly id = 0n;
  private readonly core: Core;
  private readonly to: WorkerInfo;
  private readonly name: string;
  private readonly args: readonly unknown[];
  private message: RpcMessage | undefined;

  constructor(core: Core, to: WorkerInfo, type: number, name: string, args: readonly unknown[]) {
    this.core = core;
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
    return (this.message ??= encodeCallMessage(this.core, this.to, this.type, this.name, this.args));
  }
}

/** The message of a call, whole: payload `Call` of the schema. @throws TypeError for an argument that cannot travel. */
export function encodeCallMessage(
  core: Core,
  to: WorkerInfo,
  type: number,
  name: string,
  args: readonly unknown[],
): RpcMessage {
  const { bytes, tensors, header } = encodeFor(core, to, args);
  return { type, id: 0n, payload: callPayload(name, bytes), tensors, header };
}

const NAME = (1 << 3) | WireType.LENGTH;
const ARGUMENTS = (2 << 3) | WireType.LENGTH;
const encoder = new TextEncoder();

/** The payload of a call: its name, and its arguments, which are a value. */
export function callPayload(name: string, args: Uint8Array): Uint8Array {
  const utf8 = encoder.encode(name);
  const out = new ByteWriter(utf8.length + args.length + 16);
  for (const [tag, bytes] of [
    [NAME, utf8],
    [ARGUMENTS, args],
  ] as const) {
    out.u8(tag);
    out.varint32(bytes.length);
    out.raw(bytes);
  }
  return out.finish();
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
 * A value for `to`, with what goes beside it.
 * @throws TypeError for what cannot travel; what was drawn for the part before it is taken back.
 */
export function encodeFor(
  core: Core,
  to: WorkerInfo,
  value: unknown,
): { bytes: Uint8Array; tensors: Tensor[]; header: readonly HeaderEntry[] } {
  const out = new ByteWriter();
  const tensors: Tensor[] = [];
  const context: ValueContext = { worker: to, header: [], pending: [], unclaimed: [] };
  try {
    core.codec.write(out, value, tensors, context);
  } catch (error) {
    core.extensions.undelivered(to, context.header);
    throw error;
  }
  return { bytes: out.finish(), tensors, header: context.header };
}
