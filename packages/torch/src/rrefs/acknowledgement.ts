/** @file The answer to what is told and not asked: it was taken, and says no more. */
import type { WorkerInfo } from '@backwire/rpc';
import { failed } from '../calls/caller.ts';
import type { TorchResponse } from '../messages/commands.ts';

/** @throws for an answer that is not the acknowledgement. */
export function acknowledged(response: TorchResponse, kind: TorchResponse['kind'], from: WorkerInfo): null {
  if (response.kind !== kind) throw failed(response, from);
  return null;
}
