/** @file The other workers of a context, some of whom may be gone. */
import type { WorkerInfo } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import type { MessageType } from '@backwire/wire';
import type { MemberRef } from './protocol/ids.ts';

/** Sends a control message to a worker that is still there, and not to this one. */
export function tell(host: ExtensionHost, id: number, type: MessageType, payload: Uint8Array): void {
  if (id === host.self.id) return;
  try {
    const worker = host.resolve(id);
    if (host.isAlive(worker)) host.control(worker, type, payload);
  } catch (error) {
    host.logger.debug({ error, worker: id }, 'a worker of an autograd context is gone');
  }
}

/** The present life of a worker, which may be this one. */
export function incarnationOf(host: ExtensionHost, worker: WorkerInfo): number {
  return worker.id === host.self.id ? host.incarnation : host.incarnationOf(worker);
}

/** A worker in its present life. */
export function memberOf(host: ExtensionHost, worker: WorkerInfo): MemberRef {
  return { worker: worker.id, incarnation: incarnationOf(host, worker) };
}
