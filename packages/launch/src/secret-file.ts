/** @file Where the fresh secret of a group on this host is kept while it runs, so that its user can look at it from another terminal. */
import { lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Writes the secret of the group whose store has that port to a file that only this user can read. Returns how to remove it. Where that
 * cannot be, nothing is written: the group does without.
 */
export function keepSecret(secret: string, port: number): () => void {
  const user = process.getuid?.();
  const folder = join(tmpdir(), `backwire-${user ?? 'user'}`);
  const path = join(folder, `run-${port}`);
  try {
    mkdirSync(folder, { mode: 0o700, recursive: true });
    const { uid, mode } = lstatSync(folder);
    // Somebody else's folder of that name could be read by them.
    if (user !== undefined && (uid !== user || (mode & 0o077) !== 0)) return () => undefined;
    // What a launcher that was killed left behind.
    rmSync(path, { force: true });
    writeFileSync(path, secret, { mode: 0o600, flag: 'wx' });
  } catch {
    return () => undefined;
  }
  return () => rmSync(path, { force: true });
}
