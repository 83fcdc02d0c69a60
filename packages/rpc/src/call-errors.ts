/** @file How a call fails on the side that made it: too late, given up, or made to a worker that leaves. */
import { RpcError, type Executed } from './errors.ts';
import type { WorkerInfo } from './worker-info.ts';

/** A peer, as far as errors name it. */
interface HasWorker {
  readonly worker: WorkerInfo;
}

export function timedOut(timeoutMs: number, executed: Executed, peer: HasWorker): RpcError {
  const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error; the call was to worker '${peer.worker.name}'`;
  return new RpcError('deadline-exceeded', text, { executed, peer: peer.worker });
}

export function leaving(peer: HasWorker): RpcError {
  return new RpcError('draining', `worker '${peer.worker.name}' is leaving and takes no more calls`, {
    peer: peer.worker,
  });
}

export function aborted(reason: unknown, executed: Executed, peer: WorkerInfo | undefined): RpcError {
  return new RpcError('cancelled', 'the call was cancelled', { executed, cause: reason, peer });
}
