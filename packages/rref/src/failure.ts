/** @file Between errors and the failures that control messages carry. */
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import { isRpcErrorCode } from '@backwire/rpc/internal';
import type { Failure } from './protocol/messages.ts';

export function errorOf(failure: Failure, peer: WorkerInfo): RpcError {
  // What came from a peer may be of a later version.
  const code = isRpcErrorCode(failure.code) ? failure.code : 'failed-precondition';
  return new RpcError(code, failure.text, { peer });
}

export function failureOf(error: unknown): Failure {
  const { code, message } = RpcError.from(error);
  return { code, text: message };
}
