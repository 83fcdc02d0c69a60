/** @file Between errors and the failures that pass messages carry. */
import { RemoteError, RpcError, rpcInfo, WorkerInfo } from '@backwire/rpc';
import { isRpcErrorCode } from '@backwire/rpc/internal';
import type { Failure } from './protocol/pass-types.ts';

/** What a peer is told of an error, and what the origin makes one of again. */
export function failureOf(error: unknown): Failure {
  const info = rpcInfo(error);
  const text = error instanceof Error ? error.message : String(error);
  if (info === undefined || info instanceof RemoteError) {
    return { code: '', name: error instanceof Error ? error.name : 'Error', text, cause: error };
  }
  const prefix = `${info.code}: `;
  const bare = text.startsWith(prefix) ? text.slice(prefix.length) : text;
  return { code: info.code, name: 'RpcError', text: bare, peer: info.peer, cause: error };
}

/** The error of a pass that failed. */
export function errorOf(failure: Failure): Error {
  const peer = failure.peer === undefined ? undefined : new WorkerInfo(failure.peer.name, failure.peer.id);
  const cause = failure.cause === undefined ? {} : { cause: failure.cause };
  if (isRpcErrorCode(failure.code) && failure.code !== 'remote-error') {
    return new RpcError(failure.code, failure.text, { executed: 'maybe', peer, ...cause });
  }
  if (failure.cause !== undefined) return new Error(failure.text, { cause: failure.cause });
  return new RemoteError(failure.text, { remoteName: failure.name, remoteStack: undefined, peer });
}
