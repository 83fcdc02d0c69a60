/** @file What sibling packages use of @backwire/wire; not covered by semantic versioning. */
export { BriefMemory } from './bytes/brief-memory.ts';
export { buildTensors } from './tensor/build.ts';
export { ByteReader, WireType } from './bytes/byte-reader.ts';
export { ByteWriter } from './bytes/byte-writer.ts';
export {
  type Returned,
  type WrapMetadata,
  decodeAbort,
  decodeBackward,
  decodeContextMessage,
  decodeDiscover,
  decodeOutcome,
  decodeWrap,
  encodeAbort,
  encodeBackward,
  encodeContextMessage,
  encodeDiscover,
  encodeOutcome,
  encodeWrap,
} from './message/autograd-codec.ts';
export { WireError, checkLimit, decodeError, limitError, protocolError } from './errors.ts';
export {
  FrameFlag,
  FrameHeader,
  CancelReason,
  FrameKind,
  patchAck,
  patchRemaining,
  writeSequence,
  readHeader,
} from './frame/header.ts';
export { handshakeFrame } from './frame/handshake-frame.ts';
export { FrameReader, type FrameSink } from './frame/reader.ts';
export { type CallFields, type CallRegion, type FrameRegion, FrameWriter, type PendingWrite } from './frame/writer.ts';
export { type HeaderEntry, readHeaderTable, writeHeaderTable } from './frame/header-table.ts';
export * from './limits.ts';
export {
  MessageType,
  type MessageTypeName,
  isKnownMessageType,
  isRequest,
  isResponse,
  messageTypeName,
  messageTypeOf,
} from './message/message-type.ts';
export { Slab, SlabPool } from './frame/slab.ts';
export { checkTensorTable } from './tensor/checks.ts';
export { readTensorTable } from './tensor/table-codec.ts';
export { type OutgoingBody, TensorPlan } from './tensor/table.ts';
export { ValueCodec } from './value/codec.ts';
export { type Findings, type ValueExtension, valueTypeNamed, valueTypeOf } from './value/types.ts';
export * from './protobuf.ts';
export { BufferPool, bufferPool } from './bytes/buffer-pool.ts';
export { frameName, frameTable, frameTensors, valueEnd } from './frame/call-frame.ts';
export { IncomingTensors } from './tensor/incoming.ts';
export { writeWrappedBriefly } from './torch/wrapped.ts';
export { planTensors } from './tensor/plan.ts';
export { travellingBytes } from './tensor/travelling-bytes.ts';
export { dtypeBytes } from './tensor/descriptor.ts';
