/** @file What sibling packages use of @backwire/dist-autograd; not covered by semantic versioning. */
export { provideAutograd, sessionOf, type Autograd, type RemoteModules, type RemoteOptimizers } from './api.ts';
export { errorOf, failureOf } from './failure.ts';
export { GraphTask } from './engine/graph-task.ts';
export { checkOptions, checkRoots } from './engine/roots.ts';
export { AutogradSession, EXTENSION_NAME } from './extension.ts';
export { RecvRpcBackward, SendRpcBackward, type Grads } from './engine/functions.ts';
export type { Fired } from './protocol/pass-types.ts';
export { LiveContext } from './live-context.ts';
export { remoteModuleOver } from './remote-module.ts';
export { addRecvRpcBackward, addSendRpcBackward, getMessageWithAutograd, type Wrapped, type Wrapping } from './wrap.ts';
