/** @file The public surface of @backwire/rpc but for what starts an agent, which Node and browsers do differently. */
export type { AgentEvents, RpcAgent, ShutdownOptions } from './base/rpc-agent.ts';
export {
  allGather,
  barrier,
  callContext,
  getRpcTimeoutMs,
  getWorkerInfo,
  getWorkerInfos,
  rpcAsync,
  rpcOneway,
  rpcStream,
  rpcSync,
  setRpcTimeoutMs,
  waitAll,
} from './calls.ts';
export { processGroup } from './process-group.ts';
export {
  remoteClass,
  remoteFunction,
  rpcClass,
  rpcFunction,
  type AnyCtor,
  type AnyFn,
  type Published,
} from './base/definitions.ts';
export { newIdempotencyKey } from './base/ids.ts';
export { registerErrorType } from './base/error-types.ts';
export { RemoteError, RpcError, rpcInfo, type ErrorPeer, type RpcErrorCode } from './base/errors.ts';
export type { Extension, ExtensionSession, Incoming, Outgoing } from './extensions/extension.ts';
export type {
  CallOptions,
  FaultInjection,
  Limits,
  Liveness,
  Logger,
  Rest,
  Security,
  StreamOptions,
} from './base/options.ts';
export type { Lease, Store } from './stores/store.ts';
export { currentAgent, shutdown } from './agent/start.ts';
export { WorkerInfo, type To } from './base/worker-info.ts';
export type { CallContext } from './server/inbound-call.ts';
export type { RpcOptions } from './agent/rpc-options.ts';
