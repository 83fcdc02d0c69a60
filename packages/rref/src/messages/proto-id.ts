/** @file Ids as the shared schema has them, and the error of what cannot be read. */
import { RpcError } from '@backwire/rpc';
import type { commonProto } from '@backwire/wire/internal';
import { incarnationOf, MAX_WORKER, memberKey, workerOf, type GlobalId } from '../protocol/ids.ts';

export function toProto(id: GlobalId): commonProto.Id {
  return { worker: workerOf(id.member), incarnation: incarnationOf(id.member), local: id.local };
}

/** @throws RpcError 'decode-error' */
export function fromProto(id: commonProto.Id | undefined): GlobalId {
  if (id === undefined || id.worker > MAX_WORKER || !Number.isSafeInteger(id.local)) throw malformed('an id');
  return { member: memberKey(id.worker, id.incarnation), local: id.local };
}

export function malformed(what: string): RpcError {
  return new RpcError('decode-error', `malformed ${what}`);
}
