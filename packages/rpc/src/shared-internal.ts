/** @file What sibling packages use of @backwire/rpc wherever it runs. */
export { errorTypeOf } from './base/error-types.ts';
export {
  bareText,
  InvariantError,
  invalidArgument,
  missingPackage,
  RPC_ERROR_CODES,
  isRpcErrorCode,
  rpcInfo,
  type Executed,
  type RpcErrorFields,
} from './base/errors.ts';
export {
  definitionOfClass,
  definitionOfInstance,
  definitions,
  nameOf,
  systemFunction,
  type Definition,
  type Kind,
  type NotGenerator,
} from './base/definitions.ts';
export type {
  CallLabel,
  ExtensionHost,
  ExtensionInternals,
  ExtensionValue,
  Followed,
  Member,
  MessageOptions,
  RpcMessage,
} from './extensions/extension.ts';
export {
  CALL_OPTIONS,
  checkArguments,
  checkFunction,
  checkMethods,
  checkSignal,
  checkSwitch,
  checkTimeoutMs,
  refuseUnknown,
} from './base/options.ts';
export { observe } from './base/observe.ts';
export { bare, show } from './base/shown.ts';
export { checkShutdown } from './base/shutdown-options.ts';
export { LOGGER_METHODS } from './agent/rpc-options.ts';
export { describeThrown } from './session/error-properties.ts';
export { nearestName, optionNames, unknownOption } from '@backwire/tensor/internal';
export { runInScope, type Fate } from './server/handler.ts';
export { isStream } from './server/scoped-stream.ts';
export { system as systemError, thrown as thrownError } from './base/system-error.ts';
export { checkTensorsServed, invokeServed, served, servedClassOf } from './agent/gate.ts';
export { callLabelled, collectInWaitAll } from './calls.ts';
export { withoutSlot } from './server/inbound-call.ts';
export { plainJson, plainText } from './base/plain-text.ts';
export { classNameOf, errorName } from './base/error-name.ts';
export { type RecentCall } from './inspection/call-log.ts';
export { MAX_METHODS } from './inspection/limits.ts';
export type { AgentMetrics, PeerMetrics } from './inspection/metrics.ts';
export type { Observers } from './base/call-observers.ts';
export type { CallObserver, ObservedCall, ObservedHandler } from './base/observed-call.ts';
export type { Budget, OpenCall, SessionReport, WorkerReport } from './inspection/report.ts';
export { handledMethod, incomingTrace, methodHandledHere, withTrace } from './inspection/trace.ts';
export { unwatchAbort, watchAbort } from './base/abort-signals.ts';
export { cancelled, cancelledText } from './base/cancelled.ts';
export { DECISIONS_PER_EPOCH } from './protocol/membership.ts';
export type { CallCollectives, CallMaker, CallMembers, CallingAgent } from './agent/calling-agent.ts';
export { becomeDefault, forgetDefault } from './agent/default-agent.ts';
export { EventHub } from './agent/events.ts';
export type { Answer, CallForm } from './client/pending-call.ts';
export { MAX_TIMER_MS } from './base/platform.ts';
export { attempt } from './base/attempt.ts';
export { Served } from './base/served.ts';
export { within } from './base/within.ts';
