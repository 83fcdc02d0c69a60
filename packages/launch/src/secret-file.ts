/** @file Where the fresh secret of a group on this host is kept while it runs, so that its user can look at it from another terminal. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { userFolder } from '@backwire/rpc/internal';

/** A secret that is kept. */
export interface KeptSecret {
  readonly path: string | undefined;
  /** Removes it. */
  forget(): void;
}

/**
 * Writes the secret of the group whose store has that port to a file that only this user can read. Where that cannot be, nothing is
 * written: the group does without.
 */
export function keepSecret(secret: string, port: number): KeptSecret {
  try {
    const path = join(userFolder(), `run-${port}`);
    // What a launcher that was killed left behind.
    rmSync(path, { force: true });
    writeFileSync(path, secret, { mode: 0o600, flag: 'wx' });
    return { path, forget: () => rmSync(path, { force: true }) };
  } catch {
    return NOT_KEPT;
  }
}

export const NOT_KEPT: KeptSecret = { path: undefined, forget: () => undefined };
