/** @file The secrets of a group and the keys that are derived from them. Runs in browsers too. */
import { invalidArgument } from '../base/errors.ts';
import { hkdfSha256, scrypt, sha256 } from './digest.ts';
import { checkStrength } from './strength.ts';

/** One secret of a group. Two are accepted while they are being changed. */
export interface Key {
  /** The secret itself, at least 16 bytes. */
  readonly secret: Uint8Array;
}

/** The secrets of a group: the first is used, all are accepted. */
export type Keys = readonly [Key, ...Key[]];

/** Shorter secrets can be guessed. */
const MIN_SECRET_BYTES = 16;
/** One in use and one on its way in or out. */
const MAX_KEYS = 2;
export const KEY_ID_BYTES = 8;
/** Groups and secrets of one process whose roots are kept; the oldest is forgotten first. */
const MAX_ROOTS = 64;
const encoder = new TextEncoder();
const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const roots = new Map<string, Uint8Array>();
/** What was derived from each secret, of which every handshake asks several: by purpose and group, so many at most. */
const derived = new WeakMap<Key, Map<string, Uint8Array>>();
const MAX_DERIVED = 64;

/**
 * What everything of a secret and a group is derived from, by scrypt: who saw a connection begin pays a twentieth of a second and 16 MiB for
 * each guess, and again for each group. Worked out once in a process.
 */
function rootOf({ secret }: Key, group: string): Uint8Array {
  const name = `${toHex(sha256(secret))}#${group}`;
  const known = roots.get(name);
  if (known !== undefined) return known;
  const root = scrypt(secret, encoder.encode(`backwire group\0${group}`));
  makeRoom(roots, MAX_ROOTS);
  roots.set(name, root);
  return root;
}

/** A 32-byte key for one purpose in one group, so that a leak of one tells nothing of the others. Not to be changed: it is worked out once. */
export function deriveKey(key: Key, group: string, purpose: string): Uint8Array {
  let own = derived.get(key);
  if (own === undefined) derived.set(key, (own = new Map<string, Uint8Array>()));
  const name = `${purpose}#${group}`;
  const known = own.get(name);
  if (known !== undefined) return known;
  const made = hkdfSha256(rootOf(key, group), encoder.encode(group), encoder.encode(`backwire ${purpose} v2`));
  makeRoom(own, MAX_DERIVED);
  own.set(name, made);
  return made;
}

function makeRoom(kept: Map<string, unknown>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size < most) break;
    kept.delete(oldest);
  }
}

/** Names the key in one group, without telling it; others in each group. */
export function keyIdBytes(key: Key, group: string): Uint8Array {
  return deriveKey(key, group, 'key id').subarray(0, KEY_ID_BYTES);
}

/** The same as 16 hex digits. */
export function keyIdIn(key: Key, group: string): string {
  return toHex(keyIdBytes(key, group));
}

/** @throws RpcError 'invalid-argument' for a secret that is too short, or could be guessed. */
export function keyOf(secret: Uint8Array, where = 'the secret'): Key {
  if (secret.byteLength < MIN_SECRET_BYTES) {
    throw invalidArgument(
      `${where} has ${secret.byteLength} bytes; at least ${MIN_SECRET_BYTES} are needed: make one with \`openssl rand -base64 32\``,
    );
  }
  checkStrength(secret, where);
  return unseen({ secret: Uint8Array.from(secret) });
}

/** The same object, which `console.log` and `util.inspect` do not look into: whoever prints an agent to find a mistake prints no secret. */
export function unseen<T extends object>(value: T): T {
  return Object.defineProperty(value, Symbol.for('nodejs.util.inspect.custom'), { value: () => '[not shown]' });
}
/** The secrets in a text: one, or two on lines of their own. @throws RpcError 'invalid-argument'. */
export function keysOf(text: string, where: string): Keys {
  const parts = text
    .split('\n')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const [first, ...rest] = parts.map((part) => keyOf(encoder.encode(part), where));
  if (first === undefined) throw invalidArgument(`${where} is empty`);
  if (parts.length > MAX_KEYS) {
    throw invalidArgument(`${where} holds ${parts.length} secrets; at most ${MAX_KEYS} are accepted`);
  }
  return [first, ...rest];
}

/** Bytes as hex digits. */
export function toHex(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i++) text += HEX[bytes[i] as number] as string;
  return text;
}

/** The bytes of hex digits. */
export function fromHex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}
