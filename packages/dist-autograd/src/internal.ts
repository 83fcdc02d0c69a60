/** @file What sibling packages use of @backwire/dist-autograd; not covered by semantic versioning. */
export { sessionOf } from './api.ts';
export { AutogradSession, EXTENSION_NAME } from './extension.ts';
export { RecvRpcBackward, SendRpcBackward } from './engine/functions.ts';
export { LiveContext } from './live-context.ts';
export { addRecvRpcBackward, addSendRpcBackward, getMessageWithAutograd, type Wrapped, type Wrapping } from './wrap.ts';
