/** @file Ids of RRefs and forks, as torch has them and as the protocol's tables do: a member there is a worker here, in its only life. */
import type { GlobalId } from '@backwire/rref/internal';
import type { TorchId } from '../values/objects.ts';

export function globalId({ worker, local }: TorchId): GlobalId {
  return { member: worker, local };
}

export function torchId({ member, local }: GlobalId): TorchId {
  return { worker: member, local };
}
