/** @file What shows that an entry of the view was written by somebody who holds the group's secret: a store may be written by others. */
import type { ViewMember } from '../protocol/membership.ts';
import { hmacSha256, sameBytes } from './digest.ts';
import { deriveKey, fromHex, toHex, type Key, type Keys } from './keys.ts';

const encoder = new TextEncoder();
/** With which key each member's proof was found right: all agents of a process share a view, and each of them dials each of the others. */
const proved = new WeakMap<ViewMember, Uint8Array>();

/** What is said of a member where it is written down; who and where it is, which nobody else may say. */
export function proveMember(keys: Keys, group: string, member: ViewMember): string {
  return toHex(digest(keys[0], group, member));
}

/** Whether a member, or somebody else who holds one of the secrets, has said so. */
export function isProved(keys: Keys, group: string, member: ViewMember): boolean {
  const { proof } = member;
  if (typeof proof !== 'string' || !/^[0-9a-f]{64}$/.test(proof)) return false;
  const known = proved.get(member);
  if (known !== undefined && keys.some((key) => sameBytes(memberKey(key, group), known))) return true;
  const right = keys.find((key) => sameBytes(fromHex(proof), digest(key, group, member)));
  if (right !== undefined) proved.set(member, memberKey(right, group));
  return right !== undefined;
}

function digest(key: Key, group: string, { name, id, incarnation, endpoints, host, pid }: ViewMember): Uint8Array {
  const places = endpoints.map(({ transport, domain, address }) => [transport, domain, address]);
  const said = JSON.stringify([name, id, incarnation, places, host, pid]);
  return hmacSha256(memberKey(key, group), encoder.encode(said));
}

function memberKey(key: Key, group: string): Uint8Array {
  return deriveKey(key, group, 'member');
}
