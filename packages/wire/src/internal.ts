/** @file What sibling packages use of @backwire/wire; not covered by semantic versioning. */
export { BriefMemory } from './brief-memory.ts';
export { buildTensors } from './build-tensors.ts';
export { ByteReader, WireType } from './byte-reader.ts';
export { ByteWriter } from './byte-writer.ts';
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
} from './autograd-codec.ts';
export { WireError, checkLimit, decodeError, limitError, protocolError } from './errors.ts';
export {
  FrameFlag,
  FrameHeader,
  FrameKind,
  patchAck,
  patchRemaining,
  writeSequence,
  readHeader,
} from './frame-header.ts';
export { FrameReader, type FrameSink } from './frame-reader.ts';
export { type CallFields, type CallRegion, type FrameRegion, FrameWriter, type PendingWrite } from './frame-writer.ts';
export { type HeaderEntry, readHeaderTable, writeHeaderTable } from './header-table.ts';
export * from './limits.ts';
export {
  MessageType,
  type MessageTypeName,
  isKnownMessageType,
  isRequest,
  isResponse,
  messageTypeName,
  messageTypeOf,
} from './message-type.ts';
export { Slab, SlabPool } from './slab.ts';
export { checkTensorTable } from './tensor-checks.ts';
export { readTensorTable } from './tensor-table-codec.ts';
export { type OutgoingBody, TensorPlan } from './tensor-table.ts';
export { ValueCodec } from './value-codec.ts';
export { type ValueExtension, valueTypeNamed, valueTypeOf } from './value-types.ts';
export * from './protobuf.ts';
export { BufferPool, bufferPool } from './buffer-pool.ts';
export { frameName, frameTable, frameTensors, valueEnd } from './call-frame.ts';
export { IncomingTensors } from './incoming-tensors.ts';
export { writeWrappedBriefly } from './wrapped.ts';
export { planTensors } from './tensor-plan.ts';
export { dtypeBytes } from './tensor-descriptor.ts';
