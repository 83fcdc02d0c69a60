/** @file The public surface of @backwire/rpc but for what starts an agent, which Node and browsers do differently. */
export type { AgentEvents, RpcAgent } from './agent-types.ts';
export {
  allGather,
  barrier,
  callContext,
  getRpcTimeoutMs,
  getWorkerInfo,
  getWorkerInfos,
  processGroup,
  rpcAsync,
  rpcOneway,
  rpcStream,
  rpcSync,
  setRpcTimeoutMs,
  waitAll,
} from './calls.ts';
export { remoteClass, remoteFunction, rpcClass, rpcFunction, type AnyCtor, type AnyFn } from './definitions.ts';
export { newIdempotencyKey } from './ids.ts';
export { RemoteError, RpcError, registerErrorType, rpcInfo, type RpcErrorCode } from './errors.ts';
export type { Extension, ExtensionSession, Incoming, Outgoing } from './extension.ts';
export type {
  CallOptions,
  FaultInjection,
  Limits,
  Liveness,
  Logger,
  Rest,
  RpcOptions,
  Security,
  ShutdownOptions,
  StreamOptions,
} from './options.ts';
export type { Lease, Store } from './stores/store.ts';
export { currentAgent, shutdown } from './start.ts';
export { WorkerInfo, type To } from './worker-info.ts';
