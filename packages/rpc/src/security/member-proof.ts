/** @file What shows that an entry of the view was written by somebody who holds the group's secret: a store may be written by others. */
import type { ViewMember } from '../protocol/membership.ts';
import { hmacSha256, sameBytes } from './digest.ts';
import { deriveKey, fromHex, toHex, type Key, type Keys } from './keys.ts';

const encoder = new TextEncoder();

/** What is said of a member where it is written down; who and where it is, which nobody else may say. */
export function proveMember(keys: Keys, group: string, member: ViewMember): string {
  return toHex(digest(keys[0], group, member));
}

/** Whether a member, or somebody else who holds one of the secrets, has said so. */
export function isProved(keys: Keys, group: string, member: ViewMember): boolean {
  const { proof } = member;
  if (typeof proof !== 'string' || !/^[0-9a-f]{64}$/.test(proof)) return false;
  return keys.some((key) => sameBytes(fromHex(proof), digest(key, group, member)));
}

function digest(key: Key, group: string, { name, id, incarnation, endpoints, host, pid }: ViewMember): Uint8Array {
  const places = endpoints.map(({ transport, domain, address }) => [transport, domain, address]);
  const said = JSON.stringify([name, id, incarnation, places, host, pid]);
  return hmacSha256(deriveKey(key, group, 'member'), encoder.encode(said));
}
