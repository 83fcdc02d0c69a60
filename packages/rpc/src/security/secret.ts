/** @file Where the secret of a group comes from, and the keys that are derived from it. */
import { createHash, hkdfSync } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { RpcError } from '../errors.ts';

/** One secret of a group. Two are accepted while they are being changed. */
export interface Key {
  /** Names the key without telling it: the first 16 hex digits of a digest. */
  readonly id: string;
  /** The secret itself, at least 16 bytes. */
  readonly secret: Uint8Array;
}

/** The secrets of a group: the first is used, all are accepted. */
export type Keys = readonly [Key, ...Key[]];

/** Where to look for secrets. */
export interface SecretSource {
  /** Wins over all others. While keys are being changed, two: one a line, the one in use first. */
  readonly secret?: string | Uint8Array | undefined;
  readonly secretFile?: string | undefined;
  /** @default process.env: BACKWIRE_SECRET, then BACKWIRE_SECRET_FILE */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Shorter secrets can be guessed. */
export const MIN_SECRET_BYTES = 16;
/** One in use and one on its way in or out. */
export const MAX_KEYS = 2;
/** A secret file is a line or two; more is the wrong file. */
const MAX_SECRET_FILE_BYTES = 4_096;

/**
 * The group's secrets: the option, else the file, else BACKWIRE_SECRET, else the file that BACKWIRE_SECRET_FILE names; undefined when
 * there is none.
 * @throws RpcError 'invalid-argument' for a secret that is too short, a placeholder, or a file that others may read.
 */
export function findKeys(source: SecretSource = {}): Keys | undefined {
  const env = source.env ?? process.env;
  if (source.secret instanceof Uint8Array) return [keyOf(source.secret)];
  if (source.secret !== undefined) return keysOf(source.secret, 'security.secret');
  if (source.secretFile !== undefined) return readSecretFile(source.secretFile);
  if (env['BACKWIRE_SECRET'] !== undefined && env['BACKWIRE_SECRET'] !== '') {
    return keysOf(env['BACKWIRE_SECRET'], 'BACKWIRE_SECRET');
  }
  if (env['BACKWIRE_SECRET_FILE'] !== undefined && env['BACKWIRE_SECRET_FILE'] !== '') {
    return readSecretFile(env['BACKWIRE_SECRET_FILE']);
  }
  return undefined;
}

/** A 32-byte key for one purpose in one group, so that a leak of one tells nothing of the others. */
export function deriveKey(key: Key, group: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key.secret, group, `backwire ${purpose} v1`, 32));
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
  const id = createHash('sha256').update('backwire key id\0').update(secret).digest('hex').slice(0, 16);
  return { id, secret: Uint8Array.from(secret) };
}

function keysOf(text: string, where: string): Keys {
  const parts = text
    .split('\n')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const [first, ...rest] = parts.map((part) => keyOf(new TextEncoder().encode(part), where));
  if (first === undefined) throw new RpcError('invalid-argument', `${where} is empty`);
  if (parts.length > MAX_KEYS) {
    throw new RpcError('invalid-argument', `${where} holds ${parts.length} secrets; at most ${MAX_KEYS} are accepted`);
  }
  return [first, ...rest];
}

function readSecretFile(path: string): Keys {
  const where = `the secret file '${path}'`;
  let text: string;
  try {
    const stat = statSync(path);
    // Windows has no such mode bits.
    if (process.platform !== 'win32' && (stat.mode & 0o077) !== 0) {
      const mode = (stat.mode & 0o777).toString(8).padStart(4, '0');
      throw new RpcError('invalid-argument', `${where} has mode ${mode}; others may read it: chmod 600 it`);
    }
    if (stat.size > MAX_SECRET_FILE_BYTES) throw new RpcError('invalid-argument', `${where} is too large to be one`);
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof RpcError) throw error;
    throw new RpcError('invalid-argument', `${where} cannot be read`, { cause: error });
  }
  return keysOf(text, where);
}
