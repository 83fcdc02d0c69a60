/** @file The public surface of @backwire/wire. */
export { type DeviceTypeConverter, getDeviceTypeConverter, registerDeviceTypeConverter } from './device-converters.ts';
export {
  type Allocation,
  type Descriptor,
  type Message,
  type WriteBuffers,
  allocate,
  deserializeMessage,
  serializeMessage,
} from './message.ts';
export { type MessageType } from './message-type.ts';
export { type TensorDescriptor } from './tensor-descriptor.ts';
export { decodeValue, encodeValue } from './value-codec.ts';
export { registerValueType } from './value-types.ts';
