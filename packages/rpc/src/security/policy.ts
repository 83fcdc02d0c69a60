/** @file What an agent's security option means: which proof and which encryption, and that nothing is open by accident. */
import { lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { invalidArgument, RpcError } from '../base/errors.ts';
import { newSecret, SECRET_LETTERS } from '../base/ids.ts';
import type { Security } from '../base/options.ts';
import { isLoopback } from '../base/loopback.ts';
import { unseen } from './keys.ts';
import { findKeys, keyOf, type Keys } from './secret.ts';

/** How the connections of one agent, and its store, are protected. */
export interface ResolvedSecurity {
  /**
   * - 'psk': TCP is TLS 1.3 with a pre-shared key, everything else proves the secret with 'hmac';
   * - 'hmac': both sides prove that they hold the secret, bytes are in the clear;
   * - 'mtls': TCP is TLS with certificates;
   * - 'none': nothing is proved.
   */
  readonly mode: 'psk' | 'hmac' | 'mtls' | 'none';
  readonly keys: Keys | undefined;
  readonly mtls: { readonly key: string; readonly cert: string; readonly ca: string } | undefined;
  /** Whether what goes by TCP in the clear, on connections that this worker dials, carries checksums; undefined = beyond loopback. */
  readonly checksums: boolean | undefined;
  /** The secret is the one that all processes of this user on this host share, because none was given. */
  readonly automatic: boolean;
}

export interface SecurityContext {
  /** The address to be bound. @default loopback */
  readonly bind?: string | undefined;
  /** @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

/**
 * Without an option: the secret of the environment, with 'psk' beyond loopback and 'hmac' on it; without a secret either, on loopback,
 * a secret that this user's processes on this host share by a private file.
 *
 * @throws RpcError 'invalid-argument' when the address is beyond loopback and nothing protects it; 'failed-precondition' for secrets
 *   that are missing or unfit.
 */
export function resolveSecurity(security: Security | undefined, context: SecurityContext = {}): ResolvedSecurity {
  const { bind = '127.0.0.1', env } = context;
  const open = !isLoopback(bind);
  const base = { keys: undefined, mtls: undefined, checksums: undefined, automatic: false };
  switch (security?.mode) {
    case 'none':
      if (!security.iUnderstand) throw invalidArgument("security mode 'none' needs iUnderstand: true");
      return { ...base, mode: 'none', checksums: security.checksums };
    case 'mtls':
      // Same-host connections carry no certificates: they prove the secret of the user.
      return {
        ...base,
        mode: 'mtls',
        mtls: unseen({ key: security.key, cert: security.cert, ca: security.ca }),
        keys: findKeys({ env }) ?? userKeys(),
        automatic: findKeys({ env }) === undefined,
      };
    case 'psk':
    case 'hmac': {
      const keys = findKeys({ secret: security.secret, secretFile: security.secretFile, env });
      if (keys === undefined) {
        throw new RpcError(
          'failed-precondition',
          `security mode '${security.mode}' needs a secret: set security.secret or BACKWIRE_SECRET`,
        );
      }
      return { ...base, mode: security.mode, keys, checksums: security.checksums };
    }
    case undefined: {
      const keys = findKeys({ env });
      if (keys !== undefined) return { ...base, mode: open ? 'psk' : 'hmac', keys };
      if (open) throw insecureBind(bind);
      return { ...base, mode: 'hmac', keys: userKeys(), automatic: true };
    }
  }
}

/** Refuses to be reachable by other machines without a secret. */
export function insecureBind(host: string): RpcError {
  return invalidArgument(
    `other machines reach ${host}: set a secret (security.secret or BACKWIRE_SECRET), or security: { mode: 'none', iUnderstand: true }`,
  );
}

/**
 * The secret of this user on this host, made by whoever asks first: a file of mode 0600 in a directory of mode 0700.
 * @throws RpcError 'failed-precondition' when somebody else owns or may read either.
 */
export function userKeys(directory = join(tmpdir(), `backwire-${process.getuid?.() ?? 'user'}`)): Keys {
  const path = join(directory, 'secret');
  try {
    mkdirSync(directory, { mode: 0o700, recursive: true });
    checkPrivate(directory, 'directory');
    try {
      writeFileSync(path, newSecret(), { mode: 0o600, flag: 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    return [keyOf(readSecret(path), `the secret in '${path}'`)];
  } catch (error) {
    if (error instanceof RpcError) throw error;
    throw new RpcError(
      'failed-precondition',
      `no secret was given and none can be kept in '${directory}' (${error instanceof Error ? error.message : String(error)}): set BACKWIRE_SECRET`,
      { cause: error },
    );
  }
}

/** Whoever lost the race to create the file may find it before it is filled. */
function readSecret(path: string): Uint8Array {
  checkPrivate(path, 'file');
  for (let tries = 0; ; tries++) {
    const text = readFileSync(path, 'utf8');
    if (text.length === SECRET_LETTERS || tries === 50) return Buffer.from(text);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  }
}

function checkPrivate(path: string, what: 'directory' | 'file'): void {
  if (process.platform === 'win32') return;
  const stat = lstatSync(path);
  const kind = what === 'directory' ? stat.isDirectory() : stat.isFile();
  if (!kind || stat.uid !== process.getuid?.() || (stat.mode & 0o077) !== 0) {
    throw new RpcError(
      'failed-precondition',
      `the ${what} '${path}' is not this user's alone: set BACKWIRE_SECRET, or remove it`,
    );
  }
}
