/** @file The public surface of @backwire/wire. */
export { type MessageType } from './message-type.ts';
export { type TensorDescriptor } from './tensor-descriptor.ts';
export { decodeValue, encodeValue } from './value-codec.ts';
export { registerValueType } from './value-types.ts';
