/** @file How a call fails on the side that made it: too late, given up, or made to a worker that leaves. */
import { RpcError, type Executed } from './errors.ts';
import type { Peer } from './peer.ts';
import type { WorkerInfo } from './worker-info.ts';

export function timedOut(timeoutMs: number, executed: Executed, peer: Peer): RpcError {
  const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error; the call was to worker '${peer.worker.name}'`;
  return new RpcError('deadline-exceeded', text, { executed, peer: peer.worker });
}

export function leaving(peer: Peer): RpcError {
  return new RpcError('draining', `worker '${peer.worker.name}' is leaving and takes no more calls`, {
    peer: peer.worker,
  });
}

export function aborted(reason: unknown, executed: Executed, peer: WorkerInfo | undefined): RpcError {
  return new RpcError('cancelled', 'the call was cancelled', { executed, cause: reason, peer });
}
