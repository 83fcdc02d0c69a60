/** @file The public surface of @backwire/wire. */
export {
  type AutogradWrap,
  type Command,
  type FunctionId,
  type GlobalId,
  type GradientsOf,
  type KnownCommand,
  type MemberId,
  type RequestCommand,
  type ResponseCommand,
  type WireException,
  type WireFailure,
  type WireProfilerEvent,
} from './message/commands.ts';
export {
  type DecodedResponse,
  decodeResponseValue,
  deserializeRequest,
  deserializeResponse,
  serializeRequest,
  serializeResponse,
} from './message/command-codec.ts';
export {
  type DeviceTypeConverter,
  getDeviceTypeConverter,
  registerDeviceTypeConverter,
} from './tensor/device-converters.ts';
export { cloneSparseTensors, parseWireSections, wireDeserialize, wireSerialize } from './torch/flat.ts';
export {
  type Allocation,
  type Descriptor,
  type Message,
  type WriteBuffers,
  allocate,
  deserializeMessage,
  serializeMessage,
} from './message/message.ts';
export { type MessageType } from './message/message-type.ts';
export { type RpcErrorType, getRpcErrorType, makeRpcError } from './torch/rpc-error-text.ts';
export { sparseRpcFormatToTensor, sparseTensorToRpcFormat } from './torch/sparse-format.ts';
export { type SparseDescriptor, type TensorDescriptor } from './tensor/descriptor.ts';
export { decodeValue, encodeValue } from './value/codec.ts';
export { TaggedValue, registerValueType } from './value/types.ts';
export { readWrappedPayload, writeWrappedPayload } from './torch/wrapped.ts';
