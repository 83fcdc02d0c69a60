/** @file Why a worker cannot join, in words. */
import { RpcError } from '../base/errors.ts';
import type { View, ViewMember } from '../protocol/membership.ts';

export function notUnique(kind: 'name-taken' | 'id-taken', member: ViewMember, by: ViewMember): RpcError {
  const text =
    kind === 'name-taken'
      ? `RPC worker name ${member.name} is not unique. Workers ${member.id} and ${by.id} share the same name. Give each its own, as in name: \`worker\${process.env.RANK}\``
      : `RPC worker id ${member.id} is not unique. Workers ${member.name} and ${by.name} share the same id.`;
  return new RpcError('failed-precondition', text);
}

/** Two kinds of group, or two sizes; undefined = one without a fixed size. */
export function mixed(theirs: number | undefined, ours: number | undefined): string {
  if (theirs !== undefined && ours !== undefined)
    return `the group is one of ${theirs} workers, and this worker expects ${ours}: the world sizes differ`;
  const kind = theirs === undefined ? 'one without a fixed size' : `one of ${theirs} workers`;
  return `RPC group mixes statically and dynamically initialized members which is not supported. The group is ${kind}`;
}

/** What those who wait for a group of another size than `name` are told. */
export function differs(name: string, expected: number, size: number): string {
  return `worker '${name}' expects a group of ${expected} workers, and this worker one of ${size}: the world sizes differ`;
}

/** `conflicts`: what was told of workers that wanted the name or id of another, or another size, and are not there for that. */
export function missing(view: View, size: number, conflicts: readonly string[] = []): RpcError {
  const why = [`the group is not complete in time: ${joinedText(view, size)}; ${sizeText(size)}`, ...conflicts];
  return new RpcError('deadline-exceeded', why.join('. '));
}

/** Where the size comes from that the group does not reach. */
export function sizeText(size: number): string {
  return `the group has ${size} because worldSize says so`;
}

/** "1 of 2 workers joined, missing ranks 1". */
export function joinedText(view: View, size: number): string {
  const here = new Set(view.members.map(({ id }) => id));
  const ranks = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !here.has(rank));
  const shown = ranks.slice(0, 20).join(', ') + (ranks.length > 20 ? ', …' : '');
  return `${view.members.length} of ${size} workers joined, missing ranks ${shown}`;
}
