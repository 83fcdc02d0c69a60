/** @file What a build was made of, so that packing can tell whether there is one and whether it is of today's sources. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where a build leaves the digest of its sources. It is not published. */
export const STAMP = 'dist/.sources';

/** A digest of everything in the package's `src` that is built, and of what its manifest says of entries. */
export function digestOf(folder: string): string {
  const hash = createHash('sha256');
  const { exports, bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
  hash.update(JSON.stringify({ exports, bin }));
  const files = readdirSync(join(folder, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts') && !/\/testdata(\/|$)/.test(entry.parentPath))
    .map((entry) => join(entry.parentPath, entry.name));
  for (const file of files.sort()) {
    hash.update(`\0${file.slice(folder.length)}\0`);
    hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** Why the package in `folder` cannot be packed as it is; undefined when its build is there and is of these sources. */
export function whyNotBuilt(folder: string): string | undefined {
  if (!existsSync(join(folder, STAMP))) return 'it was not built';
  if (readFileSync(join(folder, STAMP), 'utf8') !== digestOf(folder))
    return 'its sources have changed since it was built';
  return undefined;
}
