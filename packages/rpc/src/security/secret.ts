/** @file Where the secret of a group comes from: an option, a file, the environment. */
import { readFileSync, statSync } from 'node:fs';
import { invalidArgument, RpcError } from '../base/errors.ts';
import { keyOf, keysOf, type Keys } from './keys.ts';

export { deriveKey, keyIdIn, keyOf, type Key, type Keys } from './keys.ts';

/** Where to look for secrets. */
export interface SecretSource {
  /** Wins over all others. While keys are being changed, two: one a line, the one in use first. */
  readonly secret?: string | Uint8Array | undefined;
  readonly secretFile?: string | undefined;
  /** @default process.env: BACKWIRE_SECRET, then BACKWIRE_SECRET_FILE */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

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

function readSecretFile(path: string): Keys {
  const where = `the secret file '${path}'`;
  let text: string;
  try {
    const stat = statSync(path);
    // Windows has no such mode bits.
    if (process.platform !== 'win32' && (stat.mode & 0o077) !== 0) {
      const mode = (stat.mode & 0o777).toString(8).padStart(4, '0');
      throw invalidArgument(`${where} has mode ${mode}; others may read it: chmod 600 it`);
    }
    if (stat.size > MAX_SECRET_FILE_BYTES) throw invalidArgument(`${where} is too large to be one`);
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof RpcError) throw error;
    throw new RpcError('invalid-argument', `${where} cannot be read`, { cause: error });
  }
  return keysOf(text, where);
}
