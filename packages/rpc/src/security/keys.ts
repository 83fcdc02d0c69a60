/** @file The secrets of a group and the keys that are derived from them. Runs in browsers too. */
import { RpcError } from '../base/errors.ts';
import { hkdfSha256, sha256 } from './digest.ts';

/** One secret of a group. Two are accepted while they are being changed. */
export interface Key {
  /** Names the key without telling it: the first 16 hex digits of a digest. */
  readonly id: string;
  /** The secret itself, at least 16 bytes. */
  readonly secret: Uint8Array;
}

/** The secrets of a group: the first is used, all are accepted. */
export type Keys = readonly [Key, ...Key[]];

/** Shorter secrets can be guessed. */
const MIN_SECRET_BYTES = 16;
/** One in use and one on its way in or out. */
const MAX_KEYS = 2;
const encoder = new TextEncoder();

/** A 32-byte key for one purpose in one group, so that a leak of one tells nothing of the others. */
export function deriveKey(key: Key, group: string, purpose: string): Uint8Array {
  return hkdfSha256(key.secret, encoder.encode(group), encoder.encode(`backwire ${purpose} v1`));
}

/** @throws RpcError 'invalid-argument' for a secret that is too short. */
export function keyOf(secret: Uint8Array, where = 'the secret'): Key {
  if (secret.byteLength < MIN_SECRET_BYTES) {
    throw new RpcError(
      'invalid-argument',
      `${where} has ${secret.byteLength} bytes; at least ${MIN_SECRET_BYTES} are needed`,
    );
  }
  if (new Set(secret).size < 4) throw new RpcError('invalid-argument', `${where} is a placeholder, not a secret`);
  const id = toHex(sha256(encoder.encode('backwire key id\0'), secret).subarray(0, 8));
  return { id, secret: Uint8Array.from(secret) };
}

/** The secrets in a text: one, or two on lines of their own. @throws RpcError 'invalid-argument'. */
export function keysOf(text: string, where: string): Keys {
  const parts = text
    .split('\n')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const [first, ...rest] = parts.map((part) => keyOf(encoder.encode(part), where));
  if (first === undefined) throw new RpcError('invalid-argument', `${where} is empty`);
  if (parts.length > MAX_KEYS) {
    throw new RpcError('invalid-argument', `${where} holds ${parts.length} secrets; at most ${MAX_KEYS} are accepted`);
  }
  return [first, ...rest];
}

/** Bytes as hex digits. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The bytes of hex digits. */
export function fromHex(text: string): Uint8Array {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
