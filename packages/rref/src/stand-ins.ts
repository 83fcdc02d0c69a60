/** @file RRefs of what is elsewhere, for those who make stand-ins and take them back. */
import type { RpcAgent } from '@backwire/rpc';
import { RRefHandle } from './client/handle.ts';
import { sessionOf } from './extension.ts';
import { StandIn } from './owner/stand-in.ts';
import type { RRef } from './types.ts';

/**
 * Makes RRefs that this agent owns, to be put into answers: those who get one hold the value, and nobody else does.
 * @throws RpcError 'failed-precondition' for an agent without the extension; so does what is returned once it has shut down.
 */
export function rrefsToSend(agent: RpcAgent): (value: StandIn) => RRef<unknown> {
  const session = sessionOf(agent);
  return (value) => session.toSend(value);
}

/** What stands on this worker for what an RRef refers to, once it is there; undefined for an RRef of something else, or of another worker. */
export function standInOf(rref: object): StandIn | undefined | Promise<StandIn | undefined> {
  const owned = rref instanceof RRefHandle ? rref.owned : undefined;
  if (owned === undefined) return undefined;
  return owned.settled ? standIn(owned.now()) : owned.wait().then(standIn);
}

function standIn(value: unknown): StandIn | undefined {
  return value instanceof StandIn ? value : undefined;
}
