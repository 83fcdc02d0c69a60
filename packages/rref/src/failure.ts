/** @file What creations failed with: in PyTorch's words where they were cut off, and as the failures that control messages carry. */
import { RpcError, rpcInfo, type WorkerInfo } from '@backwire/rpc';
import { isRpcErrorCode } from '@backwire/rpc/internal';
import type { Failure } from './protocol/messages.ts';

export function errorOf(failure: Failure, peer: WorkerInfo): RpcError {
  // What came from a peer may be of a later version.
  const code = isRpcErrorCode(failure.code) ? failure.code : 'failed-precondition';
  return new RpcError(code, failure.text, { peer });
}

/** What references that were to be sent have failed with, for reasons that are not the sender's. */
const happened = new WeakSet();

/** `error`, noted as of something that happened elsewhere and is no mistake of whoever sends. */
export function asElsewhere<E>(error: E): E {
  if (typeof error === 'object' && error !== null) happened.add(error);
  return error;
}

/** Whether `error` was noted so. */
export function isElsewhere(error: unknown): boolean {
  return typeof error === 'object' && error !== null && happened.has(error);
}

export function failureOf(error: unknown): Failure {
  const { code, message } = RpcError.from(error);
  return { code, text: message };
}

/** What PyTorch says, and programs match on. */
const TIMED_OUT =
  'RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist.';

const CANCELLED =
  'RRef creation via rpc.remote() was cancelled, and it is possible that the RRef on the owner node does not exist.';

export function creationTimedOut(cause: RpcError, owner: WorkerInfo): RpcError {
  return new RpcError(cause.code, TIMED_OUT, { executed: cause.executed, peer: owner, cause });
}

/** A creation that its caller's time or signal ended, said as such; undefined for another failure. */
export function creationCutOff(error: unknown, owner: WorkerInfo): RpcError | undefined {
  const info = rpcInfo(error);
  if (info?.code === 'deadline-exceeded') return creationTimedOut(info, owner);
  if (info?.code !== 'cancelled') return undefined;
  return new RpcError(info.code, CANCELLED, { executed: info.executed, peer: owner, cause: error });
}
