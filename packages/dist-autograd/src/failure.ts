/** @file Between errors and the failures that pass messages carry. */
import { RemoteError, RpcError, rpcInfo, WorkerInfo } from '@backwire/rpc';
import { attempt, bareText, errorTypeOf, isRpcErrorCode } from '@backwire/rpc/internal';
import { ContextRefused } from './protocol/context.ts';
import { classOf } from './protocol/pass-failures.ts';
import type { Failure } from './protocol/pass-types.ts';

/** What a peer is told of an error, and what the origin makes one of again. */
export function failureOf(error: unknown): Failure {
  const info = rpcInfo(error);
  const text = error instanceof Error ? error.message : String(error);
  if (info === undefined || info instanceof RemoteError) {
    return { code: '', name: classOf(error), text, cause: error };
  }
  return { code: info.code, name: 'RpcError', text: bareText(info.code, text), peer: info.peer, cause: error };
}

/** What `fn` returns. @throws RpcError in place of a ContextRefused: 'resource-exhausted' of what is full, else 'failed-precondition'. */
export function unlessRefused<T>(fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    if (!(error instanceof ContextRefused)) throw error;
    const code = error.reason === 'full' ? 'resource-exhausted' : 'failed-precondition';
    throw new RpcError(code, error.message, { cause: error });
  }
}

/** The error of a pass that failed; of the class that was thrown, when that is standard or registered. */
export function errorOf(failure: Failure): Error {
  const peer = peerOf(failure);
  const cause = failure.cause === undefined ? {} : { cause: failure.cause };
  if (isRpcErrorCode(failure.code) && failure.code !== 'remote-error') {
    return new RpcError(failure.code, failure.text, { executed: 'maybe', peer, ...cause });
  }
  if (failure.cause !== undefined) return rebuild(failure) ?? new Error(failure.text, { cause: failure.cause });
  const remote = new RemoteError(failure.text, { remoteName: failure.name, remoteStack: undefined, peer });
  return rebuild({ ...failure, cause: remote }) ?? remote;
}

/** The worker that a failure is about; undefined when what came names none. */
function peerOf({ peer }: Failure): WorkerInfo | undefined {
  // The failure counts, whatever else was wrong with its message.
  return attempt(() => (peer === undefined ? undefined : new WorkerInfo(peer.name, peer.id)));
}

function rebuild({ name, text, cause }: Failure): Error | undefined {
  const ctor = errorTypeOf(name);
  if (ctor === undefined) return undefined;
  // A class of the program may want more than a text.
  return attempt(() =>
    Object.defineProperty(new ctor(text), 'cause', { value: cause, writable: true, configurable: true }),
  );
}
