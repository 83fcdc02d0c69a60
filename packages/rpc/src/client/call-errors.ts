/** @file Why calls fail on the side that makes them. */
import { cancelled } from '../base/cancelled.ts';
import { RpcError, type Executed } from '../base/errors.ts';
import type { WorkerInfo } from '../base/worker-info.ts';

export function timedOut(timeoutMs: number, executed: Executed, peer: WorkerInfo): RpcError {
  const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error; the call was to worker '${peer.name}'`;
  return new RpcError('deadline-exceeded', text, { executed, peer });
}

export function leaving(peer: WorkerInfo): RpcError {
  return new RpcError('draining', `worker '${peer.name}' is leaving and takes no more calls`, { peer });
}

export function aborted(reason: unknown, executed: Executed, peer: WorkerInfo | undefined): RpcError {
  return cancelled('the call', reason, { executed, peer });
}
