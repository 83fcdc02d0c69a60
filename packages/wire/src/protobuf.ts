/** @file The generated protobuf messages, by topic, and their encoding with this package's errors. */
import { type BinaryReader, type BinaryWriter } from '@bufbuild/protobuf/wire';
import { decodeError } from './errors.ts';

export * as commonProto from './gen/backwire/wire/v1/common.ts';
export * as controlProto from './gen/backwire/wire/v1/control.ts';
export * as errorProto from './gen/backwire/wire/v1/error.ts';
export * as handshakeProto from './gen/backwire/wire/v1/handshake.ts';
export * as messageProto from './gen/backwire/wire/v1/message.ts';
export * as profilerProto from './gen/backwire/wire/v1/profiler.ts';

/** A generated message. */
export interface ProtobufMessage<T> {
  encode(message: T, writer?: BinaryWriter): BinaryWriter;
  decode(input: BinaryReader | Uint8Array, length?: number): T;
}

/** The bytes of a message. */
export function encodeProto<T>(type: ProtobufMessage<T>, message: T): Uint8Array {
  return type.encode(message).finish();
}

/**
 * Reads a message. Byte fields are views of `bytes`. The caller has checked the length of `bytes`.
 * @throws WireError 'decode-error' naming `what`.
 */
export function decodeProto<T>(type: ProtobufMessage<T>, bytes: Uint8Array, what: string): T {
  try {
    return type.decode(bytes);
  } catch (cause) {
    throw decodeError(`malformed ${what}`, cause);
  }
}
