/** @file What sibling packages use of @backwire/rpc; not covered by semantic versioning. */
export { InvariantError, RPC_ERROR_CODES, isRpcErrorCode, type Executed, type RpcErrorFields } from './errors.ts';
export {
  definitionOfInstance,
  findDefinition,
  invoke,
  nameOf,
  systemFunction,
  type Definition,
} from './definitions.ts';
export type {
  CallLabel,
  ExtensionHost,
  ExtensionInternals,
  ExtensionValue,
  Followed,
  Member,
  MessageOptions,
  RpcMessage,
} from './extension.ts';
export { checkTimeoutMs } from './options.ts';
export { runInScope } from './scoped.ts';
export { serveStore, type ServeStoreOptions, type StoreServer } from './stores/embedded-server.ts';
export { openStore } from './stores/open.ts';
export { findKeys } from './security/secret.ts';
export { system as systemError } from './dispatcher.ts';
export { callLabelled, collectInWaitAll } from './calls.ts';
export { withoutSlot } from './inbound-call.ts';
