/** @file The extension's name, and what is said of a worker that lacks an extension. */
import { RpcError, type WorkerInfo } from '@backwire/rpc';

/** The extension's name in handshakes and header tables. */
export const EXTENSION_NAME = 'rref';

export function lacksExtension(worker: WorkerInfo, extension: string): RpcError {
  return new RpcError('failed-precondition', `worker '${worker.name}' has no extension '${extension}'`, {
    peer: worker,
  });
}
