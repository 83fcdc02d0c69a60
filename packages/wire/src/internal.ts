/** @file What sibling packages use of @backwire/wire; not covered by semantic versioning. */
export { BriefMemory } from './brief-memory.ts';
export { buildTensors } from './build-tensors.ts';
export { ByteReader, WireType } from './byte-reader.ts';
export { ByteWriter } from './byte-writer.ts';
export {
  type ContextRef,
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
export { WireError, type WireErrorCode, checkLimit, decodeError, limitError, protocolError } from './errors.ts';
export {
  BASE_HEADER_BYTES,
  CALL_HEADER_BYTES,
  FrameFlag,
  FrameHeader,
  FrameKind,
  ID_HEADER_BYTES,
  headerBytes,
  patchAck,
  patchFlags,
  patchRemaining,
  patchSequence,
  readHeader,
} from './frame-header.ts';
export { FrameReader, type FrameSink, type ReaderPhase } from './frame-reader.ts';
export { type CallFields, type CallRegion, type FrameRegion, FrameWriter, type PendingWrite } from './frame-writer.ts';
export { type HeaderEntry, readHeaderTable, writeHeaderTable } from './header-table.ts';
export * from './limits.ts';
export {
  MessageType,
  type MessageTypeName,
  REQUEST,
  RESPONSE,
  isKnownMessageType,
  isRequest,
  isResponse,
  messageTypeName,
  messageTypeOf,
} from './message-type.ts';
export { Slab, SlabPool } from './slab.ts';
export { checkTensorTable } from './tensor-checks.ts';
export { type SparseDescriptor, type StorageDescriptor, type TensorTable } from './tensor-descriptor.ts';
export { readTensorTable } from './tensor-table-codec.ts';
export { type OutgoingBody, OutgoingStorage, TensorPlan } from './tensor-table.ts';
export { ValueCodec } from './value-codec.ts';
export { ERROR_CLASSES } from './value-format.ts';
export { type ValueExtension, type ValueType, valueTypeNamed, valueTypeOf } from './value-types.ts';
export * from './protobuf.ts';
export { BufferPool, type BufferPoolStats, bufferPool } from './buffer-pool.ts';
export { frameName, frameTable, frameTensors, valueEnd } from './call-frame.ts';
export { IncomingTensors } from './incoming-tensors.ts';
export { writeWrappedBriefly } from './wrapped.ts';
export { type PlanOptions, planTensors } from './tensor-plan.ts';
