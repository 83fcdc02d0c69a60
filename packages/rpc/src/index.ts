/** @file The public surface of @backwire/rpc. */
export type { AgentEvents, RpcAgent } from './agent-types.ts';
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
export { WorkerInfo, type To } from './worker-info.ts';
